"""Ops that CUDA runs as a kernel of its own, and that torch would take apart for a device that it does not know.

Source: native_functions.yaml of torch 2.13: ops with a kernel for CUDA beside CompositeImplicitAutograd.
"""

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten


class _RmsNorm(torch.autograd.Function):
    """The fused norm, and its fused backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, shape: list[int], weight: torch.Tensor | None, eps: float | None) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            out, scale = aten._fused_rms_norm.default(x, shape, weight, eps)
        ctx.save_for_backward(x, weight, scale)
        ctx.shape = shape
        ctx.mark_non_differentiable(scale)
        ctx.set_materialize_grads(False)
        return out, scale

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        x, weight, scale = ctx.saved_tensors
        wanted = [ctx.needs_input_grad[0], ctx.needs_input_grad[2]]
        of_x, of_weight = aten._fused_rms_norm_backward.default(gradients[0], x, ctx.shape, scale, weight, wanted)
        return of_x, None, of_weight, None


def install() -> list[torch.library.Library]:
    """Register them for the fake device; they live as long as what is returned."""
    library = torch.library.Library("aten", "IMPL")
    for op in (aten.silu_backward.default, aten.mish_backward.default, aten.native_channel_shuffle.default):
        library.impl(op, _below(op), "AutogradPrivateUse1")

    def fused(x: torch.Tensor, shape: list[int], weight: torch.Tensor | None, eps: float | None) -> Any:
        return _RmsNorm.apply(x, shape, weight, eps)  # type: ignore[no-untyped-call]

    def norm(
        x: torch.Tensor, normalized_shape: list[int], weight: torch.Tensor | None = None, eps: float | None = None
    ) -> Any:
        return _RmsNorm.apply(x, normalized_shape, weight, eps)[0]  # type: ignore[no-untyped-call]

    library.impl(aten._fused_rms_norm.default, fused, "AutogradPrivateUse1")
    library.impl(aten.rms_norm.default, norm, "AutogradPrivateUse1")
    return [library]


def _below(op: Any) -> Any:
    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return op(*args, **kwargs)

    return run
