"""Price table: the columns of all shapes say of each what its own rank says, and which rows are plans of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from estimator.communication.placement import groups_of
from estimator.estimate.assemble import lines_of, parts_in_line, parts_of, rank_of, setting_of
from estimator.scenario.plan import AXES, PLACEMENTS
from estimator.schedule.micro_batch import NAMES
from estimator.search.price_table import PriceTable, distinct, in_line, staged, table_of, usable_rows
from estimator.search.space import Sharing, Space, plan_of
from tests.estimator.examples import GPT, LLAMA, MIXTRAL, flawless
from tests.estimator.search.spaces import space

E = flawless(host_forward_s=1e-5, host_backward_s=2e-5, host_collective_s=1e-6, collective_start_s=1e-5)


@pytest.fixture(scope="module", params=[LLAMA, GPT, {**MIXTRAL, "dense_layers": 1}], ids=["dense", "tied", "experts"])
def opened(request) -> Space:
    return space(request.param, chips_per_node=4, nodes=2, framework="megatron", precision="bf16")


@pytest.mark.parametrize("placement", ["tp-cp-dp-pp", "dp-tp-pp-cp"])
def test_every_row_is_the_rank_of_its_plan(opened, placement):
    table, choices, shapes = table_of(opened, "ddp", E)
    cluster, training = opened.base.cluster, opened.base.training
    together = in_line(table, groups_of(table.degrees, placement, cluster.chips_per_node), cluster, E)
    count = len(table.choice)
    assert count == sum(map(len, shapes))
    random = np.random.default_rng(0)
    for row in random.choice(count, size=40, replace=False):
        choice = choices[table.choice[row]]
        shape = shapes[table.choice[row]][table.shape[row]]
        one = replace(opened.base, plan=plan_of(opened.fixed, choice, shape, placement=placement))
        rank = rank_of(one, E)
        setting = setting_of(one, rank)
        alone = parts_in_line(parts_of(rank, training, E), lines_of(rank, cluster, setting.groups, E))
        assert np.asarray(table.micro_batches)[row] == one.micro_batches
        for many, part in zip(
            (*together.blocks, together.embedding, together.head), (*alone.blocks, alone.embedding, alone.head),
            strict=True,
        ):  # fmt: skip
            found = {name: float(np.broadcast_to(getattr(many, name), count)[row]) for name in NAMES}
            assert found == pytest.approx({name: float(getattr(part, name)) for name in NAMES}, rel=1e-9, abs=1e-18)
        for name in (
            "embedding_parameters",
            "head_parameters",
            "message_bytes",
            "logits_peak_bytes",
            "head_kept_bytes",
        ):
            whole = float(np.broadcast_to(getattr(table.shard, name), count)[row])
            assert whole == pytest.approx(float(getattr(rank.shard, name)), rel=1e-12), name


def test_nothing_to_price_is_no_table():
    table, choices, shapes = table_of(space(LLAMA, {"dp": 3}), "ddp", E)
    assert (table, choices, shapes) == (None, [], [])


def table(opened: Space) -> PriceTable:
    found, _, _ = table_of(opened, "ddp", E)
    assert found is not None
    return found


def test_every_schedule_has_the_rows_whose_pipeline_it_divides():
    opened = space({**LLAMA, "layers": 8}, {"tp_kind": "1d", "recompute": "none"})
    found = table(opened)
    pp, micro_batches = np.asarray(found.degrees.pp), np.asarray(found.micro_batches)
    seen = {}
    for schedule, rows, chunks in staged(opened, found):
        # Pipelines of one stage come apart from the others.
        assert len(set(pp[rows] == 1)) == 1
        for row, virtual in zip(rows, chunks, strict=True):
            seen.setdefault(int(row), []).append((schedule, int(virtual)))
    assert sorted(seen) == list(range(len(pp)))
    for row, listed in seen.items():
        assert sorted(listed) == sorted(opened.stagings(int(pp[row]), int(micro_batches[row])))


def test_one_placement_stands_for_those_that_differ_in_idle_axes():
    opened = space(locked={"tp_kind": "1d", "recompute": "none"}, chips_per_node=8)
    found = table(opened)
    busy = sum(np.asarray(getattr(found.degrees, axis)) > 1 for axis in AXES)
    times = sum(distinct(opened, found, placement).astype(int) for placement in PLACEMENTS)
    assert list(times) == [{1: 1, 2: 2, 3: 6, 4: 24}[int(n)] for n in busy]
    assert distinct(space(locked={"placement": "pp-dp-cp-tp"}), found, "pp-dp-cp-tp").all()


def test_one_data_rank_shards_and_exchanges_nothing():
    opened = space(locked={"tp_kind": "1d"}, further={"overlap": (True, False)})
    found = table(opened)
    data = np.asarray(found.degrees.data)
    assert usable_rows(opened, found, Sharing(sharding="ddp")).all()
    for sharing in (Sharing(sharding="zero1"), Sharing(sharding="ddp", overlap=False)):
        assert list(usable_rows(opened, found, sharing)) == list(data > 1)


def test_experts_on_one_data_rank_are_exchanged_all_the_same():
    opened = space(MIXTRAL, {"tp_kind": "1d"}, further={"overlap": (True, False)})
    found = table(opened)
    data, copies = np.asarray(found.degrees.data), np.asarray(found.degrees.expert_data)
    usable = usable_rows(opened, found, Sharing(sharding="ddp", overlap=False))
    assert list(usable) == list((data > 1) | (copies > 1))
    assert (usable & (data == 1)).any()


@pytest.mark.parametrize(("ranks", "locked"), [(2, {}), (4, {}), (4, {"shard_ranks": 4})])
def test_a_copy_spans_fewer_ranks_than_all_unless_locked(ranks, locked):
    opened = space(locked=locked, chips_per_node=8)
    found = table(opened)
    data = np.asarray(found.degrees.data)
    expected = (data % ranks == 0) & (data >= ranks if locked else data > ranks)
    assert list(usable_rows(opened, found, Sharing(sharding="fsdp", shard_ranks=ranks))) == list(expected)
