"""The package's rotary embedding: one kernel of Triton, forward and backward.

Recorded under its own name, as other kernels of Triton are: each tensor passes once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from runners.program.flash_attn.launch import Launch, lacking


def functions(launch: Launch) -> dict[str, Any]:
    """``flash_attn.layers.rotary``."""

    def turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, inplace: bool) -> torch.Tensor:
        with torch.enable_grad():
            seen = x.detach()
            out = seen if inplace else torch.empty_like(seen)
            turned = 2 * cos.shape[-1]
            if turned < x.shape[-1] and not inplace:
                out[..., turned:].copy_(seen[..., turned:])
            launch("triton::rotary_kernel", (out, x, cos, sin))
        return out

    class Turned(torch.autograd.Function):
        """Keeps cosines and sines; backward turns the other way."""

        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, inplace: bool) -> torch.Tensor:
            ctx.save_for_backward(cos, sin)
            ctx.inplace = inplace
            out = turn(x, cos, sin, inplace=inplace)
            return x if inplace else out

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> Any:
            return turn(gradient, *ctx.saved_tensors, inplace=ctx.inplace), None, None, None

    class TurnedWithin(torch.autograd.Function):
        """Turns part of a packed tensor in its place."""

        @staticmethod
        def forward(ctx: Any, packed: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, count: int) -> torch.Tensor:
            ctx.save_for_backward(cos, sin)
            ctx.count = count
            turn(packed[:, :, :count], cos, sin, inplace=True)
            return packed

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> Any:
            gradient = gradient.contiguous()
            turn(gradient[:, :, : ctx.count], *ctx.saved_tensors, inplace=True)
            return gradient, None, None, None

    def apply_rotary_emb(
        x: Any, cos: Any, sin: Any, interleaved: bool = False, inplace: bool = False, seqlen_offsets: Any = 0,
        cu_seqlens: Any = None, max_seqlen: Any = None,
    ) -> Any:  # fmt: skip
        return Turned.apply(x, cos, sin, inplace)  # type: ignore[no-untyped-call]

    def apply_rotary_emb_qkv_(
        qkv: Any, cos: Any, sin: Any, cos_k: Any = None, sin_k: Any = None, interleaved: bool = False,
        seqlen_offsets: Any = 0, num_heads_q: int | None = None,
    ) -> Any:  # fmt: skip
        if cos_k is not None or (qkv.dim() == 4 and num_heads_q is None):
            raise lacking("apply_rotary_emb_qkv_ with cos_k, or of shared heads without num_heads_q")
        # of (B, S, 3, h, D) two of three, of (B, S, heads of queries, keys and values, D) all but the last
        count = 2 if qkv.dim() == 5 else (qkv.shape[2] + (num_heads_q or 0)) // 2
        return TurnedWithin.apply(qkv, cos, sin, count)  # type: ignore[no-untyped-call]

    def apply_rotary_emb_kv_(kv: Any, cos: Any, sin: Any, interleaved: bool = False, seqlen_offsets: Any = 0) -> Any:
        return TurnedWithin.apply(kv, cos, sin, 1)  # type: ignore[no-untyped-call]

    class RotaryEmbedding(nn.Module):
        """Cosines and sines of the positions so far, made anew for more of them, or for another type."""

        inv_freq: torch.Tensor

        def __init__(
            self, dim: int, base: float = 10000.0, interleaved: bool = False, scale_base: Any = None,
            device: Any = None,
        ) -> None:  # fmt: skip
            super().__init__()
            if scale_base is not None:
                raise lacking("RotaryEmbedding with scale_base")
            places = torch.arange(0, dim, 2, device=device, dtype=torch.float32)
            self.register_buffer("inv_freq", 1.0 / (float(base) ** (places / dim)), persistent=False)
            self.cosines: Any = None
            self.sines: Any = None

        def _made(self, count: int, like: torch.Tensor) -> None:
            kept = self.cosines
            if kept is None or count > kept.shape[0] or kept.dtype != like.dtype or kept.device != like.device:
                places = torch.arange(count, device=like.device, dtype=torch.float32)
                angles = torch.outer(places, self.inv_freq.float())
                self.cosines, self.sines = torch.cos(angles).to(like.dtype), torch.sin(angles).to(like.dtype)

        def forward(
            self, qkv: Any, kv: Any = None, seqlen_offset: Any = 0, max_seqlen: int | None = None,
            num_heads_q: int | None = None,
        ) -> Any:  # fmt: skip
            offset = seqlen_offset if isinstance(seqlen_offset, int) else 0
            self._made(qkv.shape[1] + offset if max_seqlen is None else max_seqlen, qkv)
            if kv is None:
                return apply_rotary_emb_qkv_(qkv, self.cosines, self.sines, num_heads_q=num_heads_q)
            turned = apply_rotary_emb(qkv, self.cosines, self.sines, inplace=True)
            return turned, apply_rotary_emb_kv_(kv, self.cosines, self.sines)

    made = (apply_rotary_emb, apply_rotary_emb_qkv_, apply_rotary_emb_kv_, RotaryEmbedding)
    return {**{one.__name__: one for one in made}, "apply_rotary_emb_func": apply_rotary_emb}
