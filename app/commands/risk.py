"""Risk: that a step which is predicted to fit runs out of memory, in words."""

from __future__ import annotations

LEAST_FRAC = 0.05
"""A smaller risk is not spoken of, as on the page."""


ONLY_JUST_FRAC, IF_AT_ALL_FRAC = 0.2, 0.4
"""Risks from which a plan no longer fits "most likely", and from which it may as well not."""


def at_risk(out_of_memory_frac: float | None) -> str:
    """Say behind "fits" how surely it does; "" where the risk is small or was not asked for."""
    if out_of_memory_frac is None or out_of_memory_frac < LEAST_FRAC:
        return ""
    if out_of_memory_frac < ONLY_JUST_FRAC:
        surely = ", most likely"
    else:
        surely = " only just" if out_of_memory_frac < IF_AT_ALL_FRAC else " only just, if at all"
    return f"{surely} (about {out_of_memory_frac:.0%} of steps predicted like it run out of memory)"
