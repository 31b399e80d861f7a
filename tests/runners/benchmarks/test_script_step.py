"""A script of somebody else, timed as it stands."""

import json
import sys

import pytest
import torch

from estimator.scenario.breakdown import Phase
from estimator.scenario.problems import InputProblems
from runners.benchmarks.script_step import run
from runners.job import Job, read_measurement
from tests.forks import run_ranks

SCRIPT = """
import os, sys, torch, torch.distributed as dist
from torch import nn
class Outer(torch.optim.Optimizer):  # steps another, which counts for no step of its own
    def __init__(self, inner):
        super().__init__([{"params": group["params"]} for group in inner.param_groups], {})
        self.inner = inner
    def step(self, closure=None):
        self.inner.step()
width, steps, say = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
model = nn.Linear(width, width)
if "RANK" in os.environ:
    dist.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(model)
optimizer = Outer(torch.optim.AdamW(model.parameters()))
try:
    for step in range(steps):
        for half in range(2):
            (model(torch.randn(4, width)).square().mean() / 2).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
except Exception:
    raise SystemExit("it must not see how it ends")
finally:
    if say:
        with open(say, "w") as file:
            file.write(str(step))
        raise KeyError("what it runs into while it is taken down")
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def measured(script, *arguments, warmup=1, steps=3):
    job = Job(benchmark="step", device="cpu", warmup=warmup, steps=steps)
    return run(job, lambda event: None, script=script, arguments=[str(one) for one in arguments])


def test_steps_are_from_optimizer_to_optimizer_and_the_program_is_ended(script, tmp_path):
    said = tmp_path / "ended"
    found = measured(script, 16, 1000, said)
    # one end begins the first step, warmup and steps pass, the profiler takes two
    assert int(said.read_text()) == 1 + 3 + 2
    assert len(found.steps_s) == 3
    assert sum(found.phases_s.values()) == pytest.approx(sorted(found.steps_s)[1])
    assert found.phases_s[Phase.BACKWARD] > 0
    assert found.samples["program"] == {"name": "train.py", "arguments": ["16", "1000", str(said)], "parameters": 272}
    assert found.memory.by_kind == {"parameters": 1088.0, "gradients": 1088.0, "optimizer": 2 * 1088.0 + 2 * 4}
    assert torch.autograd.graph._engine_run_backward.__module__ == "torch.autograd.graph"


def test_a_program_that_ends_before_says_how_many_steps_are_needed(script):
    with pytest.raises(InputProblems, match=r"train.py ended after 3 steps of an optimizer, 7 are needed"):
        measured(script, 16, 3, "")


def test_two_ranks_are_one_measurement(script, tmp_path):
    out = tmp_path / "step.json"
    flags = ["step", "--script", str(script), "--device", "cpu", "--warmup", "1", "--steps", "2", "--out", str(out)]
    ran = run_ranks(2, *flags, "--", "16", "100", "", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = read_measurement(out)
    assert (found.world_size, len(found.samples["ranks"]), len(found.steps_s)) == (2, 2, 2)
    assert any(kernel.category == "communication" for kernel in found.kernels)
    json.dumps(found.samples["communication"])
