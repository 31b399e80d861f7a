"""A whole recording, of a profiler that marks no steps: which of its kernels are kept, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence

from estimator.scenario.breakdown import Category
from estimator.scenario.measurement import Kernel, Warning
from estimator.scenario.units import counted


def no_steps(tool: str) -> Warning:
    """Say that there is no step time, as ``tool`` marks no steps."""
    message = f"The times are those of the whole recording; {tool} marks no steps, so there is no step time"
    return Warning(code="whole-recording", message=message)


def listed(
    kernels: Sequence[Kernel], most: int, copies: tuple[int, float]
) -> tuple[tuple[Kernel, ...], tuple[Warning, ...]]:
    """Return the first ``most`` kernels, copies as one more, and a warning of the rest.

    ``copies``: how many there are, and their seconds.
    """
    kept, rest = tuple(kernels[:most]), len(kernels) - most
    if copies[0]:
        kept += (Kernel(name="memcpy", category=Category.OTHER, count=copies[0], total_s=copies[1]),)
    if rest <= 0:
        return kept, ()
    message = f"Left out of the list, as of little time: {counted(rest, 'kernel')}"
    return kept, (Warning(code="kernels-merged", message=message),)
