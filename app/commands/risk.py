"""Risk: that a step which is predicted to fit runs out of memory, in words."""

from __future__ import annotations

LEAST_FRAC = 0.05
"""A smaller risk is not spoken of, as on the page."""


def at_risk(out_of_memory_frac: float | None) -> str:
    """Say the risk behind "fits"; "" where it is small or was not asked for."""
    if out_of_memory_frac is None or out_of_memory_frac < LEAST_FRAC:
        return ""
    return f", with a risk of {out_of_memory_frac:.0%} to run out of memory"
