"""What an ATen op was called with, and what it returns: held to torch itself."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from app.importers.kineto.aten_call import ARGUMENTS, aten_call, dtype_of_kernel, kineto_dtype
from app.importers.kineto.aten_results import _RULES, signature
from app.importers.kineto.called_ops import is_op
from estimator.scenario.op_list import OpList, from_json, to_json

X, Y, W = torch.randn(2, 8, 16), torch.randn(2, 8, 16), torch.randn(32, 16)
IMAGE, KERNEL = torch.randn(2, 3, 12, 12), torch.randn(6, 3, 3, 3)
QKV = torch.randn(3, 2, 4, 8, 16)
TOKENS = torch.randint(10, (2, 8))
RUNS: dict[str, Callable[[], object]] = {
    "mm": lambda: X[0] @ W.t(),
    "bmm": lambda: torch.bmm(X, Y.transpose(1, 2)),
    "addmm": lambda: F.linear(X[0], W, torch.zeros(32)),
    "add": lambda: X + Y[:1],
    "transposed": lambda: X.transpose(1, 2) * 2,
    "compare": lambda: X > Y,
    "sum": lambda: X.sum(1, keepdim=True),
    "mean": lambda: X.mean(-1),
    "amax": lambda: X.amax((0, 2)),
    "cast": lambda: X.to(torch.bfloat16),
    "mixed": lambda: X + Y.to(torch.bfloat16),
    "clone": lambda: X.transpose(0, 1).contiguous(),
    "softmax": lambda: X.softmax(-1),
    "log_softmax": lambda: F.log_softmax(X.to(torch.bfloat16), -1, dtype=torch.float32),
    "embedding": lambda: F.embedding(TOKENS, W),
    "layer_norm": lambda: F.layer_norm(X, (16,), torch.ones(16), torch.zeros(16)),
    "group_norm": lambda: F.group_norm(IMAGE, 3),
    "gelu": lambda: F.gelu(X),
    "cat": lambda: torch.cat((X, Y, X), 1),
    "stack": lambda: torch.stack((X, Y), 1),
    "index_select": lambda: X.index_select(1, torch.tensor([0, 2])),
    "gather": lambda: X.gather(1, torch.zeros(2, 3, 16, dtype=torch.int64)),
    "index": lambda: X[torch.tensor([0, 1, 1])],
    "topk": lambda: X.topk(3, -1),
    "conv": lambda: F.conv2d(IMAGE, KERNEL, stride=2, padding=1),
    "loss": lambda: F.cross_entropy(X.flatten(0, 1), torch.zeros(16, dtype=torch.int64)),
    "attention": lambda: F.scaled_dot_product_attention(*QKV, is_causal=True),
    "zeros": lambda: torch.zeros(3, 4, dtype=torch.bfloat16),
    "where": lambda: torch.where(X > 0, X, Y),
    "masked_fill": lambda: X.masked_fill(X > 0, 0.0),
    "in_place": lambda: X.clone().mul_(2.0),
    "argmax": lambda: X.argmax(-1),
    "norm": lambda: torch.linalg.vector_norm(X, dim=1),
}


class Recorded(TorchDispatchMode):
    """Shapes, types and strides of what each op returns, as the dispatcher sees it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, list[tuple[tuple[int, ...], str]]]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        tensors = made if isinstance(made, (tuple, list)) else (made,)
        given = [(tuple(t.shape), str(t.dtype).removeprefix("torch.")) for t in tensors if isinstance(t, torch.Tensor)]
        self.seen.append((func._schema.name, given))
        return made


@pytest.mark.parametrize("name", RUNS)
def test_ops_and_their_results_are_those_that_the_dispatcher_sees(name, tmp_path):
    with Recorded() as wanted:
        RUNS[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
            RUNS[name]()
        profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    ops = sorted((e for e in events if e.get("cat") == "cpu_op"), key=lambda e: (e["ts"], -e["dur"]))
    found, until = [], -1.0
    for event in ops:
        if is_op(event["name"]) and event["ts"] >= until:
            until = event["ts"] + event["dur"]
            args = event["args"]
            parts = ("Input Dims", "Input type", "Concrete Inputs", "Input Strides")
            call = aten_call(event["name"], [json.dumps(args[part]).encode() for part in parts])
            found.append((event["name"], [(one.shape, one.dtype) for one in signature(call).outputs]))
    working = {name for name, _ in wanted.seen} - {
        "aten::detach",
        "aten::lift_fresh",
        "aten::_unsafe_view",
        "aten::view",
    }
    assert {name for name, _ in found} >= working
    expected = [(op, made) for op, made in wanted.seen if op in working]
    own = [(op, made) for op, made in found if op in working]
    assert [op for op, _ in own] == [op for op, _ in expected]
    for (op, made), (_, real) in zip(own, expected, strict=True):
        if made and op not in VIEWS:
            known = [(shape, dtype or real[at][1]) for at, (shape, dtype) in enumerate(made)]
            assert known == real[: len(known)], op


VIEWS = ("aten::t", "aten::transpose", "aten::select", "aten::expand", "aten::as_strided", "aten::slice",
         "aten::unsqueeze", "aten::permute", "aten::alias", "aten::split", "aten::unbind", "aten::empty",
         "aten::empty_like", "aten::squeeze")  # fmt: skip


@pytest.mark.parametrize(
    ("op", "tensors", "scalars", "said"),
    [
        ("flash_attn_3::_flash_attn_forward", 3, {12: "2048", 13: "2048", 24: "True", 25: "128"}, (2048, True, 128)),
        ("flash_attn_3::_flash_attn_backward", 6, {10: "2048", 11: "2048", 13: "True", 14: "128"}, (2048, True, 128)),
        ("flash_attn::_flash_attn_varlen_forward", 5, {5: "512", 6: "512", 9: "False", 10: "64"}, (512, False, 64)),
        ("flash_attn::_flash_attn_forward", 3, {3: "0.", 5: "True", 6: "-1"}, (None, True, -1)),
    ],
)
def test_packages_of_attention_say_how_far_it_sees(op, tensors, scalars, said):
    arguments = range(34)
    dims = [[256, 6, 128] if at < tensors else [] for at in arguments]
    types = ["c10::BFloat16" if at < tensors else "Scalar" for at in arguments]
    found = signature(aten_call(op, [json.dumps(one).encode() for one in (
        dims, types, [scalars.get(at, "") for at in arguments], [],
    )]))  # fmt: skip
    assert tuple(found.arguments.get(name) for name in ("max_seqlen", "is_causal", "window")) == said
    assert len(found.inputs) == tensors


@pytest.mark.parametrize(
    ("written", "dtype"),
    [("float", "float32"), ("c10::BFloat16", "bfloat16"), ("long int", "int64"), ("Half", "float16"), ("Scalar", ""),
     ("c10::Float8_e4m3fn", "float8_e4m3fn"), ("", ""), ("BFloat16", "bfloat16"), ("Byte", "uint8")],
)  # fmt: skip
def test_types_as_profilers_and_nccl_write_them(written, dtype):
    assert kineto_dtype(written) == dtype


def test_a_kernel_over_lists_says_what_it_works_on():
    kernel = "void at::native::multi_tensor_apply_kernel<at::native::TensorListMetadata<1>, at::native::UnaryOpFunctor<"
    assert dtype_of_kernel(kernel + "c10::BFloat16, 1, 1, 0>, std::sqrt<float>>") == "bfloat16"
    assert dtype_of_kernel("ampere_sgemm_128x64_nn") == ""


@pytest.mark.parametrize("broken", [b"", b"[", b"{}", b'[["a"]]', b"[[-1]]", b"[[1e99]]", b"null"])
def test_what_makes_no_sense_is_left_out(broken):
    call = aten_call("aten::mm", [broken, b'["float"]', b'[""]', broken])
    assert call.inputs == ()
    assert signature(call).outputs == ()


SHAPES = st.lists(st.integers(-2, 10**10), max_size=9)
TEXTS = st.sampled_from(("", "True", "False", "[1, 1]", "[0]", "-1", "3", "1e400", "nan", "[[", "9" * 30, "x"))
KINDS = st.sampled_from(("float", "c10::BFloat16", "long int", "Scalar", "ScalarList", "TensorList", "", "bool"))


@given(
    st.sampled_from(sorted({*_RULES, *ARGUMENTS, "mul", "relu_", "_foreach_add_", "_fused_adamw_", "no_such_op"})),
    st.lists(st.tuples(st.one_of(SHAPES, st.lists(SHAPES, max_size=3)), KINDS, TEXTS, SHAPES), max_size=9),
)
def test_whatever_a_file_says_makes_a_signature_that_can_be_read_back(name, arguments):
    dims, types, scalars, strides = ([one[at] for one in arguments] for at in range(4))
    parts = [json.dumps(part).encode() for part in (dims, types, scalars, strides)]
    made = signature(aten_call(f"aten::{name}", parts), backend="flash")
    ops = OpList(source="profile", program="", calls=(), signatures=(made,))
    assert from_json(json.loads(json.dumps(to_json(ops)))) == ops
