"""Flash attention in plain torch, as an op: values and gradients against float64, compiled, shared heads, refusals."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from estimator.scenario.problems import InputProblems
from runners.flash import blockwise
from runners.flash.attention import LSE_RELATIVE_ERROR, RELATIVE_ERROR, flash_attention, implementation, unsupported
from tests.runners.flash_reference import errors, exact, random_inputs, relative_error

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
SHAPES = [  # batch, heads, key heads, queries, keys, head dimension, causal
    (1, 2, 2, 300, 300, 16, True),
    (2, 4, 2, 129, 129, 24, True),
    (1, 4, 1, 100, 290, 64, False),
    (1, 1, 1, 1, 1, 256, True),
]


@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize(("batch", "heads", "key_heads", "length", "keys", "dim", "causal"), SHAPES)
def test_blocks_add_up_to_attention(batch, heads, key_heads, length, keys, dim, causal, precision):
    inputs = random_inputs(batch, heads, key_heads, length, keys, dim, DTYPES[precision])
    found = errors(blockwise, inputs, causal)
    # torch's products on a CPU round scores to the dtype of the tensors
    bounds = {"lse": LSE_RELATIVE_ERROR["fp32"] if precision == "fp32" else RELATIVE_ERROR[precision]}
    if (length, keys) == (1, 1):
        found.pop("dq")  # one key: the weight is one whatever the score, and both gradients are zero
        found.pop("dk")
    for name, error in found.items():
        assert error < bounds.get(name, RELATIVE_ERROR[precision]), name


@pytest.mark.parametrize("block", [16, 100, 4096])
def test_the_size_of_blocks_does_not_matter(block):
    q, k, v, dout = random_inputs(1, 2, 2, 90, 90, 16, torch.float64)
    expected = exact(q, k, v, dout, True, 0.3)
    out, lse = blockwise.forward(q, k, v, True, 0.3, block)
    found = (out, *blockwise.backward(q, k, v, out, lse, dout, True, 0.3, block))
    for one, other in zip(found, (expected[0], *expected[2:]), strict=True):
        assert relative_error(one, other) < 1e-12


def test_gradients_flow_through_the_op():
    q, k, v, dout = random_inputs(2, 4, 2, 70, 70, 32, torch.float32)
    expected = exact(q, k, v, dout, True, 32**-0.5)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    found = torch.autograd.grad(flash_attention(q, k, v, causal=True), leaves, dout)
    for one, other in zip(found, expected[2:], strict=True):
        assert relative_error(one, other) < RELATIVE_ERROR["fp32"]


def test_it_is_the_attention_of_torch():
    q, k, v, _ = random_inputs(1, 4, 2, 65, 65, 16, torch.float32)
    found = flash_attention(q, k, v, causal=True, scale=0.2)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.2, enable_gqa=True)
    torch.testing.assert_close(found, expected)


def test_the_op_keeps_the_rules_of_torch():
    q, k, v, _ = random_inputs(1, 2, 1, 33, 33, 16, torch.float32)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    torch.library.opcheck(torch.ops.headroom.flash_forward, (*leaves, True, 0.25))


def test_it_compiles_into_one_graph():
    q, k, v, dout = random_inputs(1, 2, 2, 40, 40, 16, torch.float32)
    leaves = [x.requires_grad_() for x in (q, k, v)]

    def work(q, k, v):
        return 2.0 * flash_attention(q, k, v, causal=True)

    compiled = torch.compile(work, backend="aot_eager", fullgraph=True)
    found = torch.autograd.grad(compiled(q, k, v), leaves, dout)
    expected = torch.autograd.grad(work(q, k, v), leaves, dout)
    torch.testing.assert_close(found, expected)


def test_views_of_one_projection_are_taken_as_they_are():
    qkv = torch.randn(2, 50, 3, 4, 16)
    q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
    found = flash_attention(q, k, v, causal=True)
    torch.testing.assert_close(found, flash_attention(*(x.contiguous() for x in (q, k, v)), causal=True))


def test_a_cpu_gets_the_algorithm_in_torch():
    q, k, v, _ = random_inputs(1, 1, 1, 128, 128, 64, torch.bfloat16)
    assert implementation(q, k, v) is blockwise
    assert unsupported(torch.device("cpu"), 64) == "the Triton kernels need a GPU"
    assert importlib.util.find_spec("runners.flash.triton_launch") is not None


def refusal(q, k, v, causal):
    with pytest.raises(InputProblems) as caught:
        flash_attention(q, k, v, causal=causal)
    return str(caught.value)


def test_what_is_no_attention_is_refused():
    q = torch.zeros(1, 4, 8, 16)
    assert "have the shapes (1, 4, 8, 16), (4, 8, 16), (4, 8, 16)" in refusal(q, q[0], q[0], False)
    assert "4 query heads cannot share 3 key heads" in refusal(q, q[:, :3], q[:, :3], False)
    assert "8 queries and 5 keys have no common diagonal" in refusal(q, q[:, :, :5], q[:, :, :5], True)
    assert "torch.float64" in refusal(q.double(), q.double(), q.double(), False)
    assert "are empty" in refusal(q[:, :, :0], q[:, :, :0], q[:, :, :0], False)
    assert "on different devices" in refusal(q, q.to("meta"), q.to("meta"), False)
