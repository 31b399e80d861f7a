"""The package's layer norm and RMS norm, with what is added before: a kernel of Triton each way.

Recorded under their own names, as other kernels of Triton are: each tensor passes once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from runners.program.flash_attn.launch import Launch, lacking, lain

BLOCKS_PER_UNIT = 8
"""Blocks of the backward for each SM; each sums gradients of weights (ops/triton/layer_norm.py of flash_attn 2.8)."""


class _Norm(torch.autograd.Function):
    """Keeps what was normalised (with the residual added), weight, bias and what rows were divided by."""

    @staticmethod
    def forward(
        ctx: Any, launch: Launch, x: torch.Tensor, weight: torch.Tensor, bias: Any, residual: Any, dropout: float,
        prenorm: bool, wide: bool, rms: bool, out_dtype: Any,
    ) -> Any:  # fmt: skip
        with torch.enable_grad():
            seen = lain(x)
            kept = residual.dtype if residual is not None else torch.float32 if wide else x.dtype
            out = torch.empty_like(seen, dtype=out_dtype or x.dtype)
            added = residual is not None or kept != x.dtype or dropout > 0
            whole = torch.empty_like(seen, dtype=kept) if added else None
            rows = (x.numel() // x.shape[-1],)
            mean = None if rms else x.new_empty(rows, dtype=torch.float32)
            spread = x.new_empty(rows, dtype=torch.float32)
            seeds = x.new_empty(rows, dtype=torch.int64) if dropout else None
            launch(
                "triton::_layer_norm_fwd_1pass_kernel", (seen, out, weight, bias, residual, whole, seeds, mean, spread)
            )
        whole = seen if whole is None else whole
        ctx.save_for_backward(whole, weight, bias, mean, spread, seeds)
        ctx.launch, ctx.dtype, ctx.prenorm, ctx.adds = launch, x.dtype, prenorm, residual is not None
        return (out, whole) if prenorm else out

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, *more: torch.Tensor) -> Any:
        whole, weight, bias, mean, spread, seeds = ctx.saved_tensors
        gradient = lain(gradient)
        of_input = torch.empty_like(whole, dtype=ctx.dtype)
        apart = ctx.adds and (ctx.dtype != whole.dtype or seeds is not None)
        of_residual = torch.empty_like(whole) if apart else None
        blocks = torch.cuda.get_device_properties(0).multi_processor_count * BLOCKS_PER_UNIT
        of_weight = whole.new_empty((blocks, whole.shape[-1]), dtype=torch.float32)
        of_bias = None if bias is None else torch.empty_like(of_weight)
        more = more if ctx.prenorm else ()
        ctx.launch(
            "triton::_layer_norm_bwd_kernel",
            (whole, weight, bias, gradient, of_input, of_weight, of_bias, *more, of_residual, seeds, mean, spread),
        )
        return (
            None, of_input, of_weight.sum(0).to(weight.dtype),
            None if of_bias is None else of_bias.sum(0).to(bias.dtype),
            (of_input if of_residual is None else of_residual) if ctx.adds else None, *(None,) * 5,
        )  # fmt: skip


def functions(launch: Launch) -> dict[str, Any]:
    """``flash_attn.ops.triton.layer_norm``."""

    def layer_norm_fn(
        x: Any, weight: Any, bias: Any, residual: Any = None, x1: Any = None, weight1: Any = None, bias1: Any = None,
        eps: float = 1e-6, dropout_p: float = 0.0, rowscale: Any = None, prenorm: bool = False,
        residual_in_fp32: bool = False, zero_centered_weight: bool = False, is_rms_norm: bool = False,
        return_dropout_mask: bool = False, out_dtype: Any = None, out: Any = None, residual_out: Any = None,
    ) -> Any:  # fmt: skip
        if return_dropout_mask or any(one is not None for one in (x1, weight1, bias1, rowscale, out, residual_out)):
            raise lacking("layer_norm_fn with a second input or weight, rowscale, dropout's mask or a given output")
        return _Norm.apply(  # type: ignore[no-untyped-call]
            launch, x, weight, bias, residual, dropout_p, prenorm, residual_in_fp32, is_rms_norm, out_dtype
        )

    def rms_norm_fn(x: Any, weight: Any, bias: Any, residual: Any = None, **how: Any) -> Any:
        return layer_norm_fn(x, weight, bias, residual, **how, is_rms_norm=True)

    class RMSNorm(nn.Module):
        """A norm's weight, and dropout before it."""

        def __init__(
            self, hidden_size: int, eps: float = 1e-5, dropout_p: float = 0.0, zero_centered_weight: bool = False,
            device: Any = None, dtype: Any = None,
        ) -> None:  # fmt: skip
            super().__init__()
            self.eps = eps
            self.drop = nn.Dropout(dropout_p) if dropout_p else None
            self.zero_centered_weight = zero_centered_weight
            self.weight = nn.Parameter(torch.empty(hidden_size, device=device, dtype=dtype))
            self.register_parameter("bias", None)

        def forward(self, x: Any, residual: Any = None, prenorm: bool = False, residual_in_fp32: bool = False) -> Any:
            dropout = self.drop.p if self.drop is not None and self.training else 0.0
            return rms_norm_fn(
                x, self.weight, self.bias, residual, dropout_p=dropout, prenorm=prenorm,
                residual_in_fp32=residual_in_fp32,
            )  # fmt: skip

    return {"layer_norm_fn": layer_norm_fn, "rms_norm_fn": rms_norm_fn, "RMSNorm": RMSNorm}
