"""Part: what one micro-batch costs a rank in one part of the network: device, host, and collectives in line."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimator.cost.host import collective_s as host_collective_s
from estimator.cost.host import launch_s
from estimator.efficiency import Efficiencies
from estimator.exchanges import InLine
from estimator.training import Training
from estimator.units import Number
from estimator.work import DIRECTIONS, Work

Scale = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Seconds per micro-batch; ``products`` are the device seconds of matrix products and attention."""

    forward_s: Number = 0.0
    input_s: Number = 0.0
    weight_s: Number = 0.0
    products_forward_s: Number = 0.0
    products_backward_s: Number = 0.0
    host_forward_s: Number = 0.0
    host_backward_s: Number = 0.0
    launches_forward: Number = 0.0
    launches_backward: Number = 0.0
    inline_forward_s: Number = 0.0
    inline_backward_s: Number = 0.0


NAMES = tuple(f.name for f in fields(Part))


def part_of(work: Work, lines: list[InLine], training: Training, e: Efficiencies, scale: Scale | None = None) -> Part:
    """Add a part up; ``scale`` has, for each component of ``work.COMPONENTS``, the factors of all variants."""
    (forward, towards_input, weight), (forward_p, input_p, weight_p) = _sums(work, scale)
    launches = work.launches
    early, late = launch_s(training, "forward", e), launch_s(training, "backward", e)
    inline: dict[str, Number] = {"forward": 0.0, "backward": 0.0}
    host: dict[str, Number] = {"forward": 0.0, "backward": 0.0}
    for line in lines:
        message = line.message
        inline[message.phase] += line.exposed_s * message.count
        host[message.phase] += host_collective_s(training, message.host, e) * message.count
    return Part(
        forward_s=forward,
        input_s=towards_input,
        weight_s=weight,
        products_forward_s=forward_p,
        products_backward_s=input_p + weight_p,
        host_forward_s=launches["forward"] * early + host["forward"],
        host_backward_s=launches["recomputed"] * early
        + (launches["input"] + launches["weight"]) * late
        + host["backward"],
        launches_forward=launches["forward"],
        launches_backward=launches["recomputed"] + launches["input"] + launches["weight"],
        inline_forward_s=inline["forward"],
        inline_backward_s=inline["backward"],
    )


def total(parts: list[tuple[Part, Number]]) -> Part:
    """Add parts, each as often as it runs."""
    return Part(**{name: _total(parts, name) for name in NAMES})


def _total(parts: list[tuple[Part, Number]], name: str) -> Any:
    found: Number | None = None
    for part, times in parts:
        value = getattr(part, name)
        # Arrays of a few numbers take as long as their number of operations
        often = value if isinstance(times, float) and times == 1.0 else value * times
        found = often if found is None else found + often
    return 0.0 if found is None else found


def _sums(work: Work, scale: Scale | None) -> tuple[list[Number], list[Number]]:
    """Return seconds of each direction: of all components, and of products and attention (all but plain kernels)."""
    columns = [work.seconds[direction] for direction in DIRECTIONS]
    if scale is None:
        return [sum(column) for column in columns], [sum(column[:-1]) for column in columns]
    table = np.array(columns, dtype=float)
    return list(table @ scale), list(table[:, :-1] @ scale[:-1])
