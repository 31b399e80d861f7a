"""What the step benchmark refuses, by field and with a remedy, before anything is started."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import pytest

from estimator.scenario.parameters import parameters
from runners.options import OPTIONS
from runners.refusals import grid_refusals, model_refusals, rank_refusals, refusals
from tests.runners.examples import scenario

EXPERTS = {"experts": 4, "top_k": 2, "moe_ffn": 32}
LATENT = {"kv_lora_rank": 16, "qk_rope_head_dim": 8, "head_dim": 24, "v_head_dim": 16, "kv_heads": 4}


def over(model=None, training=None, **plan):
    """A scenario under a plan, over as many chips as that needs."""
    chips = math.prod(plan.get(axis, 1) for axis in ("dp", "tp", "cp", "pp"))
    batch = {"global_batch": 2 * plan.get("dp", 1)}
    return scenario(
        model=model or {}, plan=plan, cluster={"chips_per_node": chips}, training={**batch, **(training or {})}
    )


def refused(chosen, world_size=1, cuda=False):
    return refusals(chosen, world_size=world_size, cuda=cuda)


def test_a_plain_scenario_is_refused_nothing():
    assert refused(scenario()) == []
    assert refused(scenario(dp=4), 4) == []


@pytest.mark.parametrize(
    ("chosen", "world_size", "cuda", "field"),
    [
        (over(tp=2), 1, False, "plan.tp"),
        (over(tp=4), 4, False, "plan.tp"),  # two key/value heads
        (over(tp=4, tp_kind="2d", model={"kv_heads": 4}), 4, False, "plan.tp_kind"),
        (over(pp=2), 2, False, "training.global_batch"),  # one micro-batch
        (over(tp=2, training={"compile": True}), 2, True, "training.compile"),
        (over(tp=2, training={"precision": "fp16-amp"}), 2, True, "training.precision"),
        (over(cp=2, training={"dropout": 0.1}), 2, True, "training.dropout"),
        (over(tp=2, model={"position": "alibi"}), 2, True, "model.position"),
        (
            over(pp=2, sharding="zero1", dp=2, model={"tied_embedding": True}, training={"global_batch": 8}),
            4,
            False,
            "plan.sharding",
        ),
        (over(dp=4, ep=2, sharding="fsdp", model=EXPERTS), 4, False, "plan.sharding"),
        (over(tp=2, model=EXPERTS, training={"seq_len": 33}), 2, False, "plan.tp"),
        (scenario(model={**EXPERTS, "capacity_factor": 1.0}), 1, False, "model.capacity_factor"),
        (scenario(model={**EXPERTS, "bias": True}), 1, False, "model.bias"),
        (scenario(model=EXPERTS, training={"experts": "grouped", "precision": "fp32"}), 1, True, "training.experts"),
        (scenario(model=LATENT, training={"attention": "flash", "precision": "bf16"}), 1, True, "training.attention"),
        (scenario(dp=2), 1, False, "plan.dp"),
        (scenario(training={"framework": "megatron"}), 1, False, "training.framework"),
        (scenario(training={"attention": "flash", "dropout": 0.1, "precision": "bf16"}), 1, True, "training.attention"),
        (scenario(training={"attention": "flash", "precision": "fp32"}), 1, True, "training.attention"),
        (scenario(training={"attention": "flash", "precision": "tf32"}), 1, True, "training.attention"),
        (
            scenario(training={"attention": "flash", "precision": "bf16"}, model={"head_dim": 512}),
            1,
            True,
            "training.attention",
        ),
        (
            scenario(training={"attention": "flash", "precision": "bf16"}, model={"position": "alibi"}),
            1,
            False,
            "training.attention",
        ),
        (scenario(model={"head_dim": 15}), 1, False, "model.head_dim"),
        (scenario(model={"position": "learned", "max_positions": 16}), 1, False, "training.seq_len"),
    ],
)
def test_what_cannot_be_measured_is_refused_by_field(chosen, world_size, cuda, field):
    (problem,) = refused(chosen, world_size, cuda)
    assert problem.field == field
    assert problem.remedy


@pytest.mark.parametrize(
    ("field", "value"),
    [("sliding_window", 8), ("network", "attention"), ("norms_per_layer", 4), ("parallel_residual", True)],
)
def test_a_model_that_the_runner_cannot_build_is_refused(field, value):
    (problem,) = model_refusals(replace(scenario().model, **{field: value}))
    assert problem.field == f"model.{field}"
    assert "plain or latent attention" in problem.message
    assert model_refusals(scenario().model) == []


@pytest.mark.parametrize("field", ["clamped_ffn", "clamped_scores"])
def test_what_is_cut_off_is_not_measured(field):
    (problem,) = model_refusals(replace(scenario().model, **{field: True}))
    assert (problem.field, problem.remedy) == (f"model.{field}", "Set it to false.")


@pytest.mark.parametrize("changes", [EXPERTS, LATENT])
def test_experts_and_latent_attention_are_measured_by_step_and_not_by_the_table_of_variants(changes):
    model = scenario(model=changes).model
    assert model_refusals(model) == []
    assert "dense transformer" in model_refusals(model, dense=True)[0].message


@pytest.mark.parametrize(
    ("chosen", "ranks"),
    [
        (over(tp=2, sequence_parallel=True), 2),
        (over(pp=2, training={"global_batch": 4}), 2),
        (over(cp=2, cp_kind="ulysses"), 2),
        (over(dp=4, sharding="fsdp", shard_ranks=2), 4),
        (over(dp=2, tp=2, pp=2, training={"global_batch": 8}), 8),
        (over(dp=4, ep=2, model=EXPERTS), 4),
        (over(dp=2, overlap=False, ddp_mode="flat"), 2),
    ],
)
def test_plans_over_several_ranks_are_refused_nothing(chosen, ranks):
    assert refused(chosen, ranks) == []


def test_grouped_products_in_four_bytes_are_refused_on_a_gpu():
    options = OPTIONS["step"](experts="grouped")
    chosen = scenario(model=EXPERTS)
    assert refusals(chosen, world_size=1, cuda=False, options=options) == []
    (problem,) = refusals(chosen, world_size=1, cuda=True, options=options)
    assert problem.field == "options.experts"


@pytest.mark.parametrize(("field", "value"), [("offload", "optimizer"), ("expert_tp", 2)])
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
