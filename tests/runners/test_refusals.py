"""What the step benchmark refuses, by field and with a remedy, before anything is started."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from estimator.scenario.parameters import parameters
from runners.options import OPTIONS
from runners.refusals import grid_refusals, model_refusals, rank_refusals, refusals
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
        (scenario(training={"attention": "flash", "dropout": 0.1}), 1, True, "training.attention"),
        (scenario(training={"attention": "flash"}, model={"head_dim": 512}), 1, True, "training.attention"),
        (scenario(training={"attention": "flash"}, model={"position": "alibi"}), 1, False, "training.attention"),
        (scenario(model={"head_dim": 15}), 1, False, "model.head_dim"),
        (scenario(model={"position": "learned", "max_positions": 16}), 1, False, "training.seq_len"),
    ],
)
def test_what_cannot_be_measured_is_refused_by_field(chosen, world_size, cuda, field):
    (problem,) = refused(chosen, world_size, cuda)
    assert problem.field == field
    assert problem.remedy


@pytest.mark.parametrize(
    ("field", "value"), [("experts", 4), ("kv_lora_rank", 16), ("sliding_window", 8), ("network", "attention")]
)
def test_a_model_that_the_runner_cannot_build_is_refused(field, value):
    (problem,) = model_refusals(replace(scenario().model, **{field: value}))
    assert problem.field == f"model.{field}"
    assert "dense transformer" in problem.message
    assert model_refusals(scenario().model) == []


@pytest.mark.parametrize(("field", "value"), [("ddp_mode", "flat"), ("offload", "optimizer"), ("recompute_every", 2)])
def test_a_plan_that_step_does_not_follow_is_refused(field, value):
    chosen = replace(scenario(), plan=replace(scenario().plan, **{field: value}))
    (problem,) = refused(chosen)
    assert problem.field == f"plan.{field}"


def test_sharding_is_nothing_on_one_rank():
    assert refused(scenario(plan={"sharding": "fsdp"})) == []


def test_asking_needs_no_torch():
    code = "import sys, runners.refusals; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_number_of_processes_with_nothing_to_measure_is_refused():
    def refused(benchmark, world_size, **options):
        return [str(one) for one in rank_refusals(benchmark, OPTIONS[benchmark](**options), world_size)]

    assert "nobody to talk to" in refused("collectives", 1)[0]
    assert refused("collectives", 2) == []
    assert "measured on one rank" in refused("memory", 2)[0]
    assert refused("memory", 1) == []
    assert "a grid runs on one rank" in refused("step", 2, models=("tiny",))[0]
    assert refused("step", 2) == []
    assert refused("ddp", 64) == []


def test_a_model_whose_weights_do_not_fit_on_a_cpu_is_refused():
    chosen = scenario()
    weights_bytes = 4 * parameters(chosen.model)
    assert refusals(chosen, world_size=1, cuda=False, memory_bytes=weights_bytes) == []
    (problem,) = refusals(chosen, world_size=1, cuda=False, memory_bytes=weights_bytes - 1)
    assert problem.field == "model"
    assert "the weights alone take" in problem.message


def test_a_grid_takes_no_scenario():
    grid = OPTIONS["step"](models=("tiny",))
    (problem,) = grid_refusals(grid, {"model": "gpt2"})
    assert problem.field == "options.models"
    assert grid_refusals(grid, {}) == grid_refusals(OPTIONS["step"](), {"model": "gpt2"}) == []
    assert grid_refusals(OPTIONS["memory"](), {"model": "gpt2"}) == []
    (problem,) = grid_refusals(OPTIONS["memory"](models=("gpt22",)), {})
    assert str(problem).startswith("options.models: 'gpt22' is not in the catalogue")
