"""FlashAttention as one function: the project's own Triton kernels on a GPU, the same algorithm in torch on a CPU.

``flash_attention`` is differentiable, and under torch.compile a pair of ops that no graph breaks at.
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from estimator.scenario.problems import InputProblems, Problem
from runners.flash import blockwise
from runners.flash.tiles import WIDEST

GLUON = (3, 6)
"""The first Triton whose Gluon has all that the Hopper kernels need."""

RELATIVE_ERROR = {"fp32": 2.0**-18, "tf32": 2.0**-8, "fp16": 2.0**-10, "bf16": 2.0**-7}
"""Bounds of ‖x − exact‖ / ‖x‖ for the output and the gradients of q, k and v, by precision, against float64 on the same
rounded inputs with normally distributed entries: two units in the last place of the 16-bit types.
"""

LSE_RELATIVE_ERROR = {"fp32": 2.0**-20, "tf32": 2.0**-11, "fp16": 2.0**-20, "bf16": 2.0**-20}
"""The same for the logarithm of the softmax's denominator, of the Triton kernels: scores stay in fp32."""

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def flash_attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, scale: float | None = None) -> Tensor:
    """softmax(q·kᵀ·scale)·v for q (B, h, S, D), k and v (B, h/g, T, D); scale is 1/sqrt(D) where none is given.

    fp32 products follow ``torch.set_float32_matmul_precision``. Raises InputProblems for tensors that it does not take.
    Dao, arXiv 2307.08691.
    """
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if torch.compiler.is_compiling():
        out: Tensor = torch.ops.headroom.flash_forward(q, k, v, causal, scale)[0]
    else:
        out = _Flash.apply(q, k, v, causal, scale)[0]  # type: ignore[no-untyped-call]
    return out


def problems(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> list[Problem]:
    """What keeps these tensors from being attended to, each with its remedy."""
    found = []

    def refuse(field: str, message: str, remedy: str) -> None:
        found.append(Problem(field=field, message=message, remedy=remedy))

    if (
        any(x.dim() != 4 for x in (q, k, v))
        or k.shape != v.shape
        or (q.shape[0], q.shape[3]) != (k.shape[0], k.shape[3])
    ):
        shapes = ", ".join(str(tuple(x.shape)) for x in (q, k, v))
        refuse("q, k, v", f"have the shapes {shapes}", "Give (B, h, S, D), and k and v alike with the same B and D.")
        return found
    if 0 in q.shape or 0 in k.shape:
        refuse("q, k, v", "are empty", "Give at least one of each.")
    elif q.shape[1] % k.shape[1]:
        message = f"{q.shape[1]} query heads cannot share {k.shape[1]} key heads"
        refuse("k, v", message, "Give as many key heads as divide the query heads.")
    if causal and q.shape[2] != k.shape[2]:
        message = f"{q.shape[2]} queries and {k.shape[2]} keys have no common diagonal"
        refuse("causal", message, "Give equally many, or causal=False.")
    if not (q.dtype == k.dtype == v.dtype) or q.dtype not in DTYPES:
        refuse("q, k, v", f"are {q.dtype}, {k.dtype}, {v.dtype}", "Give all in float32, float16 or bfloat16.")
    if not (q.device == k.device == v.device):
        refuse("q, k, v", "are on different devices", "Move them to one.")
    elif q.device.type != "cpu":
        reason = unsupported(q.device, q.shape[3])
        if reason:
            refuse("q, k, v", reason, "Use torch's scaled_dot_product_attention there.")
    return found


def unsupported(device: torch.device, dim: int) -> str | None:
    """Why the Triton kernels cannot work there; None where they can."""
    if device.type != "cuda":
        return "the Triton kernels need a GPU"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    if not torch.version.hip and torch.cuda.get_device_capability(device) < (8, 0):
        return "the Triton kernels need compute capability 8.0"
    if dim > WIDEST:
        return f"the Triton kernels take head dimensions up to {WIDEST}, not {dim}"
    return None


def implementation(q: Tensor, k: Tensor, v: Tensor) -> ModuleType:
    """The module whose ``forward`` and ``backward`` take these: Hopper's kernels, the portable ones, or plain torch."""
    if q.device.type == "cpu":
        return blockwise
    hopper = _hopper(q.device)
    if hopper is not None and hopper.takes(q, k, v):
        return hopper
    return importlib.import_module("runners.flash.triton_launch")


@cache
def _hopper(device: torch.device) -> ModuleType | None:
    """Hopper's kernels, where the device is one and Triton has the dialect in which they are written."""
    if torch.version.hip or torch.cuda.get_device_capability(device) != (9, 0):
        return None
    major, minor = importlib.import_module("triton").__version__.split(".")[:2]
    return importlib.import_module("runners.flash.hopper_launch") if (int(major), int(minor)) >= GLUON else None


def _run_forward(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    refused = problems(q, k, v, causal)
    if refused:
        raise InputProblems(refused)
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    found: tuple[Tensor, Tensor] = implementation(q, k, v).forward(q, k, v, causal, scale)
    return found


def _run_backward(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, dout: Tensor, causal: bool, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    found: tuple[Tensor, Tensor, Tensor] = implementation(q, k, v).backward(q, k, v, out, lse, dout, causal, scale)
    return found


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, ctx.causal, ctx.scale = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


class _Flash(torch.autograd.Function):
    """The function outside of torch.compile: an op of torch.library takes ten times as long to call."""

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
        return _run_forward(q, k, v, causal, scale)

    setup_context = staticmethod(_keep)

    @staticmethod
    def backward(ctx: Any, dout: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
        q, k, v, out, lse = ctx.saved_tensors
        return (*_run_backward(q, k, v, out, lse, dout, ctx.causal, ctx.scale), None, None)


_forward = torch.library.custom_op("headroom::flash_forward", _run_forward, mutates_args=())
_backward = torch.library.custom_op("headroom::flash_backward", _run_backward, mutates_args=())


@_forward.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    return torch.empty_like(q), q.new_empty(q.shape[:-1], dtype=torch.float32)


@_backward.register_fake
def _(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, dout: Tensor, causal: bool, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


def _differentiate(ctx: Any, dout: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    return (*torch.ops.headroom.flash_backward(*ctx.saved_tensors, dout, ctx.causal, ctx.scale), None, None)


_forward.register_autograd(_differentiate, setup_context=_keep)
