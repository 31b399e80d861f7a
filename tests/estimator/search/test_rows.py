"""Rows: which shapes a schedule, a placement and a sharing make plans of their own."""

from __future__ import annotations

import numpy as np
import pytest

from estimator.cost.efficiency import efficiencies
from estimator.scenario.plan import AXES, PLACEMENTS
from estimator.search.price_table import Table, distinct, staged, table_of, usable_rows
from estimator.search.space import Sharing, Space
from tests.estimator.examples import LLAMA, MIXTRAL
from tests.estimator.search.spaces import space

E = efficiencies("default")


def table(opened: Space) -> Table:
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
