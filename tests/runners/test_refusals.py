"""What the step benchmark refuses, by field and with a remedy, before anything is started."""

from __future__ import annotations

import subprocess
import sys

import pytest

from runners.refusals import compiled, refusals
from tests.runners.examples import scenario


def refused(chosen, world_size=1, cuda=False):
    return refusals(chosen, world_size=world_size, cuda=cuda)


def test_a_plain_scenario_is_refused_nothing():
    assert refused(scenario()) == []
    assert refused(scenario(dp=4), 4) == []


@pytest.mark.parametrize(
    ("chosen", "world_size", "cuda", "field"),
    [
        (scenario(plan={"tp": 2}, cluster={"chips_per_node": 2}), 2, False, "plan.tp"),
        (scenario(plan={"pp": 2}, cluster={"chips_per_node": 2}), 2, False, "plan.pp"),
        (scenario(dp=2), 1, False, "plan.dp"),
        (scenario(dp=2, plan={"sharding": "zero1"}), 2, False, "plan.sharding"),
        (scenario(dp=2, plan={"overlap": False}), 2, False, "plan.overlap"),
        (scenario(training={"framework": "megatron"}), 1, False, "training.framework"),
        (scenario(training={"attention": "flash"}), 1, True, "training.attention"),
        (scenario(training={"attention": "flash"}, model={"position": "alibi"}), 1, False, "training.attention"),
        (scenario(model={"head_dim": 15}), 1, False, "model.head_dim"),
        (scenario(model={"position": "learned", "max_positions": 16}), 1, False, "training.seq_len"),
    ],
)
def test_what_cannot_be_measured_is_refused_by_field(chosen, world_size, cuda, field):
    (problem,) = refused(chosen, world_size, cuda)
    assert problem.field == field
    assert problem.remedy


def test_sharding_is_nothing_on_one_rank():
    assert refused(scenario(plan={"sharding": "fsdp"})) == []


def test_compiling_has_two_names():
    assert compiled(scenario(training={"compile": True}).training)
    assert compiled(scenario(training={"framework": "pytorch-compile"}).training)
    assert not compiled(scenario().training)


def test_asking_needs_no_torch():
    code = "import sys, runners.refusals; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
