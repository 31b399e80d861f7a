"""Recorded host: what a traced program's calls take their host."""

import json
import math
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from estimator.cost.efficiency import efficiencies
from estimator.cost.recorded_host import handed_over_s, recorded_launch_s
from tests.estimator.examples import flawless

REFERENCE = Path(__file__).parents[2] / "reference"
E = flawless()


@pytest.mark.parametrize(
    ("phase", "launches", "given", "seconds"),
    [
        ("forward", 1, {}, 10e-6),
        ("forward", 1, {"dispatches": 2 * E.host_forward_dispatches_per_kernel}, 20e-6),
        ("backward", 1, {"dispatches": 6}, 20e-6),  # autograd's views cost next to nothing
        ("backward", 11, {"dispatches": 6}, 20e-6 + 10 * 2e-6),
        ("backward", 1, {"dispatches": 6, "library": True}, 20e-6 * E.host_library_backward_factor),
        ("forward", 1, {"library": True}, 10e-6 * E.host_library_factor),
        (
            "forward",
            1,
            {"library": True, "modules": 3 * E.host_forward_dispatches_per_kernel},
            10e-6 * (E.host_library_factor + 3 * E.host_module_ops),
        ),
        ("backward", 3, {}, 20e-6 + 2 * 1e-6),
        ("backward", 1, {"again": True}, 10e-6 * (1 + 3 / E.host_forward_dispatches_per_kernel)),
        ("forward", 1, {"saved": True}, 10e-6 * (1 + 2 / E.host_forward_dispatches_per_kernel)),
        ("forward", 1, {"compiled": True, "dispatches": 9}, 4e-6),
        ("optimizer", 8, {"dispatches": 300}, 8e-6),
        ("forward", 0, {}, 0.0),
        ("backward", 2, {"bare": True}, 4e-6),
    ],
)
def test_a_recorded_call_costs_what_the_host_does_for_it(phase, launches, given, seconds):
    e = replace(
        flawless(), host_forward_s=10e-6, host_backward_s=20e-6, host_fused_forward_s=4e-6, host_tensor_s=1e-6,
        host_launch_s=2e-6, host_saved_ops=2.0, host_saved_backward_ops=3.0,
    )  # fmt: skip
    about = {"compiled": False, "again": False} | given
    assert recorded_launch_s(phase, launches, e, **about) == pytest.approx(seconds)


def test_modules_and_gradients_tell_what_a_host_takes_for_a_step_where_its_ops_alone_do_not():
    """Fifteen small models of transformers in turns on one H100 host: how far they are from one pace for all."""
    e = efficiencies("hopper")
    steps = json.loads((REFERENCE / "h100_host_ops.json").read_text())["steps"]
    about = {"compiled": False, "again": False, "library": True}

    def forward(step: dict[str, Any], modules: int) -> float:
        return float(recorded_launch_s("forward", 1, e, dispatches=step["forward_ops"], modules=modules, **about))

    def backward(step: dict[str, Any]) -> float:
        each = float(recorded_launch_s("backward", 1, e, dispatches=1, **about))
        return step["backward_kernels"] * each + float(handed_over_s(step["tensors"], e, library=True))

    def spread(predicted: dict[str, float], phase: str) -> float:
        return statistics.stdev(math.log(predicted[step["model"]] / step[f"{phase}_s"]) for step in steps)

    by_model = {step["model"]: step for step in steps}
    assert spread({name: forward(step, step["modules"]) for name, step in by_model.items()}, "forward") < 0.12
    assert spread({name: forward(step, 0) for name, step in by_model.items()}, "forward") > 0.15
    assert spread({name: backward(step) for name, step in by_model.items()}, "backward") < 0.1
    assert spread({name: step["backward_ops"] for name, step in by_model.items()}, "backward") > 0.19
