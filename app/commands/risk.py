"""Risk: that a step which is predicted to fit runs out of memory, in words."""

from __future__ import annotations

LEAST_FRAC = 0.05
"""A smaller risk is not spoken of, as on the page."""

WORDS = (
    (0.2, ", most likely"),
    (0.4, " only just"),
    (0.5, " only just, if at all"),
    (0.8, " as predicted, but more likely not"),
    (float("inf"), " as predicted, but most likely not"),
)
"""What stands behind "fits" up to a risk: from a half on, of steps that are predicted like it more do not fit."""


def at_risk(out_of_memory_frac: float | None) -> str:
    """Say behind "fits" how surely it does; "" where the risk is small or was not asked for."""
    if out_of_memory_frac is None or out_of_memory_frac < LEAST_FRAC:
        return ""
    surely = next(words for below, words in WORDS if out_of_memory_frac < below)
    return f"{surely} (about {out_of_memory_frac:.0%} of steps predicted like it run out of memory)"
