"""Units as people print them, and the SI value of one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.importers.text.values.cells import MICRO
from estimator.scenario.units import GIB, KIB, MIB


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A printed unit: the suffix of its SI form, and the SI value of one; ``loose`` where MB may mean MiB."""

    suffix: str
    scale: float
    loose: bool = False


_TIMES = {"s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0, "ms": 1e-3, "msec": 1e-3, "msecs": 1e-3,
          "millisecond": 1e-3, "milliseconds": 1e-3, "us": 1e-6, "usec": 1e-6, "usecs": 1e-6, "microseconds": 1e-6,
          "ns": 1e-9, "nsec": 1e-9, "nanoseconds": 1e-9, "mins": 60.0, "minutes": 60.0, "hrs": 3600.0,
          "hours": 3600.0}  # fmt: skip
PER_STEP = re.compile(r"(?:/| per )(?:it|iter|iteration|step|batch|update)$")
"""Behind a unit of time: what it is the time of."""
_SIZES = {"b": 1.0, "bytes": 1.0, "byte": 1.0, "kib": KIB, "mib": MIB, "gib": GIB, "tib": 1024.0 * GIB}
_LOOSE_SIZES = {"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12}
PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
"""Before FLOPs."""


def unit(text: str) -> Unit | None:
    """Look up a printed unit (``ms``, ``µs``, ``MB``, ``GiB/s``, ``TFLOP/s``, ``%``, ``x``); None if it is none."""
    word = "".join(MICRO.get(letter, letter) for letter in text.strip().lower())
    time = PER_STEP.sub("", word)
    if time in _TIMES:
        return Unit(suffix="_s", scale=_TIMES[time])
    if word in _SIZES:
        return Unit(suffix="_bytes", scale=_SIZES[word])
    if word in _LOOSE_SIZES:
        return Unit(suffix="_bytes", scale=_LOOSE_SIZES[word], loose=True)
    if word in ("%", "percent", "pct"):
        return Unit(suffix="_frac", scale=0.01)
    if word in ("x", "×"):
        return Unit(suffix="", scale=1.0)
    rate = re.fullmatch(r"([kKMGT]i?)([bB])ps", text.strip())
    if rate:  # capitals matter here: GBps is bytes, Gbps is bits
        size = unit(f"{rate[1]}B")
        if size is not None:
            bits = 8.0 if rate[2] == "b" else 1.0
            return Unit(suffix="_bytes_per_s", scale=size.scale / bits, loose=size.loose)
    per_second = word.removesuffix("/s").removesuffix("/sec")
    if per_second != word:
        size = unit(per_second)
        if size is not None and size.suffix == "_bytes":
            return Unit(suffix="_bytes_per_s", scale=size.scale, loose=size.loose)
    for ending in ("flop/s", "flops/s", "flop/sec"):
        prefix = word.removesuffix(ending)
        if prefix != word and prefix in PREFIXES:
            return Unit(suffix="_flops_per_s", scale=PREFIXES[prefix])
    return None


def is_time(text: str) -> bool:
    """Whether a printed unit is one of time."""
    found = unit(text)
    return found is not None and found.suffix == "_s"
