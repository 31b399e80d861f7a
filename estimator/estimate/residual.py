"""Residual: how far predictions of a kind of plan were off on steps that they did not know, beside what their own
efficiencies admit.

catalog/residuals.toml has the numbers, by kind: fitted on sets of measured steps, each held out from its own
(``make accuracy ARGS=--residuals``).
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from estimator.cost.efficiency import Efficiencies, Range
from estimator.memory.memory import allocator_share, keeps_scores
from estimator.scenario.scenario import Scenario

FILE = Path(__file__).parents[1] / "catalog" / "residuals.toml"
WORDS = ("compiled", "experts", "host near", "host binds")
"""What a kind says of a step beside where it runs; each is a kind by itself too."""
HOST_BINDS, HOST_NEAR = 1.0, 0.4
"""Host over device time of a micro-batch from which on the host binds, or may on another machine: hosts differ by two
and more, and so does what a runtime costs them."""
ANY = "any"
"""What a kind is judged by of which too few steps are known."""
SIGMAS = 1.2816
"""Standard deviations that leave a tenth of a normal distribution on one side."""


STRUCTURE = 0.1
"""Logarithm by which a step is off however well its chip is known: kernels and waits that no list has. Without it, what
was learned of chips with wide ranges made the intervals of a well-measured one too narrow."""


@dataclass(frozen=True, kw_only=True)
class Residual:
    """Of one kind of plan: by what the logarithm of either end of the interval is multiplied, and where that is from.

    An end's logarithm is what efficiencies admit and ``STRUCTURE`` in quadrature.

    ``memory_low``, ``memory_high``: measured over predicted peak, the tenth from below and from above.
    """

    low: float
    high: float
    memory_low: float
    memory_high: float
    source: str


@cache
def residuals() -> dict[str, Residual]:
    """Read what is known of each kind."""
    document = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return {name: Residual(**values) for name, values in document.items()}


def kind_of(scenario: Scenario, host_share: float) -> str:
    """Name the kind of a step: where it runs and who shares it, whether it has experts, whether the host binds.

    ``host_share``: host over device time of a micro-batch.
    """
    plan, training = scenario.plan, scenario.training
    if training.traits.published.recipes:
        words = ["tuned cluster"]
    elif plan.chips == 1:
        words = ["one device"]
    elif plan.tp * plan.cp * plan.pp > 1:
        words = ["split"]
    else:
        words = ["sharded" if plan.sharding in ("zero3", "fsdp") else "data parallel"]
    words += ["compiled"] if training.fused and words != ["tuned cluster"] else []
    words += ["experts"] if scenario.model.experts else []
    if host_share > HOST_NEAR:
        words.append("host binds" if host_share > HOST_BINDS else "host near")
    return ", ".join(words)


WAITS, WAITS_SOME = 0.1, 0.01
"""Share of a program's step that waits for the host where it binds, or may on another machine."""


def kind_of_program(ranks: int, waiting_frac: float) -> str:
    """Name the kind of a program's step, of which only its ranks and its waiting for the host are known."""
    words = ["one device" if ranks == 1 else "sharded"]
    if waiting_frac > WAITS_SOME:
        words.append("host binds" if waiting_frac > WAITS else "host near")
    return ", ".join(words)


def known(kind: str, found: Mapping[str, Residual] | None = None) -> Residual:
    """Return what is known (``found``: what else) of a kind; else the widest of what is known of its words.

    These are the nearest kind with fewer words, and each further word by itself, wherever the step runs.
    """
    found = residuals() if found is None else found
    words = kind.split(", ")
    count = next((count for count in range(len(words), 0, -1) if ", ".join(words[:count]) in found), 0)
    nearest = found[", ".join(words[:count]) if count else ANY]
    if count == len(words):
        return nearest
    several = [nearest, *(found[word] for word in words[count:] if word in found)]
    return replace(nearest, low=max(one.low for one in several), high=max(one.high for one in several))


def widened(seconds: float, ends: tuple[float, float], kind: str) -> tuple[float, float]:
    """Widen or narrow an interval about ``seconds`` s as its kind was off: by factor·√(ln²(end / s) + STRUCTURE²)."""
    one = known(kind)
    low, high = (math.hypot(math.log(max(end, 1e-3 * seconds) / seconds), STRUCTURE) for end in ends)
    return seconds * math.exp(-low * one.low), seconds * math.exp(high * one.high)


def memory_interval(peak_bytes: float, kind: str) -> tuple[float, float]:
    """The 80 % interval of a peak."""
    one = known(kind)
    return peak_bytes * min(one.memory_low, 1.0), peak_bytes * max(one.memory_high, 1.0)


def allocator_range(scenario: Scenario, moment: str, e: Efficiencies) -> Range | None:
    """The range of what the allocator holds over a peak of that moment."""
    return e.ranges.get(allocator_share(moment, scores=keeps_scores(scenario.training)))


def held_interval(reserved_bytes: float, kind: str, allocator: Range | None) -> tuple[float, float]:
    """The 80 % interval of what the allocator holds: that of the peak and of the allocator's share, in quadrature."""
    low, high = _held_logs(kind, allocator)
    return reserved_bytes * math.exp(low), reserved_bytes * math.exp(high)


def _held_logs(kind: str, allocator: Range | None) -> tuple[float, float]:
    """Logarithms of the ends of what is reserved, over what is predicted to be."""
    one = known(kind)
    low, high = math.log(min(one.memory_low, 1.0)), math.log(max(one.memory_high, 1.0))
    if allocator is not None:
        low = -math.hypot(low, math.log(allocator.value / allocator.low))
        high = math.hypot(high, math.log(allocator.high / allocator.value))
    return low, high


def out_of_memory_frac(
    reserved_bytes: float, capacity_bytes: float, kind: str, allocator: Range | None = None
) -> float:
    """Probability that a step needs more than there is: log-normal about what is reserved.

    Its tenths are those of the peaks of its kind, and of what the ``allocator`` holds beyond a peak, in quadrature.
    """
    low, high = _held_logs(kind, allocator)
    spread = (high - low) / (2 * SIGMAS)
    if reserved_bytes <= 0:
        return 0.0
    above = math.log(capacity_bytes / reserved_bytes) - (high + low) / 2
    if spread == 0:
        return float(above < 0)
    return 0.5 * math.erfc(above / spread / math.sqrt(2))
