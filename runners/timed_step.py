"""Timed training steps: seconds of each and of its phases."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from estimator.scenario.breakdown import WORK_PHASES, Phase
from runners.host_pace import backward_pace_s, host_pace_s
from runners.ranks import Ranks, gather, synchronize
from runners.summary import Sample
from runners.timing import between, stamp
from runners.train_step import Trainer, one_step

TELL_S = 0.1
"""Least time between two reports of progress, so that short steps do not fill the events."""


def timed_step(trainer: Trainer, *, communicate: bool = True) -> Sample:
    """Run one step from an idle device; seconds of all and of each phase, by events on a GPU, by the clock on a CPU."""
    cuda = trainer.ranks.cuda
    marks: list[tuple[str, Any]] = []
    synchronize(trainer.ranks)
    marks.append(("", stamp(cuda)))
    one_step(trainer, lambda phase: marks.append((phase, stamp(cuda))), communicate=communicate)
    synchronize(trainer.ranks)
    sample = dict.fromkeys(phases_of(trainer), 0.0)
    for (_, begin), (phase, end) in pairwise(marks):
        sample[phase] += between(begin, end)
    return {"step": between(marks[0][1], marks[-1][1]), **sample}


def phases_of(trainer: Trainer) -> tuple[str, ...]:
    """The phases that a step's marks tell apart."""
    return (*WORK_PHASES, Phase.BUBBLE) if trainer.pipeline is not None else WORK_PHASES


def timed_steps(
    trainer: Trainer,
    stage: str,
    steps: range,
    total: int,
    tell: Callable[..., None],
    *,
    communicate: bool = True,
    paces_s: list[tuple[float, float]] | None = None,
) -> list[Sample]:
    """Run some of ``total`` steps one by one, telling how far they are.

    ``paces_s``: takes up the host's pace before each, of this thread and of autograd's.
    """
    samples: list[Sample] = []
    told = time.monotonic()
    tell(stage, steps.start, total)
    for step in steps:
        if paces_s is not None:
            paces_s.append((host_pace_s(), backward_pace_s(trainer.ranks.device)))
        samples.append(timed_step(trainer, communicate=communicate))
        if step + 1 == steps.stop or time.monotonic() - told >= TELL_S:
            told = time.monotonic()
            tell(stage, step + 1, total, samples[-1]["step"])
    return samples


def samples_by_rank(ranks: Ranks, samples: list[Sample]) -> list[list[Sample]]:
    """Collect the samples of all ranks, by rank and step, on every rank."""
    names = tuple(samples[0]) if samples else ()
    flat = gather(ranks, [sample[name] for sample in samples for name in names])
    width = len(names)
    return [[dict(zip(names, row[i : i + width], strict=True)) for i in range(0, len(row), width)] for row in flat]
