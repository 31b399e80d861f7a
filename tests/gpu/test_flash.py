"""The flash kernels on a GPU against float64: every dtype, width, length and layout, portable ones and Hopper's."""

from __future__ import annotations

import math

import pytest
import torch

from runners.flash.attention import LSE_RELATIVE_ERROR, RELATIVE_ERROR, flash_attention, implementation
from runners.ranks import Ranks
from runners.train_step import one_step, prepare
from tests.runners.examples import scenario
from tests.runners.flash_reference import errors, exact, random_inputs, relative_error

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@pytest.fixture
def precision(request):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if request.param == "tf32" else "highest")
    yield request.param
    torch.set_float32_matmul_precision(before)


def portable():
    from runners.flash import triton_launch

    return triton_launch


def hopper(device):
    """Hopper's kernels, or a skip that says why not."""
    inputs = random_inputs(1, 1, 1, 128, 128, 64, torch.bfloat16, device)
    found = implementation(*inputs[:3])
    if found is portable():
        pytest.skip(f"{torch.cuda.get_device_name(device)} is no Hopper GPU, or Triton is older than 3.6")
    return found


def check(kernels, inputs, causal, precision):
    for name, error in errors(kernels, inputs, causal).items():
        assert error < (LSE_RELATIVE_ERROR if name == "lse" else RELATIVE_ERROR)[precision], name


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dim", [16, 32, 64, 80, 128, 256])
@pytest.mark.parametrize("precision", DTYPES, indirect=True)
def test_portable_kernels(precision, dim, causal, device):
    check(portable(), random_inputs(2, 4, 2, 333, 333, dim, DTYPES[precision], device), causal, precision)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("precision", ["bf16", "fp32"], indirect=True)
def test_whole_tiles(precision, causal, device):
    check(portable(), random_inputs(1, 2, 2, 512, 512, 64, DTYPES[precision], device), causal, precision)


@pytest.mark.parametrize(("length", "keys"), [(1, 77), (100, 1), (130, 517)])
@pytest.mark.parametrize("precision", ["bf16"], indirect=True)
def test_other_lengths_of_keys(precision, length, keys, device):
    q, k, v, dout = random_inputs(1, 4, 2, length, keys, 64, DTYPES[precision], device)
    if keys > 1:
        check(portable(), (q, k, v, dout), False, precision)
    out = flash_attention(q, k, v, causal=False)
    assert relative_error(out, exact(q, k, v, dout, False, 0.125)[0]) < RELATIVE_ERROR[precision]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("precision", ["fp16", "bf16"], indirect=True)
@pytest.mark.parametrize(("batch", "heads", "key_heads", "length"), [(2, 4, 4, 128), (1, 6, 2, 1024), (3, 3, 1, 640)])
def test_hoppers_kernels(batch, heads, key_heads, length, precision, dim, causal, device):
    inputs = random_inputs(batch, heads, key_heads, length, length, dim, DTYPES[precision], device)
    check(hopper(device), inputs, causal, precision)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("precision", ["bf16"], indirect=True)
def test_hoppers_programs_take_several_blocks_each(precision, dim, causal, device):
    """More blocks than the GPU has multiprocessors, several times over; and the forward gives the same bits again."""
    kernels = hopper(device)
    inputs = random_inputs(5, 20, 10, 640, 640, dim, DTYPES[precision], device)
    check(kernels, inputs, causal, precision)
    (out, lse), (again, lse_again) = (kernels.forward(*inputs[:3], causal, 0.1) for _ in range(2))
    assert torch.equal(out, again)
    assert torch.equal(lse, lse_again)


@pytest.mark.parametrize("precision", ["bf16"], indirect=True)
def test_hoppers_kernels_with_other_lengths_of_keys(precision, device):
    check(hopper(device), random_inputs(2, 4, 2, 256, 1152, 128, DTYPES[precision], device), False, precision)


@pytest.mark.parametrize("length", [100, 256])
def test_views_of_one_projection(length, device):
    """Heads side by side in memory, as a model has them: the same numbers as from tensors of their own."""
    heads, dim = 4, 64
    qkv = torch.randn(2, length, 3, heads, dim, device=device, dtype=torch.bfloat16)
    views = [part.transpose(1, 2) for part in qkv.unbind(2)]
    copies = [part.contiguous() for part in views]
    dout = torch.randn(2, length, heads, dim, device=device, dtype=torch.bfloat16).transpose(1, 2)
    found = []
    for q, k, v in (views, copies):
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        out = flash_attention(*leaves, causal=True)
        found.append((out.detach(), *torch.autograd.grad(out, leaves, dout)))
    assert implementation(*views) is implementation(*copies)
    for name, one, other in zip(("out", "dq", "dk", "dv"), *found, strict=True):
        # dQ is added up in the order in which blocks finish
        assert relative_error(one, other.double()) < (RELATIVE_ERROR["bf16"] if name == "dq" else 1e-9), name


def test_large_scores_and_a_bad_head_stay_where_they_are(device):
    q, k, v, dout = random_inputs(1, 2, 2, 256, 256, 64, torch.bfloat16, device)
    q, k = q * 30, k * 30
    v[0, 1] = math.nan
    out = flash_attention(q, k, v, causal=True)
    expected = exact(q[:, :1], k[:, :1], v[:, :1], dout[:, :1], True, 0.125)[0]
    assert relative_error(out[:, :1], expected) < RELATIVE_ERROR["bf16"]
    assert out[:, 1].isnan().all()


def test_portable_kernels_give_the_same_bits_twice(device):
    q, k, v, dout = random_inputs(1, 4, 2, 500, 500, 64, torch.bfloat16, device)
    kernels = portable()
    out, lse = kernels.forward(q, k, v, True, 0.125)
    one, two = (kernels.backward(q, k, v, out, lse, dout, True, 0.125) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of torch itself, when it first compiles
def test_the_op_compiles(device):
    q, k, v, dout = random_inputs(1, 2, 2, 256, 256, 64, torch.bfloat16, device)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    compiled = torch.compile(lambda q, k, v: flash_attention(q, k, v, causal=True) * 2.0, fullgraph=True)
    found = torch.autograd.grad(compiled(*leaves), leaves, dout)
    expected = exact(q, k, v, 2 * dout, True, 0.125)
    for one, other in zip(found, expected[2:], strict=True):
        assert relative_error(one, other) < 2 * RELATIVE_ERROR["bf16"]


@pytest.mark.parametrize("precision", ["bf16", "bf16-amp", "tf32"])
def test_a_model_trains_with_it_as_with_torchs_own(precision, device):
    """Loss and gradients of the step benchmark's model, with rotary positions and shared key heads."""
    found = []
    for attention in ("flash", "sdpa"):
        chosen = scenario(
            model={"hidden": 256, "heads": 4, "kv_heads": 2, "ffn": 512},
            training={"seq_len": 256, "precision": precision, "attention": attention},
        )
        trainer = prepare(chosen, Ranks(device="cuda:0"), seed=0)
        trainer.optimizer = torch.optim.SGD(trainer.module.parameters(), lr=0.0)
        seen = []
        for parameter in trainer.module.parameters():
            parameter.register_post_accumulate_grad_hook(
                lambda p, seen=seen: seen.append(p.grad.double().norm().item())
            )
        one_step(trainer, lambda phase: None)
        found.append((float(trainer.loss), sum(value**2 for value in seen) ** 0.5))
    torch.set_float32_matmul_precision("highest")
    (loss, norm), (other_loss, other_norm) = found
    assert loss == pytest.approx(other_loss, rel=2e-3)
    assert norm == pytest.approx(other_norm, rel=2e-2)
