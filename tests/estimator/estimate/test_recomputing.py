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
