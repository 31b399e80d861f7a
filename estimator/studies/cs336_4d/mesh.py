"""Parts (c) and (d): from which batch a mesh of chips is bound by compute, and how to split it.

Forward pass of Y = X·W₁·W₂ over X ranks of FSDP and Y of tensor parallelism, N = X·Y (Austin et al. 2025, "How to Scale
Your Model", chapter 5), B tokens, s bytes of an element on the links, C FLOP/s of a chip, W bytes/s of a mesh axis:
compute 4BDF/(N·C), FSDP's gathers 2s·DF/(Y·W·M_X), tensor parallelism's exchanges 2s·BD/(X·W·M_Y).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from estimator.studies.cs336_4d.inputs import Inputs


@dataclass(frozen=True, kw_only=True, slots=True)
class PassTimes:
    """Seconds of one block's forward pass."""

    compute_s: float
    fsdp_s: float
    tp_s: float


def pass_times(i: Inputs, batch: float, fsdp: float, tp: float) -> PassTimes:
    """Time of a block for ``batch`` tokens over all ranks."""
    links = 2 * i.sent_bytes / i.axis_bytes_per_s
    return PassTimes(
        compute_s=4 * batch * i.d * i.f / (fsdp * tp * i.chip_flops_per_s),
        fsdp_s=links * i.d * i.f / (tp * i.M_X),
        tp_s=links * batch * i.d / (fsdp * i.M_Y),
    )


def least_batch(i: Inputs, fsdp: float, tp: float, *, overlapped: bool) -> float:
    """Tokens from which compute takes longest: infinite where tensor parallelism is too wide.

    Axes overlapped (compute ≥ each): B ≥ X·α/M_X, and F ≥ Y·α/M_Y. Not overlapped (compute ≥ their sum):
    B ≥ X·(α/M_X)/(1 − Y·α/(M_Y·F)).
    """
    shard = i.intensity / i.M_X
    tp_share = tp * i.intensity / (i.M_Y * i.f)
    if overlapped:
        return fsdp * shard if tp_share <= 1 else math.inf
    return fsdp * shard / (1 - tp_share) if tp_share < 1 else math.inf


def splits(chips: int) -> list[tuple[int, int]]:
    """List every X·Y = chips, X rising."""
    small = [x for x in range(1, math.isqrt(chips) + 1) if chips % x == 0]
    return [(x, chips // x) for x in sorted({*small, *(chips // x for x in small)})]


def best_split(i: Inputs, *, overlapped: bool) -> tuple[int, int] | None:
    """Return the X and Y of ``chips`` that are bound by compute from the smallest batch on; None where none ever is."""
    found = min(splits(i.chips), key=lambda split: least_batch(i, *split, overlapped=overlapped))
    return found if math.isfinite(least_batch(i, *found, overlapped=overlapped)) else None


def closed_form_tokens(i: Inputs, *, overlapped: bool) -> float:
    """Tokens per chip at the best real-valued split: α²/(M_X·M_Y·F), four times that where the axes do not overlap."""
    return (1 if overlapped else 4) * i.intensity**2 / (i.M_X * i.M_Y * i.f)


def closed_form_fsdp(i: Inputs, batch: float) -> float:
    """X that balances both exchanges: √(B·M_X·N/(F·M_Y))."""
    return math.sqrt(batch * i.M_X * i.chips / (i.f * i.M_Y))
