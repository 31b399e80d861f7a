"""Estimate: the parts agree with one another, with the contract's names, and with published orders of magnitude."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from estimator.cost.efficiency import efficiencies
from estimator.estimate.estimate import Estimate, estimate
from estimator.scenario import catalog
from estimator.scenario.codec import encode
from estimator.scenario.parameters import linear_parameters_per_layer, model_flops_per_token, parameters
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import Scenario, scenario_from_json

BASE = {
    "model": "llama3-8b",
    "cluster": "h100-sxm",
    "plan": {"dp": 8, "sharding": "fsdp"},
    "training": {"seq_len": 4096, "global_batch": 16, "precision": "bf16"},
}


def scenario(plan: dict | None = None, **training) -> Scenario:
    return scenario_from_json({**BASE, "plan": plan or BASE["plan"], "training": {**BASE["training"], **training}})


@pytest.fixture(scope="module")
def found() -> Estimate:
    return estimate(scenario())


def test_rates_follow_from_the_step_time(found):
    tokens = 16 * 4096
    assert found.tokens_per_s == pytest.approx(tokens / found.step_time_s)
    assert found.tokens_per_s_per_chip == pytest.approx(found.tokens_per_s / 8)
    model = catalog.model("llama3-8b")
    assert found.parameters == parameters(model)
    assert found.model_flops == tokens * model_flops_per_token(model, 4096)
    assert found.mfu == pytest.approx(found.model_flops / (found.step_time_s * 8 * 989.4e12))
    assert (found.micro_batches, found.chips) == (2, 8)


def test_hardware_flops_count_what_is_executed():
    none, full = estimate(scenario({"dp": 8})), estimate(scenario({"dp": 8, "recompute": "full"}))
    # Fused attention multiplies 14 units where the model's convention counts 12, each over half of the square.
    attention = 12 * 32 * 4096 * 4096 / model_flops_per_token(catalog.model("llama3-8b"), 4096)
    assert none.hfu / none.mfu == pytest.approx(1 - attention + attention * 14 / 12 / 2)
    assert none.hfu < none.mfu
    # Recomputation runs forward again; PyTorch's checkpoint stops before the down projection.
    tokens, square = 16 * 4096, 4 * 32 * 4096 * 4096 / 2
    matrices = linear_parameters_per_layer(catalog.model("llama3-8b")) - 4096 * 14336
    again = tokens * (2 * 32 * matrices + square) / none.model_flops
    assert full.hfu / full.mfu == pytest.approx(none.hfu / none.mfu + again)
    assert full.mfu < none.mfu


def test_hardware_flops_of_written_out_scores_and_of_windows():
    # Written-out scores are whole squares, forward and backward 12 units; a window of a quarter leaves r − r²/2.
    model = catalog.model("llama3-8b")
    eager = estimate(scenario(attention="eager"))
    assert eager.hfu == pytest.approx(eager.mfu)
    windowed = replace(model, sliding_window=1024)
    found = estimate(replace(scenario(), model=windowed))
    core = 12 * 32 * 4096 * 1024 / model_flops_per_token(windowed, 4096)
    band = 14 * 32 * 4096 * 4096 * (0.25 - 0.25**2 / 2) / model_flops_per_token(windowed, 4096)
    assert found.hfu / found.mfu == pytest.approx(1 - core + band)


def test_phases_and_categories_each_add_to_the_step(found):
    assert sum(found.phases_s.values()) == pytest.approx(found.step_time_s)
    assert sum(found.breakdown_s.values()) == pytest.approx(found.step_time_s)


def test_ops_add_to_their_categories_and_phases(found):
    for category in ("matmul", "attention", "optimizer"):
        total = sum(op.seconds for op in found.ops if op.category == category)
        assert total == pytest.approx(found.breakdown_s[category]), category
    forward = sum(op.seconds for op in found.ops if op.phase == "forward")
    assert forward == pytest.approx(found.phases_s["forward"])


def test_products_of_all_ops_are_those_of_the_model(found):
    # One rank's matrix products over the step: 6 FLOPs per weight and token.
    model = catalog.model("llama3-8b")
    matrices = model_flops_per_token(model, 0)
    total = sum(op.flops for op in found.ops if op.category == "matmul")
    assert total == pytest.approx(matrices * 16 * 4096 / 8)


def test_an_ops_row_is_a_total_over_the_step(found):
    row = next(op for op in found.ops if op.name == "down projection" and op.phase == "forward")
    assert row.count == 32 * 2
    assert row.flops == 2 * 4096 * 14336 * 4096 * row.count
    assert row.shape == "4096 × 4096 × 14336"
    assert row.bound == "compute"
    assert row.intensity_flops_per_byte == pytest.approx(row.flops / row.bytes)


def test_exposed_communication_is_that_of_the_collectives_and_their_copies(found):
    listed = sum(c.exposed_s for c in found.collectives)
    assert 0 < listed == pytest.approx(found.phases_s["exposed_communication"])
    assert [c.name for c in found.collectives if c.kind == "copy"] == ["copies into and out of buckets"]
    assert all(0 <= c.exposed_s <= c.seconds for c in found.collectives)


def test_the_contracts_json_has_every_name_and_no_nan(found):
    document = json.loads(json.dumps(encode(found), allow_nan=False))
    assert {
        "step_time_s", "interval_s", "phases_s", "breakdown_s", "tokens_per_s", "tokens_per_s_per_chip", "mfu", "hfu",
        "memory", "ops", "collectives", "limits", "assumptions", "problems", "parameters", "model_flops", "roofs",
        "micro_batches", "chips",
    } <= set(document)  # fmt: skip
    assert {"peak_bytes", "reserved_bytes", "capacity_bytes", "fits", "by_kind", "stages"} <= set(document["memory"])
    assert {
        "name", "layer", "phase", "category", "shape", "count", "flops", "bytes", "launches", "saved_bytes", "seconds",
        "bound", "intensity_flops_per_byte", "precision",
    } <= set(document["ops"][0])  # fmt: skip
    assert {"name", "kind", "axis", "ranks", "bytes", "count", "seconds", "exposed_s"} <= set(
        document["collectives"][0]
    )
    assert {row["layer"] for row in document["ops"]} == {"layer", "embedding", "head", "optimizer"}
    assert {row["bound"] for row in document["ops"]} <= {"compute", "memory", "launch"}


def test_roofs_are_those_of_the_datasheet(found):
    chip = catalog.chip("h100-sxm")
    assert found.roofs.memory_bytes_per_s == chip.memory_bytes_per_s
    assert found.roofs.flops_per_s["bf16"] == chip.bf16_flops_per_s
    assert found.roofs.flops_per_s["fp32"] == chip.fp32_flops_per_s


def test_memory_is_that_of_the_fullest_stage():
    found = estimate(scenario({"dp": 1, "tp": 2, "pp": 4}, framework="megatron", global_batch=8))
    peaks = [stage.peak_bytes for stage in found.memory.stages]
    assert found.memory.peak_bytes == max(peaks)
    assert [stage.stage for stage in found.memory.stages] == [0, 1, 2, 3]
    assert sum(found.memory.by_kind.values()) == pytest.approx(found.memory.peak_bytes)


def test_the_allocator_reserves_more_than_it_hands_out(found):
    plain = estimate(scenario({"dp": 8, "sharding": "zero1"}))
    assert plain.memory.reserved_bytes == plain.memory.peak_bytes * efficiencies("hopper").allocator_frac
    # and what gathered and scattered parameters take in streams of their own
    assert found.memory.reserved_bytes > found.memory.peak_bytes * efficiencies("hopper").allocator_frac
    assert found.memory.capacity_bytes == catalog.chip("h100-sxm").memory_bytes


def test_what_does_not_fit_is_said_with_a_remedy():
    found = estimate(scenario({"dp": 8, "sharding": "ddp"}))
    # 8 billion parameters at 8 bytes of state leave too little of 80 GiB for gradients' buckets and activations.
    assert not found.memory.fits
    assert found.memory.reserved_bytes > found.memory.capacity_bytes
    (problem,) = found.problems
    assert problem.remedy
    assert found.limits.startswith("Does not fit")
    assert estimate(scenario()).problems == ()


def test_the_interval_has_width_and_holds_the_estimate(found):
    low, high = found.interval_s
    assert 0 < low < found.step_time_s < high


def test_without_explanations_the_numbers_are_the_same(found):
    bare = estimate(scenario(), explained=False)
    explained = {name: getattr(found, name) for name in ("ops", "collectives", "limits", "assumptions", "problems")}
    assert not any(getattr(bare, name) for name in explained)
    assert replace(bare, **explained) == found


def test_a_calibration_replaces_the_familys_numbers(found):
    family = efficiencies(scenario().cluster.chip.efficiency)
    halved = replace(family, gemm_matrix_frac=family.gemm_matrix_frac / 2, name="mine")
    slower = estimate(scenario(), halved)
    assert slower.efficiencies == "mine"
    assert slower.breakdown_s["matmul"] == pytest.approx(2 * found.breakdown_s["matmul"], rel=0.15)
    assert slower.breakdown_s["elementwise"] == found.breakdown_s["elementwise"]


def test_the_ideal_framework_is_the_fastest():
    ideal = estimate(scenario(framework="ideal"))
    assert ideal.interval_s == (ideal.step_time_s, ideal.step_time_s)
    assert ideal.phases_s["host_wait"] == 0
    for framework in ("pytorch-eager", "pytorch-compile", "megatron", "xla"):
        assert ideal.step_time_s < estimate(scenario(framework=framework)).step_time_s


def test_an_impossible_scenario_is_refused_with_its_fields():
    broken = replace(scenario(), plan=replace(scenario().plan, dp=3))
    with pytest.raises(InputProblems) as caught:
        estimate(broken)
    assert {problem.field for problem in caught.value.problems} == {"plan.dp", "training.global_batch"}


def test_compiling_is_the_same_choice_in_both_places():
    flag = estimate(scenario(compile=True))
    framework = estimate(scenario(framework="pytorch-compile"))
    assert flag.step_time_s == framework.step_time_s
    assert flag.memory.peak_bytes == framework.memory.peak_bytes


def test_llama3_405b_lies_around_metas_own_figure():
    # Llama 3 (arXiv 2407.21783), table 4: H100, tp 8, pp 16, dp 64, 8 192 tokens, batch 2 048: MFU 43 %, with
    # interleaved stages. Without interleaving the bubble is larger; without any bubble MFU would be higher.
    found = estimate(
        scenario_from_json(
            {
                "model": "llama3-405b",
                "cluster": {"chip": "h100-sxm", "nodes": 896},
                "plan": {"dp": 64, "tp": 8, "pp": 14, "sharding": "zero1", "sequence_parallel": True},
                "training": {"seq_len": 8192, "global_batch": 2048, "framework": "megatron", "precision": "bf16"},
            }
        )
    )
    without_bubble = found.mfu * found.step_time_s / (found.step_time_s - found.phases_s["bubble"])
    assert found.mfu < 0.43 < without_bubble


def test_twice_the_exponentials_shorten_attention_most_where_heads_are_narrow():
    def attention_s(chip: str, model: str) -> float:
        made = {**BASE, "model": model, "cluster": {"chip": chip, "chips_per_node": 1}, "plan": {}}
        made["training"] = {"seq_len": 1024, "global_batch": 1, "precision": "bf16"}
        return estimate(scenario_from_json(made), interval=False, explained=False).breakdown_s["attention"]

    wide, narrow = (attention_s("b300", name) / attention_s("b200", name) for name in ("llama3-8b", "gpt2-xl"))
    assert narrow < wide < 0.95


@pytest.mark.parametrize("chip", [entry.key for entry in catalog.entries("chips") if entry.value.kind != "cpu"])
def test_a_fused_kernel_is_no_slower_than_what_it_fuses_on_any_chip(chip):
    def seconds(attention: str, framework: str) -> float:
        made = {
            "model": "gpt2-xl",
            "cluster": {"chip": chip, "chips_per_node": 1},
            "plan": {"micro_batch": 2},
            "training": {"seq_len": 512, "global_batch": 2, "precision": precision, "attention": attention},
        }
        made["training"]["framework"] = framework
        return estimate(scenario_from_json(made), interval=False, explained=False).step_time_s

    found = catalog.chip(chip)
    precision = "bf16" if found.bf16_flops_per_s else "fp16-amp" if found.fp16_flops_per_s else "fp32"
    assert seconds("sdpa", "xla") <= seconds("eager", "xla") <= seconds("eager", "pytorch-eager")
