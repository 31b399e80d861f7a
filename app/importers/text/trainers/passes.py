"""Passes: logs whose iterations are passes of gradient accumulation, several to a step, as litgpt counts both.

``iter 3050700 step 610140 | … | iter time: 112.20 ms (step)``: five iterations made a step.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.importers.text.trainers.log import Step
from estimator.scenario.measurement import Warning

_ITERATION = re.compile(r"(?<![A-Za-z])iter(?:ation)?s?\s{0,8}[:=#]?\s{0,8}$", re.IGNORECASE)
_STEP = re.compile(r"[\s|,:]{1,8}step\s{0,4}[:=]?\s{0,4}(\d{1,9})\b", re.IGNORECASE)
_UPDATED = re.compile(r"\((?:opt(?:imizer)?\.)?step\)", re.IGNORECASE)
"""What stands behind the time of the pass that ends a step."""
_FEWEST = 3
_MOST_PASSES = 100_000


@dataclass(frozen=True, kw_only=True)
class Pass:
    """What a line says of its iteration beside its number: steps made until it, and whether it ended one."""

    steps: int
    ends: bool


def pass_of(before: str, behind: str) -> Pass | None:
    """Read the text before and behind the number of an iteration; None where it counts no steps beside it."""
    found = _STEP.match(behind) if _ITERATION.search(before) else None
    return Pass(steps=int(found[1]), ends=bool(_UPDATED.search(behind))) if found else None


def passes_of_step(iterations: Sequence[int], said: Sequence[Pass | None]) -> int:
    """How many iterations make a step: n where every line has n·steps within one step of its iterations; 1 else."""
    known = [(number, one.steps) for number, one in zip(iterations, said, strict=True) if one]
    if len(known) < _FEWEST or len(known) < len(said) or not known[-1][1]:
        return 1
    passes = round(known[-1][0] / known[-1][1])
    if not 1 < passes < _MOST_PASSES or any(abs(number - passes * steps) > passes for number, steps in known):
        return 1
    return passes


def in_steps(
    iterations: Sequence[Step], said: Sequence[Pass | None], passes: int, warnings: list[Warning]
) -> tuple[list[Step], tuple[float, ...]]:
    """The iterations with their time called so, and seconds of whole steps.

    A step is the sum of its passes where each is logged, else n − 1 passes and the one that ends it.
    """
    ending = [one for one in said if one]
    seconds = [step.seconds or 0.0 for step in iterations]
    rows = [
        replace(
            step,
            seconds=None,
            row={("iteration_s" if key == "step_s" else key): value for key, value in step.row.items()}
            | {"steps": one.steps if one else 0},
        )
        for step, one in zip(iterations, said, strict=True)
    ]
    whole = [
        sum(seconds[at - passes + 1 : at + 1])
        for at in range(passes, len(iterations))  # the first step holds start-up work
        if ending[at].ends and iterations[at].number - iterations[at - passes].number == passes
    ]
    message = f"Of its iterations {passes} make a step, as it counts both: each is a pass of gradient accumulation. "
    if whole and all(whole):
        message += "A step is the sum of its passes"
        steps_s = tuple(whole)
    else:
        last = [one for one, of in zip(seconds, ending, strict=True) if of.ends and one]
        others = [one for one, of in zip(seconds, ending, strict=True) if not of.ends and one]
        if not last and not others:
            return rows, ()
        one_s = statistics.median(others or last)
        end_s = statistics.median(last or others)
        message += f"A step is taken for {passes - 1} times one and the one that ends it, by the median of those logged"
        steps_s = ((passes - 1) * one_s + end_s,)
    warnings.append(Warning(code="passes-of-a-step", message=message))
    return rows, steps_s
