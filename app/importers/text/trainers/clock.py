"""Clock: when a line was printed, and what that says of the steps between lines."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from app.importers.text.trainers.log import Step
from estimator.scenario.measurement import Warning

_STAMP = re.compile(r"(?<!\d)(\d{4})[-/](\d\d)[-/](\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
_HEAD = 120
_LEAST_WHOLE_S, _DIGITS = 20.0, 6
"""Between stamps of whole seconds a shorter time is off by more than 5 %."""

Stamp = tuple[float, bool]
"""Seconds since 1970, and whether parts of a second were printed."""


def stamp(line: str) -> Stamp | None:
    """The time that a line begins with, None where it begins with none."""
    found = _STAMP.search(line[:_HEAD])
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(one) for one in found.groups()[:6])
    try:
        whole = datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except ValueError:
        return None
    return whole + (float(f"0.{found[7]}") if found[7] else 0.0), bool(found[7])


def timed(
    steps: Sequence[Step], stamps: Sequence[Stamp | None], warnings: list[Warning]
) -> tuple[list[Step], tuple[float, ...]]:
    """Give steps the mean time since the one that was logged before: (t₂ − t₁) / (n₂ − n₁), and list those times.

    Where only whole seconds were printed, and often, there is one time, of the whole log.
    """
    marked = [(at, step.number, said) for at, (step, said) in enumerate(zip(steps, stamps, strict=True)) if said]
    found = list(steps)
    times: list[float] = []
    for (_, before, (begin, finer)), (at, after, (end, _)) in itertools.pairwise(marked):
        if after > before and end > begin and (finer or end - begin >= _LEAST_WHOLE_S):
            times.append(round((end - begin) / (after - before), _DIGITS))
            found[at] = replace(steps[at], seconds=times[-1], row={**steps[at].row, "step_s": times[-1]})
    if not times and marked and all(earlier[1] < later[1] for earlier, later in itertools.pairwise(marked)):
        (_, first, (begin, _)), (_, last, (end, _)) = marked[0], marked[-1]
        times = [(end - begin) / (last - first)] if end - begin >= _LEAST_WHOLE_S else []
    if times:
        message = "Step times are those of the clock from one logged step to the next, with whatever ran between them"
        warnings.append(Warning(code="by-clock", message=message))
    return found, tuple(times)
