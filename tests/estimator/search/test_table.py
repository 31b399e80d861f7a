"""Table: the columns of all shapes together say of each what its own rank says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from estimator.communication.placement import groups_of
from estimator.estimate.assemble import lines_of, parts_of, rank_of, setting_of
from estimator.schedule.micro_batch import NAMES
from estimator.search.price_table import in_line, table_of
from estimator.search.space import Space, plan_of
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
        alone = parts_of(rank, lines_of(rank, cluster, setting.groups, E), training, E)
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
