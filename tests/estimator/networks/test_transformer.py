"""Transformer: the FLOPs of published formulas, the activation memory of Korthikanti 2022, recomputation."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from estimator import catalog
from estimator.memory import kept_bytes
from estimator.model import linear_parameters_per_layer
from estimator.networks.dims import dims
from estimator.networks.transformer import gradient_accumulation, network, optimizer
from estimator.ops import Op
from tests.estimator.examples import GPT, LLAMA, scenario

REFERENCE = Path(__file__).parents[2] / "reference"
COUNTED = ("gemm", "attention")


def flops(ops: tuple[Op, ...], phase: str) -> float:
    return sum(op.flops * op.count for op in ops if op.phase == phase and op.kind in COUNTED)


def table(name: str) -> list[dict[str, str]]:
    with (REFERENCE / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("row", table("estimator_cs336_flops.csv"), ids=lambda row: f"{row['model']}-{row['seq_len']}")
def test_forward_and_backward_flops_of_the_cs336_models(row):
    seq_len, batch = int(row["seq_len"]), int(row["batch"])
    one = scenario(f"cs336-{row['model'].lower()}", plan={"micro_batch": batch}, seq_len=seq_len, attention="eager")
    ops, layers = network(dims(one)), one.model.layers
    forward = layers * flops(ops.layer, "forward") + flops(ops.head, "forward")
    backward = layers * flops(ops.layer, "backward") + flops(ops.head, "backward")
    assert forward == int(row["forward_flops"])
    assert backward == int(row["backward_flops"])
    # The formula behind the table: 2·B·S·(L·(4d² + 3·d·d_ff) + d·V) + 4·L·B·S²·d.
    m = one.model
    products = layers * (4 * m.hidden**2 + 3 * m.hidden * m.ffn) + m.hidden * m.vocab
    assert forward == 2 * batch * seq_len * products + 4 * layers * batch * seq_len**2 * m.hidden


def test_narayanans_flops_with_full_recomputation():
    # Narayanan 2021 (arXiv 2104.04473), eq. 3: 96·B·s·l·h²·(1 + s/(6h) + V/(16·l·h)), forward, backward, forward again.
    one = scenario(
        {**GPT, "layers": 3, "hidden": 64, "heads": 2, "ffn": 256, "vocab": 500},
        plan={"recompute": "full", "micro_batch": 5}, framework="megatron", attention="eager",
    )  # fmt: skip
    ops = network(dims(one))
    total = sum(3 * flops(ops.layer, phase) + flops(ops.head, phase) for phase in ("forward", "backward"))
    s, h, layers, vocab, batch = 128, 64, 3, 500, 5
    assert total == pytest.approx(96 * batch * s * layers * h**2 * (1 + s / (6 * h) + vocab / (16 * layers * h)))


MEMORY = table("estimator_korthikanti_memory.csv")


def megatron(row: dict[str, str]):
    plan = {
        "tp": int(row["tp"]),
        "micro_batch": int(row["micro_batch"]),
        "sequence_parallel": row["sequence_parallel"] == "true",
        "recompute": row["recompute"],
    }
    return scenario(
        row["model"],
        plan=plan,
        seq_len=2048,
        framework="megatron",
        precision="fp16-amp",
        attention="eager",
        dropout=0.1,
    )


@pytest.mark.parametrize(
    "row", [row for row in MEMORY if row["quantity"] == "activations"],
    ids=lambda row: f"{row['recompute']}-{row['sequence_parallel']}",
)  # fmt: skip
def test_activation_memory_of_korthikanti(row):
    one = megatron(row)
    found = one.model.layers * kept_bytes(network(dims(one)).layer)
    assert found / 2**30 == pytest.approx(float(row["value"]), rel=1e-6)


@pytest.mark.parametrize(
    "row", [row for row in MEMORY if row["quantity"] == "share of baseline"],
    ids=lambda row: f"{row['model']}-{row['recompute']}-{row['sequence_parallel']}",
)  # fmt: skip
def test_activation_memory_relative_to_tensor_parallelism_alone(row):
    one = megatron(row)
    baseline = megatron({**row, "recompute": "none", "sequence_parallel": "false"})
    share = kept_bytes(network(dims(one)).layer) / kept_bytes(network(dims(baseline)).layer)
    # Printed with two digits, but drawn from rounded sizes: the formula itself lies within 0.1 points.
    assert 100 * share == pytest.approx(float(row["value"]), abs=0.1)


@pytest.mark.parametrize("row", [row for row in MEMORY if row["quantity"] == "states"], ids=lambda row: row["model"])
def test_states_are_18_bytes_per_parameter(row):
    one = megatron(row)
    n = dims(one).numbers
    per_rank = one.model.layers / int(row["pp"]) * linear_parameters_per_layer(one.model) / one.plan.tp
    assert per_rank * (n.parameter + n.gradient + n.optimizer) / 2**30 == pytest.approx(float(row["value"]), rel=1e-6)


def layer_of(recompute: str, *, model=LLAMA, framework="pytorch-eager", attention="eager") -> tuple[Op, ...]:
    return network(dims(scenario(model, plan={"recompute": recompute}, framework=framework, attention=attention))).layer


@pytest.mark.parametrize("framework", ["pytorch-eager", "megatron"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_recomputation_adds_to_backward_only_and_keeps_less(framework, attention):
    none, selective, full = (
        layer_of(recompute, framework=framework, attention=attention) for recompute in ("none", "selective", "full")
    )
    assert flops(none, "forward") == flops(selective, "forward") == flops(full, "forward")
    assert flops(none, "backward") < flops(selective, "backward") < flops(full, "backward")
    assert kept_bytes(full) < kept_bytes(selective) < kept_bytes(none)
    assert kept_bytes(full) == 128 * 256 * 2


def test_full_recomputation_runs_forward_again():
    none, full = layer_of("none", framework="megatron"), layer_of("full", framework="megatron")
    assert flops(full, "backward") - flops(none, "backward") == flops(none, "forward")


def test_pytorchs_checkpoint_stops_once_nothing_more_is_needed():
    none, full = layer_of("none"), layer_of("full")
    down = 2 * 128 * 704 * 256
    assert flops(full, "backward") - flops(none, "backward") == flops(none, "forward") - down


def test_fused_projections_do_the_same_products():
    fused, apart = layer_of("none", framework="megatron"), layer_of("none")
    for phase in ("forward", "backward"):
        assert flops(fused, phase) == flops(apart, phase)
    assert "qkv projection" in {op.name for op in fused}
    assert {"q projection", "k, v projections"} <= {op.name for op in apart}


def test_per_head_norms_add_their_kernels_and_nothing_else():
    plain = layer_of("none")
    normed = layer_of("none", model={**LLAMA, "qk_norm": True})
    assert {op.name for op in normed} - {op.name for op in plain} == {"q, k norm", "q, k norm gradient"}


def test_the_embedding_gradient_touches_the_whole_table():
    ops = {op.name: op for op in network(dims(scenario(LLAMA))).embedding}
    assert ops["embedding gradient table"].bytes == 1024 * 256 * 2
    assert ops["embedding"].bytes == 2 * 128 * 256 * 2
    learned = {op.name: op for op in network(dims(scenario(GPT))).embedding}
    assert learned["embedding gradient table"].bytes == (1024 + 128) * 256 * 2


@pytest.mark.parametrize(("vocab", "aligned"), [(50_257, False), (50_264, True), (1024, True)])
def test_odd_vocabularies_are_not_aligned(vocab, aligned):
    ops = network(dims(scenario({**LLAMA, "vocab": vocab}))).head
    assert {op.aligned for op in ops if op.kind == "gemm"} == {aligned}


def adamw(framework: str, **training) -> Op:
    (op,) = optimizer(dims(scenario(GPT, framework=framework, **training)), 1e6, 10.0)
    return op


def test_the_optimizer_moves_what_its_kernels_touch():
    # Foreach AdamW in bf16: 21 accesses of 2 bytes. One fused pass: parameter, gradient, two moments in; all but the
    # gradient out. Megatron: fp32 master, two moments and gradient in, three out, 2-byte copy, norm and scale.
    assert adamw("pytorch-eager").bytes == 42e6
    assert adamw("pytorch-eager", precision="fp32").bytes == 84e6
    assert adamw("ideal").bytes == 7 * 2e6
    assert adamw("megatron").bytes == 38e6
    assert adamw("pytorch-eager", optimizer="sgd").bytes == 6e6


def test_accumulating_reads_both_and_writes_one():
    d = dims(scenario(GPT, precision="bf16-amp"))
    (op,) = gradient_accumulation(d, 1e6, 10.0)
    assert op.bytes == 3 * 4e6
    assert gradient_accumulation(dims(scenario(GPT, framework="megatron")), 1e6, 10.0) == []


def test_catalogue_models_price_without_problem():
    for entry in catalog.entries("models"):
        ops = network(dims(scenario(entry.key)))
        forward = entry.value.layers * flops(ops.layer, "forward") + flops(ops.head, "forward")
        matrices = (
            entry.value.layers * linear_parameters_per_layer(entry.value) + entry.value.vocab * entry.value.hidden
        )
        square = 4 * entry.value.layers * entry.value.query_width * 128 * 128
        assert forward == 2 * 128 * matrices + square, entry.key
