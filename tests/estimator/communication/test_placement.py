"""Placement: which ranks share a node, and which groups stay inside one."""

import numpy as np
import pytest

from estimator.communication.placement import Degrees, Groups, groups_of
from estimator.cost.collectives import Group
from estimator.scenario.plan import PLACEMENTS

ORDER = PLACEMENTS[0]


def groups(order: str = ORDER, *, per_node: int = 8, shard: int = 0, **degrees) -> Groups:
    found = Degrees(**{"tp": 1, "cp": 1, "dp": 1, "pp": 1, **degrees})
    return groups_of(Degrees(**{**{f: getattr(found, f) for f in found.__slots__}, "shard": shard or found.data}),
                     order, per_node)  # fmt: skip


@pytest.mark.parametrize(
    ("axis", "inner", "per_node"), [(8, 1, 8), (16, 1, 8), (4, 8, 1), (4, 4, 2), (2, 16, 1), (2, 2, 2), (4, 2, 4)]
)
def test_axes_fill_a_node_from_the_inside_out(axis, inner, per_node):
    assert groups(tp=inner, dp=axis).data == Group(ranks=axis, ranks_per_node=per_node)


def test_the_order_decides_who_is_near():
    degrees = {"tp": 4, "dp": 4, "pp": 4}
    near = {order: groups(order, **degrees) for order in ("tp-cp-dp-pp", "dp-cp-tp-pp", "pp-tp-cp-dp")}
    assert [(g.tp.ranks_per_node, g.data.ranks_per_node) for g in near.values()] == [(4, 2), (2, 4), (2, 1)]
    # Stages stay inside a node only where they come first.
    assert [g.send_across for g in near.values()] == [True, True, False]


@pytest.mark.parametrize("order", PLACEMENTS)
def test_one_node_holds_everything(order):
    found = groups(order, tp=2, cp=2, dp=2)
    for group in (found.tp, found.cp, found.data, found.shard):
        assert group.ranks_per_node == group.ranks
    assert not found.send_across


def test_context_ranks_count_as_data_ranks():
    found = groups(tp=2, cp=2, dp=8)
    assert found.data == Group(ranks=16, ranks_per_node=4)


def test_hybrid_shards_stay_near_and_their_copies_are_one_in_each_node():
    found = groups(dp=32, shard=8)
    assert found.shard == Group(ranks=8, ranks_per_node=8)
    assert found.replica == Group(ranks=4, ranks_per_node=1)
    # Two copies share a node where a shard takes half of it.
    halves = groups(dp=32, shard=4)
    assert halves.replica == Group(ranks=8, ranks_per_node=2)


def test_experts_are_laid_over_all_ranks_of_a_stage():
    found = groups(tp=2, dp=32, ep=8)
    assert found.ep == Group(ranks=8, ranks_per_node=8)
    assert found.expert_data == Group(ranks=8, ranks_per_node=1)
    split = groups(tp=2, dp=32, ep=8, expert_tp=2)
    assert split.expert_tp == Group(ranks=2, ranks_per_node=2)
    assert split.ep == Group(ranks=8, ranks_per_node=4)
    assert split.expert_data == Group(ranks=4, ranks_per_node=1)


def test_rows_of_a_grid_are_nearest():
    found = groups(tp=16, grid_side=4)
    assert found.grid_row == Group(ranks=4, ranks_per_node=4)
    assert found.grid_column == Group(ranks=4, ranks_per_node=2)
    cube = groups(tp=8, grid_side=2)
    assert cube.grid_depth == Group(ranks=2, ranks_per_node=2)


def test_no_group_has_more_ranks_in_a_node_than_it_has_or_than_fit():
    for order in PLACEMENTS:
        found = groups(order, tp=4, cp=2, dp=16, pp=2, per_node=8)
        for group in (found.tp, found.cp, found.data, found.shard, found.replica, found.expert_data):
            assert 1 <= group.ranks_per_node <= min(group.ranks, 8)


@pytest.mark.parametrize("order", PLACEMENTS)
def test_many_plans_at_once(order):
    rows = [(1, 1, 16, 1, 16), (8, 1, 4, 2, 4), (2, 4, 2, 4, 8), (4, 2, 8, 1, 2)]
    tp, cp, dp, pp, shard = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    together = groups_of(Degrees(tp=tp, cp=cp, dp=dp, pp=pp, shard=shard), order, 8)
    for i, (t, c, d, p, s) in enumerate(rows):
        alone = groups_of(Degrees(tp=t, cp=c, dp=d, pp=p, shard=s), order, 8)
        assert bool(together.send_across[i]) == alone.send_across
        for name in ("tp", "cp", "data", "shard", "replica"):
            one, many = getattr(alone, name), getattr(together, name)
            assert (many.ranks[i], np.broadcast_to(many.ranks_per_node, 4)[i]) == (one.ranks, one.ranks_per_node)
