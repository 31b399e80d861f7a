"""Evaluate: each legal plan once, with the numbers of its own estimate, and time only for what fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from estimator.cost.efficiency import efficiencies
from estimator.estimate.assemble import efficiencies_of
from estimator.estimate.estimate import estimate
from estimator.scenario.plan import AXES, Plan
from estimator.search import evaluate
from estimator.search.evaluate import Evaluated, evaluated
from estimator.search.space import Space, canonical
from tests.estimator.examples import GPT, LLAMA, MIXTRAL
from tests.estimator.search.spaces import space

E = efficiencies("default")
NO_LIMIT = float("inf")


def all_of(opened: Space, capacity_bytes: float = NO_LIMIT) -> list[tuple[Plan, float, float, float]]:
    return [
        (block.plan(i), block.step_s[i], block.peak_bytes[i], block.reserved_bytes[i])
        for block in evaluated(opened, efficiencies_of(opened.base, E), capacity_bytes=capacity_bytes)
        for i in range(len(block.step_s))
    ]


@pytest.mark.parametrize(
    ("model", "locked"),
    [
        (LLAMA, {"recompute": "selective", "cp": 1, "tp_kind": "1d"}),
        (LLAMA, {"tp_kind": "2d", "cp": 1, "recompute": "none"}),
        (GPT, {"pp": 2, "recompute": "full", "placement": "tp-cp-dp-pp"}),
        (MIXTRAL, {"recompute": "none", "sequence_parallel": False, "pp": 1, "cp_kind": "ring"}),
        (
            {**MIXTRAL, "expert_groups": 4, "top_groups": 2, "ffn_bias": True, "clamped_ffn": True},
            {"recompute": "full", "cp": 1, "ep_dispatch": "to-nodes", "pp": 1},
        ),
    ],
)
def test_every_plan_has_the_numbers_of_its_estimate(model, locked):
    opened = space(model, locked)
    found = all_of(opened)
    assert len({tuple(vars(plan).items()) for plan, *_ in found}) == len(found) > 10
    for plan, seconds, peak, reserved in found[:: max(len(found) // 60, 1)]:
        alone = estimate(replace(opened.base, plan=plan), E, interval=False)
        assert seconds == pytest.approx(alone.step_time_s, rel=1e-9), plan
        assert peak == pytest.approx(alone.memory.peak_bytes, rel=1e-9), plan
        assert reserved == pytest.approx(alone.memory.reserved_bytes, rel=1e-9), plan


def test_what_does_not_fit_is_tried_but_not_priced():
    opened = space(LLAMA, {"recompute": "none", "cp": 1})
    every = all_of(opened)
    reserved = sorted(most for *_, most in every)
    capacity = reserved[len(reserved) // 2]
    blocks = list(evaluated(opened, E, capacity_bytes=capacity))
    assert sum(block.tried for block in blocks) == len(every)
    kept = sum(len(block.step_s) for block in blocks)
    assert kept == sum(most <= capacity for most in reserved)
    assert 0 < kept < len(every)


def test_plans_that_are_the_same_are_tried_once():
    found = [plan for plan, *_ in all_of(space(LLAMA, {"recompute": "none", "micro_batch": 1}))]
    for plan in found:
        # One data rank shards nothing; one stage has no schedule; one busy axis has no order.
        assert plan.dp * plan.cp > 1 or plan.sharding == "ddp"
        assert plan.pp > 1 or plan.schedule == "1f1b"
        assert canonical(plan.placement, vars(plan))
        assert sum(getattr(plan, axis) > 1 for axis in AXES) > 1 or plan.placement == Plan().placement


def test_hybrid_shards_span_fewer_ranks_than_all():
    found = [plan for plan, *_ in all_of(space(LLAMA, {"recompute": "none", "tp": 1}, chips_per_node=2, nodes=2))]
    hybrid = [plan for plan in found if plan.shard_ranks]
    assert {plan.shard_ranks for plan in hybrid} == {2}
    assert all(plan.dp * plan.cp == 4 for plan in hybrid)


def test_blocks_cut_a_search_and_change_nothing(monkeypatch):
    opened = space(LLAMA, {"recompute": "none", "cp": 1})

    def found() -> list[tuple[str, float, float]]:
        return sorted((str(plan), seconds, peak) for plan, seconds, peak, _ in all_of(opened))

    whole = found()
    monkeypatch.setattr(evaluate, "BLOCK_ROWS", 7)
    cut = found()
    assert [plan for plan, _, _ in cut] == [plan for plan, _, _ in whole]
    assert [seconds for _, seconds, _ in cut] == pytest.approx([seconds for _, seconds, _ in whole], rel=1e-12)
    assert max(len(block.step_s) for block in evaluated(opened, E, capacity_bytes=NO_LIMIT)) <= 7


def test_an_evaluated_block_writes_its_plans():
    block = next(b for b in evaluated(space(GPT, {"pp": 2}), E, capacity_bytes=NO_LIMIT) if b.tried)
    assert isinstance(block, Evaluated)
    plan = block.plan(0)
    assert (plan.schedule, plan.sharding, plan.placement) == (block.schedule, block.sharing.sharding, block.placement)
    assert plan.chips == 4
