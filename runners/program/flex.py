"""``flex_attention``, compiled into one kernel each way: taken as flash attention of all its scores, or of half."""

from __future__ import annotations

from typing import Any

import torch

from runners.program import values
from runners.program.functions import on_device
from runners.program.recording import Recording
from runners.program.unimported import once_imported

CAUSAL_FRAC = 0.75
"""Share of a mask's blocks below which its scores are taken to be half of all, as under a causal mask; else all."""
NEAR_FRAC = 0.15
"""How far a share may be from what was taken and go unsaid: blocks of a causal mask on its diagonal are whole."""

REMEDY = "Import a profile of the step; its kernel is measured there."


def install(recording: Recording) -> None:
    """Replace the function once a program imports it."""
    once_imported("torch.nn.attention.flex_attention", lambda module: _patch(module, recording))


def _patch(module: Any, recording: Recording) -> None:
    inner, answers = module.flex_attention, module.AuxOutput
    aten = torch.ops.aten

    def flex_attention(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, score_mod: Any = None, block_mask: Any = None,
        scale: float | None = None, enable_gqa: bool = False, return_lse: bool = False, kernel_options: Any = None,
        *, return_aux: Any = None,
    ) -> Any:  # fmt: skip
        if not on_device(query):
            return inner(
                query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse, kernel_options,
                return_aux=return_aux,
            )  # fmt: skip
        causal = _is_half(block_mask, recording)
        recording.assume(
            f"flex_attention is taken as flash attention of {'half' if causal else 'all'} its scores"
            + ("; its score_mod takes no time" if score_mod is not None else "")
        )
        same = query.shape[-1] == value.shape[-1]
        if same:
            found = aten._scaled_dot_product_flash_attention.default(query, key, value, 0.0, causal, False, scale=scale)
        else:  # which flash attention does not do
            trains = torch.is_grad_enabled() and any(one.requires_grad for one in (query, key, value))
            found = aten._scaled_dot_product_cudnn_attention.default(
                query, key, value, None, trains, 0.0, causal, False, scale=scale
            )
        out, sums = found[0], found[1]
        if return_aux is not None:
            most = torch.empty_like(sums) if return_aux.max_scores else None
            return out, answers(lse=sums if return_aux.lse else None, max_scores=most)
        return (out, sums) if return_lse else out

    module.flex_attention = flex_attention


def _is_half(mask: Any, recording: Recording) -> bool:
    """Whether a mask of blocks is taken to leave half of the scores; where they are not known it is."""
    share = None if mask is None else _share(mask)
    if mask is None or share is None:
        if mask is not None:
            message = "which blocks of its mask hold scores is not known: taken to be half of them"
            recording.doubt("flex_attention", message, REMEDY)
        return mask is not None
    taken = 0.5 if share < CAUSAL_FRAC else 1.0
    if abs(share - taken) > NEAR_FRAC:
        message = f"computes {share:.0%} of its blocks: taken to be {taken:.0%}"
        recording.doubt("flex_attention", message, REMEDY)
    return taken < 1.0


def _share(mask: Any) -> float | None:
    """The blocks that are computed, of all."""
    counts: list[torch.Tensor] = []
    for one in (mask.kv_num_blocks, mask.full_kv_num_blocks):
        if one is None:
            continue
        known = values.of(one) if on_device(one) else None
        if known is None and on_device(one):
            return None
        counts.append(one if known is None else known.real)
    if not counts:
        return None
    rows, columns = mask.kv_indices.shape[-2:]
    computed = sum(float(one.sum()) for one in counts)
    return float(computed / (rows * columns * counts[0].shape[0] * counts[0].shape[1]))
