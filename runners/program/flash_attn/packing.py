"""The package's padding (``flash_attn.bert_padding``): rows that a mask keeps, one after another, and back."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional


class _Rows(torch.autograd.Function):
    """Rows by their indices: gathered, and their gradients scattered, as no row is taken twice."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(indices)
        ctx.shape = tensor.shape
        flat = tensor.flatten(1)
        places = indices.unsqueeze(1).expand(-1, flat.shape[1])
        return torch.gather(flat, 0, places).reshape(-1, *tensor.shape[1:])

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        (indices,) = ctx.saved_tensors
        flat = gradient.flatten(1)
        made = flat.new_zeros((ctx.shape[0], flat.shape[1]))
        made.scatter_(0, indices.unsqueeze(1).expand(-1, flat.shape[1]), flat)
        return made.reshape(ctx.shape), None


def index_first_axis(tensor: Any, indices: Any) -> Any:
    """Rows of a tensor."""
    return _Rows.apply(tensor, indices)  # type: ignore[no-untyped-call]


def index_put_first_axis(rows: Any, indices: Any, first_axis_dim: int) -> Any:
    """Rows put among zeros."""
    return rows.new_zeros((first_axis_dim, *rows.shape[1:])).index_put((indices,), rows)


def unpad_input(hidden_states: Any, attention_mask: Any, unused_mask: Any = None) -> Any:
    """Rows that the mask keeps, their places, where sequences start, the longest, and how long each is."""
    kept = attention_mask if unused_mask is None else attention_mask + unused_mask
    lengths = kept.sum(dim=-1, dtype=torch.int32)
    used = attention_mask.sum(dim=-1, dtype=torch.int32)
    indices = torch.nonzero(kept.flatten(), as_tuple=False).flatten()
    longest = lengths.max().item()
    starts = functional.pad(torch.cumsum(lengths, dim=0, dtype=torch.int32), (1, 0))
    return index_first_axis(hidden_states.flatten(0, 1), indices), indices, starts, longest, used


def pad_input(hidden_states: Any, indices: Any, batch: int, seqlen: int) -> Any:
    """Rows where they were before they were packed."""
    return index_put_first_axis(hidden_states, indices, batch * seqlen).unflatten(0, (batch, seqlen))


NAMES = {one.__name__: one for one in (index_first_axis, index_put_first_axis, unpad_input, pad_input)}
