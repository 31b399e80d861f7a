"""Host pace: what a step takes where its host is faster or slower than while it was calibrated.

A shared host runs the same work up to 1.8 times as long from one second to the next, so that a step bound by it is told
together with the pace at which it ran: an op on a host tensor, timed in the probes and beside each measured step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from estimator.cost.efficiency import NAMES, Efficiencies
from estimator.estimate.of_op_list import estimate_op_list
from estimator.scenario.hardware import Cluster
from estimator.scenario.op_list import OpList

FACTORS = (0.4, 0.55, 0.7, 0.85, 1.0, 1.2, 1.5, 1.9, 2.4)
"""Paces over the calibrated one at which a step is predicted; between them it is read off straight lines."""

OF_HOST = tuple(name for name in NAMES if name.startswith("host_") and name.endswith("_s") and "_per_s" not in name)

OF_PROGRAM = tuple(name for name in OF_HOST if "backward" not in name)
"""What the program's own thread does: autograd's works backward beside another neighbour, at a pace of its own."""

Curve = tuple[tuple[float, float], ...]


def at_pace(e: Efficiencies, factor: float, names: Sequence[str] = OF_HOST) -> Efficiencies:
    """The efficiencies of a host that takes ``factor`` times as long for what they name, else for everything."""
    return replace(e, name=f"{e.name}, host {factor:g}", **{name: getattr(e, name) * factor for name in names})


def over_paces(found: OpList, cluster: Cluster, e: Efficiencies) -> Curve:
    """Seconds of an op list's step where the program's own thread is at each of FACTORS."""
    return tuple(
        (factor, estimate_op_list(found, cluster, at_pace(e, factor, OF_PROGRAM), interval=False).step_time_s)
        for factor in FACTORS
    )


def read_off(curve: Sequence[Sequence[float]], factor: float) -> float:
    """Seconds of a step at a pace ``factor`` times the calibrated one; at the ends as at the last of the curve."""
    return float(np.interp(factor, [one[0] for one in curve], [one[1] for one in curve]))
