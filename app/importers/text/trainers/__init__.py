"""Trainers: the logs that training programs print step by step; one module and one line here for each."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from app.importers.text.trainers import (
    deepspeed,
    hugging_face,
    lightning,
    loop,
    megatron,
    nanogpt,
    nanotron,
    torchtitan,
)
from app.importers.text.trainers.log import Log, measurement
from estimator.scenario.measurement import Measurement

TRAINERS: dict[str, Callable[[Sequence[str]], Log | None]] = {
    "Megatron-LM": megatron.read,
    "torchtitan": torchtitan.read,
    "nanotron": nanotron.read,
    "DeepSpeed": deepspeed.read,
    "Transformers": hugging_face.read,
    "Lightning": lightning.read,
    "nanoGPT": nanogpt.read,
}
LOOP = "loop"
"""A loop without a name, in formats and origins."""
_ANSI = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_LONGEST_LINE = 8000


def read(text: str, filename: str) -> Measurement | None:
    """Read the log of whichever trainer says most of its steps, None where it is of none.

    One trainer may drive another; the scenario is then that of the one whose arguments the log holds.
    """
    lines = _lines(text)
    logs = [(name, log) for name, reader in TRAINERS.items() if (log := reader(lines)) is not None]
    if not logs:
        return None
    name, best = max(logs, key=lambda one: len(one[1].steps_s))
    if not best.scenario:
        known = next((log for _, log in logs if log.scenario), best)
        world = max(log.world_size for _, log in logs)
        best = replace(best, scenario=known.scenario, world_size=world)
    return measurement(best, name, filename)


def read_loop(text: str, filename: str) -> Measurement | None:
    """Read the log of a loop that somebody wrote; ask the named trainers first, whose lines say steps too."""
    log = loop.read(_lines(text))
    return measurement(log, LOOP, filename) if log else None


def _lines(text: str) -> list[str]:
    return [_ANSI.sub("", line) for line in text.splitlines() if len(line) < _LONGEST_LINE]


__all__ = ["LOOP", "TRAINERS", "read", "read_loop"]
