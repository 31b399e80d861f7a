"""Shapes: every legal combination of degrees and micro-batch once, and none that the model refuses."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from estimator.scenario.legality import legality
from estimator.scenario.plan import CP_KINDS, RECOMPUTES, TP_KINDS, Plan
from estimator.search.space import MAX_MICRO_BATCH, Space, divisors, plan_of, shapes_of
from tests.estimator.examples import GPT, LLAMA, MIXTRAL
from tests.estimator.search.spaces import space


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
