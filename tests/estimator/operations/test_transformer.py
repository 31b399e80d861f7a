"""Transformer: the FLOPs of published formulas, the activation memory of Korthikanti 2022, the kinds of blocks."""

from __future__ import annotations

import csv
import timeit
from pathlib import Path

import pytest

from estimator.operations.op import WHOLE
from estimator.operations.rank_sizes import rank_sizes
from estimator.operations.transformer import network
from estimator.scenario import catalog
from estimator.scenario.codec import encode
from estimator.scenario.model import Model, block_kinds
from estimator.scenario.parameters import linear_parameters_per_layer
from tests.estimator.examples import GPT, LLAMA, scenario
from tests.estimator.operations.shapes import (
    ALL,
    ATTENTION,
    DEEPSEEK,
    FFN,
    WINDOWED,
    blocks_of,
    dims_of,
    flops,
    kept,
    named,
)

REFERENCE = Path(__file__).parents[2] / "reference"


def table(name: str) -> list[dict[str, str]]:
    with (REFERENCE / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("row", table("estimator_cs336_flops.csv"), ids=lambda row: f"{row['model']}-{row['seq_len']}")
def test_forward_and_backward_flops_of_the_cs336_models(row):
    seq_len, batch = int(row["seq_len"]), int(row["batch"])
    one = scenario(f"cs336-{row['model'].lower()}", plan={"micro_batch": batch}, seq_len=seq_len, attention="eager")
    ops, layers = network(rank_sizes(one)), one.model.layers
    forward = layers * flops(ops.blocks[0].ops, "forward") + flops(ops.head, "forward")
    backward = layers * flops(ops.blocks[0].ops, "backward") + flops(ops.head, "backward")
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
    ops = network(rank_sizes(one))
    total = sum(3 * flops(ops.blocks[0].ops, phase) + flops(ops.head, phase) for phase in ("forward", "backward"))
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
    found = one.model.layers * kept(network(rank_sizes(one)).blocks[0].ops)
    assert found / 2**30 == pytest.approx(float(row["value"]), rel=1e-6)


@pytest.mark.parametrize(
    "row", [row for row in MEMORY if row["quantity"] == "share of baseline"],
    ids=lambda row: f"{row['model']}-{row['recompute']}-{row['sequence_parallel']}",
)  # fmt: skip
def test_activation_memory_relative_to_tensor_parallelism_alone(row):
    one = megatron(row)
    baseline = megatron({**row, "recompute": "none", "sequence_parallel": "false"})
    share = kept(network(rank_sizes(one)).blocks[0].ops) / kept(network(rank_sizes(baseline)).blocks[0].ops)
    # Printed with two digits, but drawn from rounded sizes: the formula itself lies within 0.1 points.
    assert 100 * share == pytest.approx(float(row["value"]), abs=0.1)


@pytest.mark.parametrize("row", [row for row in MEMORY if row["quantity"] == "states"], ids=lambda row: row["model"])
def test_states_are_18_bytes_per_parameter(row):
    one = megatron(row)
    n = rank_sizes(one).widths
    per_rank = one.model.layers / int(row["pp"]) * linear_parameters_per_layer(one.model) / one.plan.tp
    assert per_rank * (n.parameter + n.gradient + n.optimizer) / 2**30 == pytest.approx(float(row["value"]), rel=1e-6)


def active_matrices(model: Model, experts: bool) -> int:
    """Weights of one block that a token is multiplied with."""
    unused = (model.experts - model.top_k) * (3 if model.gated_ffn else 2) * model.hidden * model.expert_ffn
    return linear_parameters_per_layer(model, experts) - (unused if experts else 0)


@pytest.mark.parametrize("key", [entry.key for entry in catalog.entries("models")])
def test_forward_flops_of_every_catalogue_model(key):
    # 2 per active weight and token, 2·S·(dq + dv) per head and token: three times that with backward's products.
    model = catalog.model(key)
    ops = network(dims_of(encode(model)))
    forward = sum(block.layers * flops(block.ops, "forward") for block in ops.blocks) + flops(ops.head, "forward")
    matrices = model.vocab * model.hidden
    matrices += sum(kind.layers * active_matrices(model, kind.experts) for kind in block_kinds(model))
    core = model.layers * 2 * 128 * 128 * (model.query_width + model.output_width)
    assert forward == 2 * 128 * matrices + core


@pytest.mark.parametrize("name", ALL)
def test_backward_multiplies_every_weight_twice(name):
    for block in blocks_of(ALL[name], attention="eager").values():
        assert flops(block.ops, "backward") == 2 * flops(block.ops, "forward")
        weight = sum(op.flops * op.count for op in block.ops if op.weight and op.kind == "gemm")
        linears = sum(op.flops * op.count for op in block.ops if op.category == "matmul" and op.phase == "forward")
        assert weight == linears


def test_kinds_of_blocks_have_their_own_name_and_ops():
    blocks = blocks_of(DEEPSEEK)
    assert [(name, block.layers, block.leading) for name, block in blocks.items()] == [
        ("dense layer", 2, True),
        ("expert layer", 3, False),
    ]
    assert {op.layer for op in blocks["expert layer"].ops} == {"expert layer"}
    assert {name: block.layers for name, block in blocks_of(WINDOWED).items()} == {"window layer": 2, "layer": 2}
    assert list(blocks_of({**DEEPSEEK, "sliding_window": 8, "full_attention_every": 2})) == [
        "window dense layer", "dense layer", "window expert layer", "expert layer",
    ]  # fmt: skip


def test_attention_and_feed_forward_part_meet_at_the_attention_residual():
    for model in (GPT, DEEPSEEK, WINDOWED):
        for block in blocks_of(model).values():
            names = [op.name for op in block.ops if op.phase == "forward"]
            border = names.index("attention residual")
            assert names.index("output projection") < border < names.index("ffn norm")
            assert names[-1] == "ffn residual"


@pytest.mark.parametrize(("norms", "names"), [
    (0, []), (1, ["attention norm"]), (2, ["attention norm", "ffn norm"]),
    (4, ["attention norm", "attention output norm", "ffn norm", "ffn output norm"]),
])  # fmt: skip
def test_a_block_has_as_many_norms_as_the_model_says(norms, names):
    (block,) = blocks_of({**GPT, "norms_per_layer": norms}).values()
    assert [op.name for op in block.ops if op.phase == "forward" and "norm" in op.name] == names


@pytest.mark.parametrize("framework", ["pytorch-eager", "megatron"])
def test_parallel_attention_and_network_multiply_what_they_do_one_after_the_other(framework):
    (plain,), (side,) = (
        blocks_of({**GPT, "parallel_residual": parallel}, framework=framework).values() for parallel in (False, True)
    )
    assert named(plain.ops) == named(side.ops)
    (one,) = blocks_of({**GPT, "parallel_residual": True, "norms_per_layer": 1}, framework=framework).values()
    assert flops(one.ops) == flops(side.ops)
    # One norm's output is kept once for both, and its two gradients are added.
    without = blocks_of({**GPT, "norms_per_layer": 1}, framework=framework)["layer"]
    assert kept(without.ops) - kept(one.ops) == 128 * 256 * 2
    assert [name for name in named(one.ops) if name not in named(without.ops)] == ["norm gradient sum"]


def test_parallel_attention_and_network_cast_or_quantise_one_input_each():
    def kept_of(**training) -> float:
        model = {**GPT, "parallel_residual": True, "norms_per_layer": 1}
        return kept(blocks_of(model, **training)["layer"].ops) - kept(
            blocks_of({**model, "parallel_residual": False}, **training)["layer"].ops
        )

    assert kept_of(framework="pytorch-eager", precision="bf16-amp") == 0
    assert kept_of(precision="fp8") == -128 * 256


def test_bare_stacks_have_their_half_only():
    (ffn,) = blocks_of(FFN).values()
    (attention,) = blocks_of(ATTENTION).values()
    assert [op.name for op in ffn.ops if op.phase == "forward"] == ["up projection", "activation", "down projection"]
    assert flops(ffn.ops) == 6 * 128 * 2 * 256 * 1024
    assert [op.name for op in attention.ops if op.phase == "forward"] == [
        "qkv projection",
        "attention",
        "output projection",
    ]
    assert (attention.ffn_gradient_bytes, attention.ffn_parameters) == (0, 0)


def test_gradients_inside_the_feed_forward_part():
    (gpt,) = blocks_of(GPT).values()
    assert gpt.ffn_gradient_bytes == 128 * 1024 * 2
    dense, expert = blocks_of(DEEPSEEK).values()
    assert dense.ffn_gradient_bytes == 128 * 2 * 704 * 2
    # Rows that went to experts and both halves of the gated width: 4 of 128 tokens each, 256 + 2·96 wide.
    assert expert.ffn_gradient_bytes == 4 * 128 * (256 + 2 * 96) * 2


def test_a_network_is_described_in_a_fraction_of_a_millisecond():
    d = dims_of(encode(catalog.model("llama3-405b")))
    network(d)
    best_s = min(timeit.repeat(lambda: network(d), number=20, repeat=20)) / 20
    assert best_s < 1e-3, "every move of a slider pays for this; about 0.13 ms on an idle core"
    assert named(network(d).blocks[0].ops)["qkv projection"].m == 128


def test_the_embedding_gradient_touches_the_whole_table():
    ops = {op.name: op for op in network(rank_sizes(scenario(LLAMA))).embedding}
    assert ops["embedding gradient table"].bytes == 1024 * 256 * 2
    assert ops["embedding"].bytes == 2 * 128 * 256 * 2
    learned = {op.name: op for op in network(rank_sizes(scenario(GPT))).embedding}
    assert learned["embedding gradient table"].bytes == (1024 + 128) * 256 * 2


def test_a_compiler_copies_what_an_odd_vocabulary_multiplies_into_whole_rows():
    one = {"framework": "pytorch-compile", "precision": "bf16-amp", "seq_len": 128}
    odd, even = (network(rank_sizes(scenario({**GPT, "vocab": vocab}, **one))).head for vocab in (1001, 1008))
    assert {op.fetched for op in odd if op.kind == "gemm"} == {WHOLE}
    copied = [op for op in odd if "padding" in op.name]
    assert [(op.phase, op.bytes) for op in copied] == [("forward", 4 * 1001 * 256), ("backward", 4 * 1001 * 128)]
    assert not [op for op in even if "padding" in op.name]
    blocks_alone = scenario({**GPT, "vocab": 1001}, **{**one, "framework": "torchtitan"}, compile=True)
    ops = network(rank_sizes(blocks_alone)).head
    assert {op.fetched for op in ops if op.kind == "gemm"} == {1}


@pytest.mark.parametrize(("vocab", "fetched"), [(50_257, 1), (30_522, 2), (50_260, 4), (50_264, WHOLE), (1024, WHOLE)])
def test_odd_vocabularies_are_not_aligned(vocab, fetched):
    ops = network(rank_sizes(scenario({**LLAMA, "vocab": vocab}))).head
    assert {op.fetched for op in ops if op.kind == "gemm"} == {fetched}


def test_the_head_stays_in_16_bit_under_fp8():
    ops = network(dims_of(LLAMA, precision="fp8"))
    assert {op.precision for op in ops.head if op.kind == "gemm"} == {"bf16"}
    assert "fp8" in {op.precision for op in ops.blocks[0].ops}


def test_bare_stacks_have_no_edges():
    for model in (FFN, ATTENTION):
        assert network(dims_of(model)).embedding == network(dims_of(model)).head == ()


def test_a_grid_divides_table_look_ups_and_logits_over_all_its_ranks():
    whole, grid = (network(dims_of(LLAMA, plan)) for plan in ({}, {"tp": 4, "tp_kind": "2d"}))
    for one, part in zip((*whole.embedding, *whole.head), (*grid.embedding, *grid.head), strict=True):
        assert part.flops * part.count == one.flops / 4, one.name
        if one.kind == "kernels":
            assert part.bytes == one.bytes / 4, one.name
    table = named(network(dims_of(LLAMA, {"tp": 8, "tp_kind": "3d"})).embedding)["embedding gradient table"]
    assert table.bytes == 1024 * 256 * 2 / 8
