"""Gaps: where the figures of the 4D parallelism study have nothing to draw, and why."""

from __future__ import annotations

import math

from estimator.studies.cs336_4d.inputs import Inputs
from estimator.studies.cs336_4d.mesh import least_batch, splits
from estimator.studies.cs336_4d.sharding import most_tokens

NAMED = 6
NEVER = "never"
"""Stands behind the name of a split that no batch makes bound by compute."""


def bar_name(i: Inputs, split: tuple[int, int]) -> str:
    """Name a split of the chips by its degrees, and say where neither way to overlap leaves it a bar."""
    fsdp, tp = split
    return f"{fsdp} × {tp}" if _batches(i, split) else f"{fsdp} × {tp}: {NEVER}"


def gaps(i: Inputs) -> tuple[str, ...]:
    """Explain every gap of the figures for these inputs; none where nothing is missing."""
    found = []
    most = most_tokens(i)
    if most is not None:
        found.append(
            f"(b) The curve ends at {most:,} tokens per device: the {100 * (1 - i.sharded_activation_frac):.3g} % of "
            f"the activations that every rank keeps then fill its {i.chip_bytes / 1e9:g} GB, whatever the degree."
        )
    empty = [split for split in splits(i.chips) if len(_batches(i, split)) < 2]
    if empty:
        widest = i.f * i.M_Y / i.intensity
        names = ", ".join(f"{fsdp} × {tp}" for fsdp, tp in empty[:NAMED])
        more = f" and {len(empty) - NAMED} more" if len(empty) > NAMED else ""
        found.append(
            f"(d) No bar for {names}{more}: tensor parallelism of F·M_Y/α = {widest:.1f} or wider sends for as long as "
            "it computes or longer. Both times grow with the batch, so no batch is bound by compute."
        )
    return tuple(found)


def _batches(i: Inputs, split: tuple[int, int]) -> list[float]:
    batches = (least_batch(i, *split, overlapped=overlapped) for overlapped in (True, False))
    return [batch for batch in batches if math.isfinite(batch)]
