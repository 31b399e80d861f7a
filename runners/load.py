"""Load: what else the machine did while a run measured, as far as the system tells."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from estimator.scenario.measurement import Warning
from runners.processor import cpu_cores
from runners.ranks import Ranks, gather

STAT = Path("/proc/stat")
IDLE = (3, 4)
"""Columns of the first line of /proc/stat in which no processor worked: idle, iowait (proc(5))."""

BUSY_FRAC = 0.1
"""A share of the processors that others may use before a result says so."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Seconds by the clock, of all processors at work, and of this process with those that it ended."""

    clock_s: float
    busy_s: float
    own_s: float


def moment() -> Moment | None:
    """Read the counters; None where the system has none."""
    try:
        values = [float(word) for word in STAT.read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
        tick_s = 1 / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return None
    busy_s = sum(value for column, value in enumerate(values) if column not in IDLE) * tick_s
    return Moment(clock_s=time.monotonic(), busy_s=busy_s, own_s=sum(os.times()[:4]))


def load_since(begin: Moment | None, ranks: Ranks) -> dict[str, float]:
    """Processors that other programs kept busy since then, of so many; all ranks must call it. Empty if unknown.

    The ranks of a run are taken to share one machine.
    """
    now = moment()
    known = begin is not None and now is not None and now.clock_s > begin.clock_s
    own_s = now.own_s - begin.own_s if known and begin is not None and now is not None else 0.0
    together_s = sum(row[0] for row in gather(ranks, [own_s]))
    if begin is None or now is None or not known:
        return {}
    seconds = now.clock_s - begin.clock_s
    return {
        "others_cores": max(0.0, (now.busy_s - begin.busy_s - together_s) / seconds),
        "own_cores": together_s / seconds,
        "cores": float(cpu_cores()),
        "load_average": os.getloadavg()[0],
        "seconds_s": seconds,
    }


def busy_machine(load: dict[str, float]) -> list[Warning]:
    """Say where other programs used more than a tenth of the processors."""
    if not load or load["others_cores"] <= BUSY_FRAC * load["cores"]:
        return []
    message = (
        f"other programs kept {load['others_cores']:.1f} of {load['cores']:.0f} processors busy meanwhile: times may "
        "be longer than this machine's own"
    )
    return [Warning(code="busy_machine", message=message)]
