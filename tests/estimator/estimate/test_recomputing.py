"""What is said of recomputation: of a host that binds, and of stages that run a block again for each weight."""

from __future__ import annotations

import pytest

from estimator.estimate.estimate import estimate
from tests.estimator.examples import LLAMA, scenario


@pytest.mark.parametrize(("schedule", "recompute", "framework", "said"), [
    ("zero-bubble", "full", "pytorch-eager", True),
    ("zero-bubble-v", "full", "pytorch-eager", True),
    ("zero-bubble", "selective", "pytorch-eager", False),
    ("1f1b", "full", "pytorch-eager", False),
    ("zero-bubble", "full", "megatron", False),
])  # fmt: skip
def test_stages_that_run_a_block_again_for_each_weight_say_what_it_takes(schedule, recompute, framework, said):
    plan = {"pp": 2, "schedule": schedule, "recompute": recompute}
    found = estimate(scenario({**LLAMA, "layers": 8}, plan=plan, global_batch=8, framework=framework))
    words = [one for one in found.assumptions if "runs again whole each time" in one]
    assert bool(words) == said
    if said:
        assert all(f"{schedule} stages" in one and "selective recomputation" in one for one in words)


def test_what_runs_again_for_each_weight_is_in_every_sum_and_another_schedule_is_the_way_out():
    def of(schedule: str):
        plan = {"pp": 2, "schedule": schedule, "recompute": "full", "micro_batch": 4}
        return estimate(scenario({**LLAMA, "layers": 8}, plan=plan, seq_len=2048, global_batch=32))

    once, apart = of("1f1b"), of("zero-bubble")
    for found in (once, apart):
        assert sum(found.breakdown_s.values()) == pytest.approx(found.step_time_s)
        assert sum(found.phases_s.values()) == pytest.approx(found.step_time_s)
    assert apart.breakdown_s["matmul"] > 2.0 * once.breakdown_s["matmul"]
    assert sum(op.flops for op in apart.ops) > 2.0 * sum(op.flops for op in once.ops)
    # Half of the blocks are on the first stage, which goes backward at once.
    assert apart.hfu * apart.step_time_s > 1.5 * once.hfu * once.step_time_s
    assert apart.mfu * apart.step_time_s == pytest.approx(once.mfu * once.step_time_s)


def test_a_step_that_running_again_makes_too_large_is_told_to_take_another_schedule():
    plan = {"pp": 2, "schedule": "zero-bubble", "recompute": "full", "micro_batch": 64}
    found = estimate(scenario({**LLAMA, "layers": 8}, plan=plan, seq_len=4096, global_batch=512))
    assert not found.memory.fits
    assert any("schedule 1f1b" in one.remedy for one in found.problems)


def test_a_compiled_block_recomputes_inside_its_one_node():
    def slower(compile: bool) -> float:
        found = [
            estimate(scenario({**LLAMA, "layers": 8}, plan={"pp": 2, "schedule": one, "recompute": "full"},
                              seq_len=2048, global_batch=8, compile=compile)).step_time_s
            for one in ("zero-bubble", "1f1b")
        ]  # fmt: skip
        return found[0] / found[1]

    assert slower(True) < 1.4 < 2.0 < slower(False)
