"""Blocks: the kinds of blocks in a model's stack, and how many there are of each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from estimator.model import Model


@dataclass(frozen=True, kw_only=True)
class BlockKind:
    """Blocks that are alike: with experts or dense, seeing ``window`` keys (0: all), among the leading dense ones."""

    layers: int
    experts: bool = False
    window: int = 0
    leading: bool = False


@lru_cache(maxsize=1024)
def block_kinds(model: Model) -> tuple[BlockKind, ...]:
    """Count the blocks of each kind, in the order in which the kinds first occur.

    Block i (from 0) has experts where i ≥ ``dense_layers`` and ``moe_every`` divides i + 1, and sees all keys where
    there is no window or ``full_attention_every`` divides i + 1 (Gemma 2 and 3, GPT-OSS: every second or sixth).
    """
    if not model.sliding_window and not (model.experts and (model.dense_layers or model.moe_every > 1)):
        return (BlockKind(layers=model.layers, experts=model.experts > 0),)
    found: Counter[tuple[bool, int, bool]] = Counter()
    for index in range(model.layers):
        leading = model.experts > 0 and index < model.dense_layers
        experts = model.experts > 0 and not leading and (index + 1) % model.moe_every == 0
        full = model.full_attention_every > 0 and (index + 1) % model.full_attention_every == 0
        found[experts, 0 if full else model.sliding_window, leading] += 1
    return tuple(
        BlockKind(layers=layers, experts=experts, window=window, leading=leading)
        for (experts, window, leading), layers in found.items()
    )
