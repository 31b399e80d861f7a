"""Space: every legal plan once, none that the model refuses, and one name for plans that are the same."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from estimator.scenario.fitting import divisors
from estimator.scenario.legality import legality
from estimator.scenario.plan import AXES, CP_KINDS, PLACEMENTS, RECOMPUTES, SHARDINGS, TP_KINDS, Plan
from estimator.search.space import (
    MAX_MICRO_BATCH,
    Choice,
    Shape,
    Sharing,
    Space,
    canonical,
    changes,
    plan_of,
    shapes_of,
)
from tests.estimator.examples import GPT, LLAMA, MIXTRAL
from tests.estimator.search.spaces import base, space


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


def test_who_asks_a_search_to_stop_is_heard_while_it_lists_shapes():
    def stop() -> None:
        raise InterruptedError

    found = Space(base(), {}, beat=stop)
    with pytest.raises(InterruptedError):
        shapes_of(found, next(iter(found.choices())))


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


CHOICE = Choice(tp_kind="2.5d", sequence_parallel=False, cp_kind="ring", recompute="full", recompute_every=4)
SHAPE = Shape(tp=8, tp_depth=2, cp=1, ep=1, expert_tp=1, micro_batch=2, pp=2, dp=4)
SHARING = Sharing(sharding="fsdp", shard_ranks=2, overlap=False, offload="optimizer")


def test_a_plan_has_what_its_parts_say_and_keeps_the_rest():
    fixed = Plan(bucket_bytes=1000)
    found = plan_of(fixed, CHOICE, SHAPE, SHARING, schedule="gpipe")
    assert found == Plan(
        tp_kind="2.5d", recompute="full", recompute_every=4, tp=8, tp_depth=2, micro_batch=2, pp=2, dp=4,
        sharding="fsdp", shard_ranks=2, overlap=False, offload="optimizer", schedule="gpipe", bucket_bytes=1000,
    )  # fmt: skip
    assert plan_of(fixed) == fixed


def test_parts_of_a_plan_change_what_the_plan_changes():
    assert changes(Plan()) == 0
    assert changes(Plan(dp=4, placement="dp-tp-cp-pp")) == 2
    assert [changes(part) for part in (CHOICE, SHAPE, SHARING)] == [3, 5, 4]
    assert changes(plan_of(Plan(), CHOICE, SHAPE, SHARING)) == 12


def plans(found: Space) -> list[Plan]:
    """Shapes of all choices as plans, before staging, sharding and placement."""
    return [plan_of(found.fixed, choice, shape) for choice in found.choices() for shape in shapes_of(found, choice)]


@pytest.mark.parametrize("model", [LLAMA, GPT, MIXTRAL])
def test_shapes_are_legal_plans_of_all_chips_and_of_the_batch(model):
    found = space(model, chips_per_node=8)
    given = plans(found)
    assert given
    for plan in given:
        assert plan.chips == 8
        assert 8 % (plan.dp * plan.micro_batch) == 0
        assert plan.micro_batch <= MAX_MICRO_BATCH
        assert legality(found.base.model, replace(plan, schedule="gpipe"), found.base.training) == []


@pytest.mark.parametrize("model", [LLAMA, MIXTRAL])
def test_no_shape_comes_twice(model):
    given = plans(space(model, chips_per_node=8))
    assert len({tuple(vars(plan).items()) for plan in given}) == len(given)


def brute_force(found: Space) -> set[tuple[object, ...]]:
    """Every legal shape by plain loops; choices of an axis of one count once."""
    degrees = divisors(found.chips)
    kept = set()
    for tp, cp, pp, kind, ring, split, size, depth, recompute in itertools.product(
        degrees, degrees, degrees, TP_KINDS, CP_KINDS, (False, True), (1, 2, 4, 8), degrees, RECOMPUTES
    ):
        if found.chips % (tp * cp * pp) or (tp == 1 and (kind != "1d" or split)) or (cp == 1 and ring != "ring"):
            continue
        dp = found.chips // (tp * cp * pp)
        # Depth 1 is the 2d grid, depth tp a pile of single ranks.
        if 8 % (dp * size) or (kind == "2.5d" and depth in (1, tp)):
            continue
        plan = Plan(dp=dp, tp=tp, cp=cp, pp=pp, tp_kind=kind, cp_kind=ring, sequence_parallel=split, micro_batch=size,
                    tp_depth=depth, recompute=recompute, schedule="gpipe")  # fmt: skip
        if not legality(found.base.model, plan, found.base.training):
            kept.add((dp, tp, cp, pp, kind, ring, split, size, depth, recompute))
    return kept


@pytest.mark.parametrize("chips", [4, 8])
def test_nothing_legal_is_left_out(chips):
    found = space(LLAMA, chips_per_node=chips)
    listed = {
        (p.dp, p.tp, p.cp, p.pp, p.tp_kind, p.cp_kind, p.sequence_parallel, p.micro_batch, p.tp_depth, p.recompute)
        for p in plans(found)
    }
    assert listed == brute_force(found)


def test_experts_are_spread_over_every_divisor():
    degrees = {(p.ep, p.dp * p.tp * p.cp) for p in plans(space(MIXTRAL, chips_per_node=8))}
    assert {ep for ep, _ in degrees} == {1, 2, 4, 8}
    assert all(ranks % ep == 0 for ep, ranks in degrees)
    assert {p.ep for p in plans(space(LLAMA, chips_per_node=8))} == {1}


@pytest.mark.parametrize(
    "locked",
    [
        {"tp": 2},
        {"dp": 2, "pp": 2},
        {"tp_kind": "2d"},
        {"cp": 2, "cp_kind": "ulysses"},
        {"micro_batch": 2, "recompute": "full", "recompute_every": 2},
        {"sequence_parallel": True, "tp": 2},
        {"bucket_bytes": 1000, "overlap": False},
    ],
)
def test_what_is_locked_stays(locked):
    given = plans(space(LLAMA, locked, chips_per_node=8))
    assert given
    for plan in given:
        assert {name: getattr(plan, name) for name in locked} == locked


def test_a_lock_that_nothing_meets_leaves_nothing():
    assert plans(space(LLAMA, {"dp": 3})) == []
    assert plans(space(LLAMA, {"tp": 3})) == []
