"""Space: choices, stagings, sharings and placements, and one name for plans that are the same."""

from __future__ import annotations

import itertools

import pytest

from estimator.scenario.plan import AXES, PLACEMENTS, SHARDINGS
from estimator.search.space import Sharing, canonical, divisors
from tests.estimator.examples import LLAMA
from tests.estimator.search.spaces import space


@pytest.mark.parametrize(
    ("value", "expected"), [(1, (1,)), (12, (1, 2, 3, 4, 6, 12)), (16, (1, 2, 4, 8, 16)), (7, (1, 7))]
)
def test_divisors(value, expected):
    assert divisors(value) == expected


def test_schedules_and_chunks_that_fit_the_pipeline():
    found = space({**LLAMA, "layers": 8})
    assert found.stagings(1, 4) == [("1f1b", 1)]
    assert set(found.stagings(2, 4)) == {
        ("gpipe", 1), ("1f1b", 1), ("interleaved", 2), ("interleaved", 4), ("zero-bubble", 1), ("zero-bubble-v", 2)
    }  # fmt: skip
    # Three micro-batches are no group of two, so nothing interleaves.
    assert "interleaved" not in {schedule for schedule, _ in found.stagings(2, 3)}


def test_hybrid_sharding_inside_a_node_is_one_more_choice():
    assert space().sharings() == [Sharing(sharding=sharding) for sharding in SHARDINGS]
    several = space(chips_per_node=4, nodes=2).sharings()
    hybrid = {Sharing(sharding="zero3", shard_ranks=4), Sharing(sharding="fsdp", shard_ranks=4)}
    assert set(several) - {Sharing(sharding=sharding) for sharding in SHARDINGS} == hybrid


def test_shardings_that_keep_numbers_alike_share_a_table():
    assert len(space().number_classes()) == 1
    # Under autocast FSDP computes in 2 bytes where the others cast.
    autocast = space(precision="bf16-amp").number_classes()
    assert [{sharing.sharding for sharing in group} for group in autocast] == [
        {"ddp", "zero1", "zero2"}, {"zero3", "fsdp"}
    ]  # fmt: skip


def test_ways_to_exchange_and_to_offload_only_where_they_differ():
    further = {"ddp_mode": ("bucketed", "flat", "naive"), "overlap": (True, False), "offload": ("none", "both")}
    found = space(locked={"sharding": "ddp"}, further=further).sharings()
    ways = {(sharing.ddp_mode, sharing.overlap) for sharing in found}
    # What is exchanged after backward has nothing to overlap with.
    assert ways == {("bucketed", True), ("bucketed", False), ("flat", True), ("naive", True)}
    assert len(found) == len(set(found)) == 2 * len(ways)
    sharded = space(locked={"sharding": "zero1"}, further=further).sharings()
    assert {(sharing.ddp_mode, sharing.overlap) for sharing in sharded} == {("bucketed", True), ("bucketed", False)}


def test_blocks_per_checkpoint_go_with_full_recomputation():
    further = {"recompute_every": (1, 2, 4)}
    found = {(choice.recompute, choice.recompute_every) for choice in space(further=further).choices()}
    assert found == {("none", 1), ("selective", 1), ("full", 1), ("full", 2), ("full", 4)}
    only = {(choice.recompute, choice.recompute_every) for choice in space(further={"recompute_every": (2,)}).choices()}
    assert only == {("full", 2)}
    # No checkpoint spans more blocks than there are.
    assert list(space({**LLAMA, "layers": 4}, {"recompute_every": 5}).choices()) == []


@pytest.mark.parametrize("idle", [(), ("tp",), ("cp", "dp"), ("tp", "cp", "dp"), AXES])
def test_orders_that_differ_in_idle_axes_only_have_one_name(idle):
    degrees = {axis: 1 if axis in idle else 2 for axis in AXES}
    named = [order for order in PLACEMENTS if canonical(order, degrees)]
    busy = [axis for axis in AXES if axis not in idle]
    orders = [tuple(axis for axis in order.split("-") if axis in busy) for order in named]
    assert sorted(orders) == sorted(itertools.permutations(busy))


def test_the_default_stands_for_all_placements_like_it():
    assert [order for order in PLACEMENTS if canonical(order, {"tp": 1, "cp": 1, "dp": 8, "pp": 1})] == ["tp-cp-dp-pp"]
    assert canonical("dp-tp-cp-pp", {"tp": 2, "cp": 1, "dp": 2, "pp": 1})
    assert not canonical("cp-dp-tp-pp", {"tp": 2, "cp": 1, "dp": 2, "pp": 1})
