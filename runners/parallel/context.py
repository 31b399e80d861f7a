"""Context parallelism: ranks that share a sequence, and what they exchange around attention.

- ulysses: all-to-alls change a share of tokens into a share of heads and back (Jacobs 2023, arXiv 2309.14509).
- ring: keys and values pass by (``zigzag.py``).
- all-gather: keys and values of the whole sequence are gathered, again in backward (Dubey 2024, arXiv 2407.21783,
  section 3.3.2).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right

from estimator.scenario.plan import Plan
from runners.model.attention import Core, eager_core, fused_core, repeat_heads
from runners.model.transformer import Transformer
from runners.parallel.differentiable import all_to_all, gather
from runners.parallel.mesh import Axis
from runners.parallel.zigzag import kernels_for, places_of, zigzag_ring


def share_sequences(module: Transformer, plan: Plan, axis: Axis, seq_len: int, device: str) -> None:
    """Let a module attend over the ranks of ``axis``, each of which has the tokens of ``places``."""
    module.places = places(plan.cp_kind, seq_len, axis).to(device)
    cores: dict[str, Core] = {"ulysses": _ulysses(axis), "ring": _ring(axis)}
    cores["all-gather"] = _all_gather(axis, recomputed=plan.recompute != "none")
    if plan.cp_kind == "all-gather":
        module.key_places = torch.arange(seq_len, device=device)
    if plan.cp_kind == "ulysses":
        module.bias_length = seq_len
    if plan.cp_kind == "ring":
        module.eager = False  # its masks are by chunk
    for block in module.blocks.values():
        block.attention.core = cores[plan.cp_kind]  # type: ignore[union-attr]


def places(cp_kind: str, seq_len: int, axis: Axis) -> Tensor:
    """Positions of this rank's tokens: a stretch for Ulysses, two chunks that balance causal work for the others."""
    if cp_kind == "ulysses":
        return torch.arange(seq_len).view(axis.size, -1)[axis.rank]
    return places_of(seq_len, axis)


def _ulysses(axis: Axis) -> Core:
    def core(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, groups: int, kind: str, dropout: float) -> Tensor:
        copies = -(-axis.size // k.shape[1])  # each rank needs at least one head of its own
        q, k, v = (_heads(x, axis) for x in (q, repeat_heads(k, copies), repeat_heads(v, copies)))
        of_heads = eager_core if kind == "eager" else fused_core
        y = of_heads(q, k, v, bias, q.shape[1] // k.shape[1], kind, dropout)
        parts = torch.stack(y.chunk(axis.size, dim=2))  # (P, B, heads/P, S/P, dim)
        back = all_to_all(parts, axis)
        return back.permute(1, 0, 2, 3, 4).flatten(1, 2)

    return core


def _heads(x: Tensor, axis: Axis) -> Tensor:
    """All heads of some tokens to some heads of all tokens."""
    parts = torch.stack(x.chunk(axis.size, dim=1))  # (P, B, heads/P, S/P, dim)
    return all_to_all(parts, axis).permute(1, 2, 0, 3, 4).flatten(2, 3)


def _ring(axis: Axis) -> Core:
    def core(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, groups: int, kind: str, dropout: float) -> Tensor:
        del bias, dropout  # masks are by chunk; dropout is refused before
        width = v.shape[-1]
        q, k, v = _cast((q, k, v))
        kernels = kernels_for(q, kind)
        k, v = repeat_heads(k, groups), repeat_heads(v, groups)
        more = q.shape[-1] - width
        # One kernel takes heads of one width (MLA's values are narrower); padding by nothing copies all the same
        y = zigzag_ring(q, k, F.pad(v, (0, more)) if more else v, axis, kernels)
        return y[..., :width]

    return core


def _all_gather(axis: Axis, *, recomputed: bool) -> Core:
    def core(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, groups: int, kind: str, dropout: float) -> Tensor:
        q, k, v = _cast((q, k, v))
        whole = _in_order(torch.cat((k, v), dim=-1), axis)
        keys, values = torch.split(whole, [k.shape[-1], v.shape[-1]], dim=-1)
        # What runs again in backward gathers again by itself, and hooks of its own would keep its tensors for good
        again = nullcontext() if recomputed else _gathered_again(whole, torch.cat((k, v), dim=-1), axis)
        with again:
            if kind == "eager":
                return eager_core(q, keys, values, bias, groups, kind, dropout)
            chunk = q.shape[2] // 2
            found = []
            for part, index in zip(q.chunk(2, dim=2), (axis.rank, 2 * axis.size - 1 - axis.rank), strict=True):
                seen = (index + 1) * chunk
                mask = causal_lower_right(chunk, seen)
                found.append(
                    F.scaled_dot_product_attention(
                        part, keys[:, :, :seen], values[:, :, :seen], mask, dropout, enable_gqa=groups > 1
                    )
                )
            return torch.cat(found, dim=2)

    return core


def _gathered_again(whole: Tensor, own: Tensor, axis: Axis) -> AbstractContextManager[Any]:
    """Keep no gathered keys and values for backward: what an op saves of ``whole`` is gathered anew, once.

    All ranks save the same pieces in the same order, so that they meet in the gather.
    """
    storage, left, again = whole.untyped_storage().data_ptr(), 0, []  # type: ignore[var-annotated]
    own = own.detach()

    def pack(tensor: Tensor) -> Any:
        nonlocal left
        if tensor.untyped_storage().data_ptr() != storage:
            return tensor
        left += 1
        return tensor.shape, tensor.stride(), tensor.storage_offset()

    def unpack(packed: Any) -> Tensor:
        nonlocal left
        if isinstance(packed, Tensor):
            return packed
        if not again:
            again.append(_in_order(own, axis))
        found: Tensor = again[0].as_strided(*packed)
        left -= 1
        if not left:
            again.clear()
        return found

    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)


def _in_order(x: Tensor, axis: Axis) -> Tensor:
    """Gather (B, heads, S/cp, dim) of all ranks and put their chunks into the order of the sequence."""
    whole = gather(x.permute(2, 0, 1, 3), axis)
    chunks = whole.view(axis.size, 2, -1, *whole.shape[1:])
    ordered = torch.cat((chunks[:, 0], chunks[:, 1].flip(0)))
    return ordered.flatten(0, 1).permute(1, 2, 0, 3)  # of one storage, whoever gathers


def _cast(tensors: tuple[Tensor, ...]) -> Any:
    """Cast as autocast does for attention, which does not know what runs here."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return tensors
    return tuple(tensor.to(torch.get_autocast_dtype(device)) for tensor in tensors)
