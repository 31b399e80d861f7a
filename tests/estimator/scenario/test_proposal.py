"""Scenarios proposed from profiles: right in every field that the profile determines, and honest about the others."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from app.importers import import_file
from estimator.estimate.of_op_list import cluster_for, estimate_op_list
from estimator.scenario import catalog
from estimator.scenario.op_list import Call, Operand, OpList, Signature, from_json
from estimator.scenario.proposal.proposal import proposal
from estimator.scenario.scenario import scenario_from_json
from tests.estimator.scenario.made_profiles import TABLE, Q, kernel, made

REFERENCE = Path(__file__).parents[2] / "reference"
LLAMA = {
    "model.layers": 2, "model.hidden": 2048, "model.heads": 32, "model.kv_heads": 8, "model.head_dim": 64,
    "model.ffn": 8192, "model.gated_ffn": True, "model.activation": "silu", "model.vocab": 128256, "model.norm": "rms",
    "model.norms_per_layer": 2, "model.position": "rope", "model.bias": False, "model.tied_embedding": True,
    "training.seq_len": 2048, "training.precision": "bf16-amp", "training.optimizer": "adamw",
    "training.attention": "sdpa", "training.compile": False, "training.dropout": 0.0, "plan.micro_batch": 4,
    "plan.tp": 1, "plan.pp": 1, "plan.sharding": "ddp", "plan.recompute": "none", "cluster.chip": "h200-sxm",
}  # fmt: skip
SMALL = {
    "model.layers": 2, "model.hidden": 256, "model.heads": 4, "model.kv_heads": 4, "model.head_dim": 64,
    "model.ffn": 1024, "model.gated_ffn": False, "model.vocab": 1000, "model.norm": "layer", "model.bias": False,
    "model.ffn_bias": True, "training.seq_len": 512, "training.precision": "bf16-amp", "training.optimizer": "adamw",
    "training.attention": "sdpa", "training.global_batch": 8, "plan.micro_batch": 4, "plan.dp": 2, "plan.tp": 1,
    "plan.pp": 1, "plan.sharding": "ddp", "plan.recompute": "none", "cluster.chip": "h200-sxm",
}  # fmt: skip
"""What tests/reference/kineto/record.py runs."""


TRUTH: dict[str, dict[str, Any]] = {
    "h200/trace-short-1.trace.json.gz": {**LLAMA, "plan.dp": 1, "training.global_batch": 4},
    "h200/trace-short-2.trace.json.gz": {**LLAMA, "plan.dp": 2, "training.global_batch": 8},
    "h200/trace-short-4.trace.json.gz": {**LLAMA, "plan.dp": 4, "training.global_batch": 16},
    "kineto/h200_ddp.json.gz": {
        **LLAMA, "model.hidden": 512, "model.heads": 8, "model.kv_heads": 4, "model.ffn": 1536, "model.vocab": 8000,
        "model.tied_embedding": False, "training.seq_len": 256, "training.precision": "bf16", "plan.micro_batch": 2,
        "plan.dp": 2, "training.global_batch": 4,
    },
    "kineto/h200_ddp_amp.json.gz": {
        **SMALL, "model.position": "none", "model.norms_per_layer": 2, "training.compile": False,
        "training.dropout": 0.0,
    },
    "kineto/h200_ddp_compile.json.gz": {**SMALL, "training.compile": True},
}  # fmt: skip


@cache
def listed(name: str) -> OpList:
    (found,) = import_file(REFERENCE / name, name).op_lists
    assert found is not None
    return from_json(found)


@pytest.mark.parametrize("name", TRUTH)
def test_every_field_that_the_profile_determines_is_right(name):
    found = proposal(listed(name))
    assert found.reason == ""
    assert found.whole
    sure = {path: one.value for path, one in found.fields.items() if one.sure}
    known = TRUTH[name]
    assert {path: sure.get(path) for path in known} == known
    assert all(one.evidence for one in found.fields.values())
    assert found.scenario is not None
    scenario = scenario_from_json(found.scenario)
    assert scenario.micro_batches == 1
    assert scenario.plan.chips == scenario.cluster.chips == known["plan.dp"]


def test_what_a_profile_cannot_tell_is_guessed_and_says_so():
    found = proposal(listed("kineto/h200_ddp_amp.json.gz")).fields
    assert not found["model.activation"].sure  # whether GELU by tanh
    assert not found["cluster.nodes"].sure
    compiled = proposal(listed("kineto/h200_ddp_compile.json.gz")).fields
    assert not compiled["model.position"].sure
    assert not compiled["training.dropout"].sure
    assert "model.norms_per_layer" not in compiled


def without(ops: OpList, *phases: str) -> OpList:
    kept = tuple(replace(call, waits_for=-1) for call in ops.calls if call.phase not in phases and call.signature >= 0)
    return replace(ops, calls=kept)


def test_inference_is_no_training_step():
    found = proposal(without(listed("h200/trace-short-1.trace.json.gz"), "backward", "optimizer"))
    assert not found.whole
    assert any("no backward pass and no step of an optimizer" in note for note in found.notes)
    assert not found.fields["training.optimizer"].sure
    assert not found.fields["plan.recompute"].sure
    assert found.fields["model.layers"].value == 2


def test_two_micro_batches_are_two_passes():
    ops = listed("h200/trace-short-1.trace.json.gz")
    calls = without(ops).calls
    twice = [call for call in calls if call.phase != "optimizer"]
    found = proposal(replace(ops, calls=(*twice, *twice, *(call for call in calls if call.phase == "optimizer"))))
    assert found.fields["model.layers"].value == 2
    assert found.fields["training.global_batch"].value == 8
    assert found.scenario is not None
    assert scenario_from_json(found.scenario).micro_batches == 2


def test_no_attention_and_no_vocabulary_give_a_reason():
    assert "no attention" in made(kernel("aten::mm", (4, 8), (8, 4))).reason
    attention = kernel("aten::_scaled_dot_product_flash_attention", Q, Q, Q, is_causal=False)
    found = made(attention, kernel("aten::mm", (32, 512), (512, 512)), kernel("aten::mm", (32, 2048), (2048, 512)))
    assert "no tokens" in found.reason
    assert found.scenario is None


def test_attention_of_square_heads_is_told_and_beside_a_recurrent_network_it_gives_another_reason():
    square = kernel("aten::bmm", (16, 64, 64), (16, 64, 64))
    attention = [square, kernel("aten::_safe_softmax", (4, 4, 64, 64)), square]
    found = made(*attention, kernel("aten::mm", (256, 256), (256, 1024)), kernel("aten::mm", (256, 1024), (1024, 256)))
    assert found.fields or "no tokens" in found.reason
    recurrent = made(*attention, *[kernel("aten::addmm", (512,), (4, 128), (128, 512))] * 64)
    assert "beside a recurrent network" in recurrent.reason
    pooler, loss = (
        kernel("aten::addmm", (512,), (4, 512), (512, 512)),
        kernel("aten::nll_loss_forward", (256, 100), (256,)),
    )
    calls = tuple(Call(kind="kernel", signature=at, phase="forward") for at in (0, 1, 0, 2, 3)) * 80
    signatures = (square, attention[1], pooler, loss)
    pooled = proposal(OpList(source="profile", program="made", signatures=signatures, calls=calls))
    assert "recurrent" not in pooled.reason, "a pooler of each micro-batch"


@pytest.mark.parametrize(
    ("signatures", "modules"),
    [
        ([kernel("aten::bmm", (8, 200, 16), (8, 16, 200)), kernel("aten::_softmax", (8, 200, 200))], ()),
        ([kernel("mylib::paged", (888, 8, 64), category="attention")], ()),
        ([kernel("aten::_native_multi_head_attention", (4, 200, 128))], ()),
        ([kernel("aten::mm", (4, 8), (8, 4))], ("Net.0.MultiheadAttention.0",)),
    ],
)
def test_attention_without_its_heads_is_not_called_none(signatures, modules):
    reason = made(*signatures, modules=modules).reason
    assert "no op says its heads" in reason


def test_attention_that_sees_all_tokens_is_said():
    attention = kernel("aten::_scaled_dot_product_flash_attention", Q, Q, Q, is_causal=False)
    products = [kernel("aten::mm", (32, a), (a, b)) for a, b in ((512, 1536), (512, 512), (512, 2048), (2048, 512))]
    found = made(TABLE, attention, *products)
    assert found.scenario is not None
    assert any("sees all tokens" in note for note in found.notes)
    assert found.fields["model.kv_heads"].value == 8
    assert found.fields["model.ffn"].value == 2048


@pytest.mark.parametrize("softmax", ["_softmax", "_safe_softmax"])
def test_eager_attention_is_read_from_its_scores(softmax):
    scores = kernel(f"aten::{softmax}", (2, 8, 16, 16))
    first = kernel("aten::bmm", (16, 16, 64), (16, 64, 16))
    second = kernel("aten::bmm", (16, 16, 16), (16, 16, 64))
    products = [kernel("aten::mm", (32, a), (a, b)) for a, b in ((512, 1536), (512, 512), (512, 2048), (2048, 512))]
    found = made(TABLE, first, scores, second, *products).fields
    assert found["training.attention"].value == "eager"
    assert (found["model.heads"].value, found["model.head_dim"].value) == (8, 64)
    assert found["plan.micro_batch"].value == 2


def test_what_ran_on_a_cpu_is_proposed_on_no_gpu():
    found = proposal(replace(listed("kineto/h200_ddp.json.gz"), chip="cpu"))
    assert (found.fields["cluster.chip"].value, found.fields["cluster.chip"].sure) == ("cpu", True)
    assert (found.scenario, found.fields["model.tied_embedding"].value) == (None, False)
    assert "not measured yet" in found.reason


@pytest.mark.usefixtures("catalogue_as_before")
def test_ranks_of_a_cpu_share_one_host():
    slow = {"tf32_flops_per_s": 1e12, "fp32_flops_per_s": 1e12, "bf16_flops_per_s": 1e12, "memory_bytes_per_s": 1e11}
    here = replace(catalog.chip("h100-sxm"), name="cpu", kind="cpu", chips_per_node=1, **slow)
    catalog.add("chips", catalog.CatalogEntry(key="cpu", label="Cores of mine", value=here))
    ops = replace(listed("kineto/h200_ddp.json.gz"), chip="cpu")
    fields = proposal(ops).fields
    assert (fields["cluster.nodes"].value, fields["cluster.chips_per_node"].value) == (1, 2)
    cluster = cluster_for(ops)
    assert (cluster.nodes, cluster.chips_per_node) == (1, 2)
    both, alone = (estimate_op_list(ops, one, interval=False) for one in (cluster, replace(cluster, chips_per_node=1)))
    assert "each is predicted with 1/2 of its cores, caches and memory" in both.assumptions[0]
    assert both.memory.capacity_bytes == alone.memory.capacity_bytes / 2
    # products take twice as long, but for their starts and for waves over half of the cores
    assert 1.9 < both.breakdown_s["matmul"] / alone.breakdown_s["matmul"] < 2.1


def test_tensor_parallel_ranks_add_activations_up():
    half = (2, 4, 16, 64)
    attention = kernel("aten::_scaled_dot_product_flash_attention", half, half, half, is_causal=True)
    products = [kernel("aten::mm", (32, a), (a, b)) for a, b in ((512, 768), (256, 512), (512, 1024), (1024, 512))]
    signatures = (TABLE, attention, *products, kernel("c10d::allreduce_", (16384,), group=0))
    calls = [Call(kind="kernel", signature=at, phase="forward") for at in range(len(signatures) - 1)]
    outputs = replace(signatures[3], outputs=(Operand(shape=(32, 512), dtype="bfloat16"),))
    signatures = (*signatures[:3], outputs, *signatures[4:])
    calls.append(Call(kind="collective", signature=len(signatures) - 1, phase="forward"))
    ops = OpList(
        source="profile", program="tp", signatures=signatures, calls=tuple(calls), groups=((0, 1),), world_size=2,
        chip="h100-sxm",
    )  # fmt: skip
    found = proposal(ops).fields
    assert found["plan.tp"].value == 2
    assert found["plan.dp"].value == 1
    assert found["model.heads"].value == 8
    assert found["model.ffn"].value == 2048


@pytest.mark.parametrize(
    ("ops", "sharding"),
    [
        (("c10d::_allgather_base_", "c10d::_reduce_scatter_base_"), "fsdp"),
        (("_c10d_functional::all_gather_into_tensor", "_c10d_functional::reduce_scatter_tensor"), "fsdp"),
        (("c10d::allreduce_",), "ddp"),
    ],
)
def test_sharding_by_what_is_exchanged(ops, sharding):
    base = listed("h200/trace-short-2.trace.json.gz")
    signatures = (*base.signatures, *(kernel(name, (10**6,), group=0) for name in ops))
    kept = [call for call in without(base).calls if call.kind != "collective"]
    exchanges = [
        Call(kind="collective", signature=len(base.signatures) + at, phase="backward", stream=1)
        for at in range(len(ops))
    ]
    found = proposal(replace(base, signatures=signatures, calls=(*kept, *exchanges))).fields
    assert found["plan.sharding"].value == sharding


def test_recomputed_products_are_full_recomputation():
    base = listed("h200/trace-short-1.trace.json.gz")
    again = [
        replace(call, phase="backward", recomputed=True, waits_for=-1)
        for call in base.calls
        if call.kind == "kernel" and call.phase == "forward"
    ]
    found = proposal(replace(base, calls=(*without(base).calls, *again)))
    assert found.fields["plan.recompute"].value == "full"
    assert found.fields["model.layers"].value == 2


@pytest.mark.parametrize(
    ("op", "attention"), [("flash_attn_3::_flash_attn_forward", "flash"), ("aten::_flash_attention_forward", "sdpa")]
)
def test_packed_sequences_are_as_many_as_the_longest_allows(op, attention):
    found = listed("h200/trace-short-1.trace.json.gz")

    def packed(s: Signature) -> Signature:
        if "attention" not in s.op or "backward" in s.op:
            return s
        inputs = tuple(
            replace(one, shape=(one.shape[0] * one.shape[2], one.shape[1], one.shape[3]), strides=None)
            for one in s.inputs[:3]
        )
        return replace(s, op=op, inputs=inputs, arguments={"max_seqlen": 2048, "is_causal": True})

    proposed = proposal(replace(found, signatures=tuple(map(packed, found.signatures))))
    fields = {name: one.value for name, one in proposed.fields.items()}
    wanted = ("training.seq_len", "model.heads", "model.kv_heads", "model.head_dim", "plan.micro_batch", "model.layers")
    assert {name: fields.get(name) for name in wanted} == {name: LLAMA[name] for name in wanted}, proposed.reason
    assert fields["training.attention"] == attention


@pytest.mark.parametrize(
    ("shape", "arguments", "rate", "is_sure"),
    [
        ((2, 16, 512), {"p": 0.9}, 0.1, True),
        ((2, 16, 512), {}, 0.0, False),
        ((2, 1, 1), {"p": 0.9}, 0.0, True),  # whole samples of a residual
    ],
)
def test_dropout_of_a_cpu_is_told_by_what_it_draws(shape, arguments, rate, is_sure):
    attention = kernel("aten::_scaled_dot_product_flash_attention_for_cpu", Q, Q, Q, dropout_p=0.0)
    widths = ((512, 1536), (512, 512), (512, 2048), (2048, 512), (512, 100))
    products = [kernel("aten::mm", (32, inner), (inner, outer)) for inner, outer in widths]
    drawn = kernel("aten::bernoulli_", shape, **arguments)
    found = made(TABLE, attention, *products, drawn).fields["training.dropout"]
    assert (found.value, found.sure) == (rate, is_sure)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_trace_says_by_its_marks_whether_it_is_compiled(compiled):
    ops = from_json(json.loads((REFERENCE / "ops" / "gpt2.json").read_text()))
    marked = tuple(replace(call, compiled=compiled and call.kind == "kernel") for call in ops.calls)
    found = proposal(replace(ops, calls=marked)).fields["training.compile"]
    assert (found.value, found.sure) == (compiled, True)
    assert found.evidence == (
        "regions that the program compiles" if compiled else "no region that the program compiles"
    )


WIDTHS = ((512, 1536), (512, 512), (512, 2048), (2048, 512), (512, 100))


@pytest.mark.parametrize(
    ("chip", "updates", "optimizer", "chosen"),
    [
        ("h200-sxm", ("_foreach_norm", "_foreach_add_", "_fused_adamw_"), "adamw", "fused"),
        ("h200-sxm", ("_foreach_add_", "_foreach_lerp_", "_foreach_addcdiv_"), "adamw", "default"),
        ("h200-sxm", ("_foreach_mul_", "lerp_", "addcdiv_"), "adamw", "for-loop"),
        ("h200-sxm", ("_fused_sgd_",), "sgd", "fused"),
        ("h200-sxm", ("_foreach_mul_", "add_"), "sgd", "for-loop"),
        ("cpu", ("lerp_", "addcdiv_"), "adamw", "default"),
        ("cpu", ("_foreach_lerp_", "_foreach_addcdiv_"), "adamw", "foreach"),
        ("cpu", ("_fused_adamw_",), "adamw", "fused"),
    ],
)
def test_the_optimizers_kernels_are_those_that_ran(chip, updates, optimizer, chosen):
    attention = kernel("aten::_scaled_dot_product_flash_attention", Q, Q, Q, is_causal=True)
    products = [kernel("aten::mm", (32, inner), (inner, outer)) for inner, outer in WIDTHS]
    ran = [kernel(f"aten::{name}", *WIDTHS) for name in updates]
    phases = ["forward"] * (2 + len(products)) + ["optimizer"] * len(ran)
    calls = tuple(Call(kind="kernel", signature=at, phase=phase) for at, phase in enumerate(phases))
    signatures = (TABLE, attention, *products, *ran)
    found = proposal(OpList(source="trace", program="made", chip=chip, signatures=signatures, calls=calls)).fields
    assert found["training.optimizer"].value == optimizer
    assert found["training.optimizer_kernel"].value == chosen


@pytest.mark.parametrize("fused", [True, False])
def test_precision_is_that_of_the_parameters_not_of_the_counters_of_steps(fused):
    attention = kernel("aten::_scaled_dot_product_flash_attention", Q, Q, Q, is_causal=True)
    widths = ((512, 1536), (512, 512), (512, 2048), (2048, 512), (512, 100))
    products = [kernel("aten::mm", (32, inner), (inner, outer)) for inner, outer in widths]
    counters = Signature(op="aten::_foreach_add_", inputs=(Operand(shape=(), dtype="float32"),) * 5)
    name = "aten::_fused_adamw_" if fused else "aten::_foreach_addcdiv_"
    update = Signature(op=name, inputs=kernel("", *widths).inputs * 4 + counters.inputs)
    signatures = (TABLE, attention, *products, counters, update)
    phases = ["optimizer" if one in (counters, update) else "forward" for one in signatures]
    calls = tuple(Call(kind="kernel", signature=at, phase=phase) for at, phase in enumerate(phases))
    found = proposal(OpList(source="trace", program="made", signatures=signatures, calls=calls))
    assert found.fields["training.precision"].value == "bf16"
    assert found.fields["training.precision"].evidence == "products of bfloat16, parameters of bfloat16"
    assert found.fields["training.optimizer_kernel"].value == ("fused" if fused else "default")
