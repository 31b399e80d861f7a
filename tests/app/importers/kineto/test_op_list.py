"""The op list of a profile: what the H200's traces hold, and a trace whose every number is known."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache

import pytest
import torch

from app.importers import import_file
from app.importers.kineto.called_ops import LOOKED_THROUGH
from estimator.operations.aten import kernels_of
from estimator.scenario.op_list import NONE, Call, OpList, from_json, to_json
from tests.app.importers.kineto import made
from tests.app.importers.reading import REFERENCE, read

TRACES = {
    "amp": "kineto/h200_ddp_amp.json.gz",
    "compile": "kineto/h200_ddp_compile.json.gz",
    "bf16": "kineto/h200_ddp.json.gz",
    "one": "h200/trace-short-1.trace.json.gz",
    "two": "h200/trace-short-2.trace.json.gz",
}


@cache
def listed(name: str) -> OpList:
    path = REFERENCE / TRACES[name]
    (found,) = import_file(path, path.name).op_lists
    assert found is not None
    return from_json(found)


def named(ops: OpList, phase: str = "") -> Counter[str]:
    return Counter(ops.of(c).op for c in ops.calls if c.kind == "kernel" and phase in ("", c.phase))


def works(ops: OpList) -> list[Call]:
    return [call for call in ops.calls if call.kind in ("kernel", "collective")]


@pytest.mark.parametrize("name", TRACES)
def test_every_kernel_s_time_belongs_to_one_call(name):
    path = REFERENCE / TRACES[name]
    (measurement,) = import_file(path, path.name).measurements
    ops = listed(name)
    assert sum(call.measured_s or 0.0 for call in works(ops)) == pytest.approx(
        sum(kernel.total_s for kernel in measurement.kernels), rel=1e-4
    )
    assert ops.loop_s == pytest.approx(sorted(measurement.steps_s)[(len(measurement.steps_s) - 1) // 2], rel=0.2)
    assert ops.chip == "h200-sxm"
    assert ops.source == "profile"


def test_ops_are_those_that_the_dispatcher_sees():
    """Two blocks: q, k, v and out, gate, up and down of Llama; no op that only chooses another."""
    forward = named(listed("bf16"), "forward")
    assert forward["aten::mm"] == 2 * 7 + 1
    assert forward["aten::_scaled_dot_product_cudnn_attention"] == 2
    assert forward["aten::rsqrt"] == 5
    assert forward["aten::embedding"] == 1
    assert not {name for name in named(listed("bf16")) if name in LOOKED_THROUGH}
    backward = named(listed("bf16"), "backward")
    assert backward["aten::mm"] == 2 * forward["aten::mm"]
    optimizer = named(listed("bf16"), "optimizer")
    assert set(optimizer) >= {"aten::_foreach_lerp_", "aten::_foreach_addcdiv_", "aten::_foreach_sqrt"}


def test_a_signature_has_shapes_types_strides_arguments_and_results():
    ops = listed("amp")
    attention = next(s for s in ops.signatures if s.op == "aten::_scaled_dot_product_cudnn_attention")
    assert [one.shape for one in attention.inputs] == [(4, 4, 512, 64)] * 3
    assert attention.inputs[0].strides == (393216, 64, 768, 1)
    assert {one.dtype for one in attention.inputs} == {"bfloat16"}
    assert attention.arguments == {"dropout_p": 0.0, "is_causal": True, "backend": "cudnn"}
    assert attention.outputs[0].shape == (4, 4, 512, 64)
    product = next(s for s in ops.signatures if s.op == "aten::addmm")
    assert [one.shape for one in product.inputs] == [(1024,), (2048, 256), (256, 1024)]
    assert product.inputs[2].strides == (1, 256)
    assert product.outputs[0].shape == (2048, 1024)
    cast = next(s for s in ops.signatures if s.op == "aten::_to_copy")
    assert (cast.inputs[0].dtype, cast.outputs[0].dtype) == ("float32", "bfloat16")


def test_collectives_run_aside_and_are_waited_for():
    ops = listed("amp")
    exchanges = [index for index, call in enumerate(ops.calls) if call.kind == "collective"]
    assert [ops.of(ops.calls[at]).inputs[0].shape for at in exchanges] == [(518144,), (1571328,)]
    assert ops.groups == ((0, 1),)
    assert {ops.of(ops.calls[at]).arguments["group"] for at in exchanges} == {0}
    assert {ops.calls[at].stream for at in exchanges} == {1}
    assert [call.waits_for for call in ops.calls if call.kind == "wait" and call.stream == 0] == exchanges
    first = next(call for call in ops.calls if call.kind == "wait" and call.stream == 1)
    assert ops.calls[first.waits_for].stream == 0
    assert (ops.world_size, ops.rank) == (2, 0)


def test_parameters_are_what_a_backward_pass_accumulates():
    width, vocab = 256, 1000
    assert listed("amp").parameters == 2 * vocab * width + 2 * (12 * width**2 + 9 * width)
    hidden, kv, ffn = 2048, 512, 8192
    block = 2 * hidden**2 + 2 * hidden * kv + 3 * hidden * ffn + 2 * hidden
    assert listed("two").parameters == 128256 * hidden + 2 * block + hidden


def test_what_inductor_fused_is_a_call_by_its_own_name():
    ops = listed("compile")
    fused = [s for s in ops.signatures if s.op.startswith("triton_")]
    assert len(fused) > 20
    assert all(s.inputs for s in fused)
    assert not any(call.compiled for call in ops.calls)  # its neighbours are fused already


def test_looked_through_ops_have_no_kernel_of_their_own():
    """As PyTorch registers them: composite of other ops, whatever the backend."""
    overloads: dict[str, list[str]] = {}
    for schema in torch._C._jit_get_all_schemas():
        if schema.name in LOOKED_THROUGH:
            name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
            overloads.setdefault(schema.name, []).append(name)
    composite = torch._C._dispatch_has_kernel_for_dispatch_key
    assert not [
        op for op, names in overloads.items() if not any(composite(name, "CompositeImplicitAutograd") for name in names)
    ]
    assert len(overloads) > 0.95 * len(LOOKED_THROUGH)  # some releases lack a few


def test_a_trace_made_by_hand(tmp_path):
    (found,) = read(tmp_path, made.trace()).op_lists
    ops = from_json(found)
    calls = works(ops)
    assert [ops.of(call).op for call in calls] == [
        "aten::mm", "aten::_flash_attention_forward", "aten::mm", "c10d::allreduce", "aten::add_"
    ]  # fmt: skip
    assert [call.phase for call in calls] == ["forward", "forward", "backward", "backward", "optimizer"]
    assert [call.measured_s for call in calls] == pytest.approx([1000.25e-6, 500e-6, 2000e-6, 1500e-6, 300e-6])
    assert ops.of(calls[3]).inputs[0].dtype == "bfloat16"
    assert ops.groups == ((0, 1, 2, 3),)


@pytest.mark.parametrize(
    ("kernel", "tf32"),
    [
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4>", True),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32", True),
        ("ampere_sgemm_128x64_tn", False),
    ],
)
def test_a_kernel_s_name_says_whether_a_product_of_fp32_rounds_its_inputs(tmp_path, kernel, tf32):
    document = made.trace()
    for event in document["traceEvents"]:
        if event["name"] == "aten::mm":
            event["args"]["Input type"] = ["float", "float"]
        elif "gemm" in event["name"]:
            event["name"] = kernel
    (found,) = read(tmp_path, document).op_lists
    ops = from_json(found)
    products = [ops.of(call) for call in works(ops) if ops.of(call).op == "aten::mm"]
    assert [s.arguments.get("tf32", False) for s in products] == [tf32] * 2
    (precision,) = {one.precision for s in products for one in kernels_of(s)}
    assert precision == ("tf32" if tf32 else "fp32")


def test_without_shapes_there_is_no_list(tmp_path):
    document = made.trace()
    for event in document["traceEvents"]:
        event.get("args", {}).pop("Input Dims", None)
    assert read(tmp_path, document).op_lists == ()


def test_of_shapes_without_types_there_is_no_list(tmp_path):
    document = made.trace()
    for event in document["traceEvents"]:
        if "Input type" in event.get("args", {}):
            event["args"]["Input type"] = []
    assert read(tmp_path, document).op_lists == ()


def test_modules_come_from_the_stack_and_a_gradient_s_from_its_forward(tmp_path):
    document = made.trace(steps=1)
    for event in document["traceEvents"]:
        if event.get("cat") == "cpu_op" and event["name"] == "aten::mm":
            forward = event["tid"] == made.HOST
            event["args"] |= {"Sequence number": 7, "Fwd thread id": 0 if forward else 1}
    for name, at, length in (("nn.Module: GPT_0", 5.0, 600.0), ("nn.Module: Linear_3", 8.0, 220.0)):
        document["traceEvents"].append(
            {"ph": "X", "cat": "python_function", "name": name, "pid": 1, "tid": made.HOST, "ts": 1000.5 + at,
             "dur": length, "args": {}}
        )  # fmt: skip
    (found,) = read(tmp_path, document).op_lists
    ops = from_json(found)
    paths = [ops.modules[call.module] if call.module != NONE else "" for call in works(ops)]
    assert paths == ["GPT.0.Linear.3", "GPT.0", "GPT.0.Linear.3", "", ""]


def test_what_builds_a_graph_in_backward_is_recomputed(tmp_path):
    document = made.trace(steps=1)
    for event in document["traceEvents"]:
        if event["name"] == "aten::mm":
            event["args"] |= {"Sequence number": 9, "Fwd thread id": 0}
    (found,) = read(tmp_path, document).op_lists
    assert [call.recomputed for call in works(from_json(found))] == [False, False, True, False, False]


def test_kernels_without_an_op_stand_for_themselves(tmp_path):
    document = made.trace(steps=1)
    extra = made.launch("my_own_kernel(float*)", 1000.5 + 700, 1000.5 + 1800, 25.0, 424242, 535353)
    document["traceEvents"] += extra
    (found,) = read(tmp_path, document).op_lists
    ops = from_json(found)
    (own,) = [call for call in works(ops) if ops.of(call).op == "my_own_kernel(float*)"]
    assert own.measured_s == pytest.approx(25e-6)
    assert ops.of(own).inputs == ()


def test_an_op_of_somebody_s_own_is_what_ran_inside_it(tmp_path):
    """The product that the table knows; else what its longest kernel does."""
    document = made.trace(steps=1)
    at = 1000.5 + 700
    document["traceEvents"] += [
        made.op("mylib::gemm", at, 20, 801, made.HOST, [[64, 256], [512, 256]]),
        made.op("aten::mm", at + 2, 10, 802, made.HOST, [[64, 256], [256, 512]]),
        *made.launch("Cijk_Alik_Bljk", at + 4, at + 1000, 40.0, 802, 902),
        made.op("mylib::reduced", at + 30, 20, 803, made.HOST, [[64, 256]]),
        *made.launch("Memcpy DtoD (Device -> Device)", at + 32, at + 1050, 1.0, 803, 903),
        *made.launch("multimem_all_reduce_kernel<bf16>", at + 40, at + 1060, 9.0, 803, 904),
        made.op("mylib::experts", at + 60, 20, 804, made.HOST, [[64, 256], [64, 8]]),
        *made.launch("routing_kernel", at + 62, at + 1100, 1.0, 804, 905),
        *made.launch("bmm_Bfloat16_E2m1_fp8", at + 70, at + 1110, 8.0, 804, 906),
    ]
    (found,) = read(tmp_path, document).op_lists
    ops = from_json(found)
    own = [(ops.of(call), call) for call in works(ops) if (call.measured_s or 1.0) < 50e-6]
    assert [call.measured_s for _, call in own] == pytest.approx([40e-6, 10e-6, 9e-6])
    assert [(s.op, call.kind, s.arguments.get("category", "")) for s, call in own] == [
        ("aten::mm", "kernel", ""), ("mylib::reduced", "collective", ""), ("mylib::experts", "kernel", "matmul"),
    ]  # fmt: skip


def test_on_a_cpu_an_op_s_time_is_counted_once(tmp_path):
    document = made.trace(steps=1)
    device = ("kernel", "cuda_runtime", "cuda_driver", "ac2g")
    document["traceEvents"] = [event for event in document["traceEvents"] if event.get("cat") not in device]
    at = 1000.5 + 700
    document["traceEvents"] += [
        made.op("mylib::gemm", at, 20, 801, made.HOST, [[64, 256], [512, 256]]),
        made.op("aten::mm", at + 2, 12, 802, made.HOST, [[64, 256], [256, 512]]),
    ]
    (found,) = read(tmp_path, document).op_lists
    ops = from_json(found)
    seconds = [call.measured_s for call in works(ops) if ops.of(call).inputs[0].shape == (64, 256)]
    assert seconds[-2:] == pytest.approx([8e-6, 12e-6])


@pytest.mark.parametrize(
    ("name", "tensors", "lists"),
    [("aten::_foreach_add_", 2, 2), ("aten::_fused_adamw_", 8, 4)],
)
def test_lists_that_the_profiler_cut_hold_the_parameters(tmp_path, name, tensors, lists):
    document = made.trace(steps=1)
    shapes = [[128, 64], [64]]
    for at, shape in enumerate(shapes):
        event = made.op("torch::autograd::AccumulateGrad", 1000.5 + 2500 + at, 0.5, 777 + at, made.ENGINE, [shape])
        document["traceEvents"].append(event)
    count = 2 if "foreach" in name else 6
    cut = made.op(name, 1000.5 + 6300, 50, 901, made.HOST, [[]] * count)
    cut["args"] |= {"Input type": ["TensorList"] * count}
    document["traceEvents"] += [
        cut,
        *made.launch("multi<Functor<float, 4>>", 1000.5 + 6310, 1000.5 + 6600, 9.0, 901, 902),
    ]
    (found,) = read(tmp_path, document).op_lists
    ops = from_json(found)
    (signature,) = [s for s in ops.signatures if s.op == name]
    assert len(signature.inputs) == len(shapes) * lists
    assert {one.dtype for one in signature.inputs} == {"bfloat16"}  # as the gradients were
    assert ops.parameters == 128 * 64 + 64
    assert any("30 tensors" in one for one in ops.assumptions)


def test_the_file_survives_its_own_format():
    ops = listed("two")
    assert from_json(json.loads(json.dumps(to_json(ops)))) == ops
