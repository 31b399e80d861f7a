"""Choice: parts of a plan are written into it, and what is not at its default is counted."""

from __future__ import annotations

from estimator.scenario.plan import Plan
from estimator.search.space import Choice, Shape, Sharing, changes, plan_of

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
