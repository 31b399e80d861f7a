"""Residual: how far predictions were off on steps that they did not know, beside what their own efficiencies admit.

One law for all steps. An end of the 80 % interval of time is ``spread`` · admitted^``power`` from the prediction, as
logarithms, times a factor for each word of the step's kind, and times ``skew`` upwards, over it downwards.
catalog/residuals.toml has the numbers, fitted on sets of measured steps (``make accuracy ARGS=--residuals``).
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from estimator.cost.efficiency import Efficiencies, Range, probes_host
from estimator.memory.memory import allocator_share, keeps_scores
from estimator.scenario.hardware import Chip
from estimator.scenario.scenario import Scenario

FILE = Path(__file__).parents[1] / "catalog" / "residuals.toml"
COMPILED, EXPERTS, NEAR, BINDS, UNMET = "compiled", "experts", "host near", "host binds", "chip not met"
PROBED, PACED, KERNELS, LINKS = "host probed", "host paced", "kernels met", "links met"
TUNED = "tuned cluster"
WORDS = (TUNED, COMPILED, EXPERTS, NEAR, BINDS, PROBED, PACED, KERNELS, LINKS, UNMET)
"""What a kind says of a step beside where it runs, and its width follows.

``TUNED``: of a framework whose recipes others publish, with what they leave unsaid taken as theirs.
``PROBED``: its host is near or binds, and it is predicted by a calibration for which launches of that host were timed;
of a step that no host touches these say nothing. ``PACED``: so, and at the pace that was noted beside it. ``KERNELS``:
it is little but kernels that were met: on one device that no host keeps waiting, of a chip whose like several sources
measured so. ``LINKS``: the same of several devices under no such recipe, kernels and what these send each other.
``UNMET``: no source has measured its chip, or one alone."""
ONE_DEVICE = "one device"
UNRUN, STAGES = "framework not run", "stages"
MEMORY_WORDS = (UNRUN, STAGES)
"""What the width of a peak follows.

``UNRUN``: the runners do not run its framework; of those that they run, tensors are known one by one, of others what is
kept is read off their code, and what is published of their peaks leaves something open. ``STAGES``: of a framework that
they run, a pipeline's, where the schedule says what is held at once."""
HOST_BINDS, HOST_NEAR = 1.0, 0.4
"""Host over device time of a micro-batch from which on the host binds, or may on another machine: hosts differ by two
and more, and so does what a runtime costs them."""
SIGMAS = 1.2816
"""Standard deviations that leave a tenth of a normal distribution on one side."""


STRUCTURE = 0.1
"""Logarithm by which a step is off however well its chip is known: kernels and waits that no list has. Without it, what
was learned of chips with wide ranges made the intervals of a well-measured one too narrow."""


@dataclass(frozen=True, kw_only=True)
class TimeResidual:
    """Of times: ``spread``, an end's distance as a logarithm where efficiencies admit 1, grows by ``power`` of that.

    ``skew``: an upper end is as many times as far away as without it, a lower end one over it. ``words``: factors.
    """

    spread: float
    power: float
    skew: float
    words: Mapping[str, float]
    source: str

    def factor(self, kind: str) -> float:
        """Product of the factors of a kind's words; of a word that none is known of, 1."""
        return math.prod(self.words.get(word, 1.0) for word in kind.split(", "))


@dataclass(frozen=True, kw_only=True)
class MemoryResidual:
    """Of peaks: half an interval's width, as a logarithm, at 1 GB, and the power of the size that it falls with.

    ``words``: factors of ``MEMORY_WORDS``.
    """

    spread: float
    power: float
    words: Mapping[str, float]
    source: str


@dataclass(frozen=True, kw_only=True)
class Residuals:
    """What is known of predictions' errors; ``met``: chips that several sources measured, by the catalogue's keys.

    ``alike``: of them, by each word of ``ALIKE``, those of which several sources have steps like it.
    """

    time: TimeResidual
    memory: MemoryResidual
    met: frozenset[str]
    alike: Mapping[str, frozenset[str]]


@cache
def residuals() -> Residuals:
    """Read what is known."""
    document = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return Residuals(
        time=TimeResidual(**document["time"]),
        memory=MemoryResidual(**document["memory"]),
        met=frozenset(document["met"]["chips"]),
        alike={word: frozenset(document["met"][word]) for word in ALIKE},
    )


def known_of_host(e: Efficiencies, chip: Chip) -> str:
    """What a calibration knows of its host: its pace beside the step, launches that were timed before, or nothing."""
    if not probes_host(e, chip):
        return ""
    return PACED if e.host_paced else PROBED


def kind_of(scenario: Scenario, host_share: float, *, known: str = "") -> str:
    """Name the kind of a step: where it runs and who shares it, and which of ``WORDS`` are true of it.

    ``host_share``: host over device time of a micro-batch; ``known``: of the host, as ``known_of_host`` says.
    """
    plan, training = scenario.plan, scenario.training
    if training.traits.published.recipes:
        words = [TUNED]
    elif plan.chips == 1:
        words = [ONE_DEVICE]
    elif plan.tp * plan.cp * plan.pp > 1:
        words = ["split"]
    else:
        words = ["sharded" if plan.sharding in ("zero3", "fsdp") else "data parallel"]
    words += [COMPILED] if training.fused and TUNED not in words else []
    words += [EXPERTS] if scenario.model.experts else []
    if host_share > HOST_NEAR:
        words.append(BINDS if host_share > HOST_BINDS else NEAR)
    chip = scenario.cluster.chip.name
    words += _touched(words, known)
    words += [word for word, alike in ALIKE.items() if alike(words) and chip in residuals().alike[word]]
    return ", ".join(words + _unmet(chip))


def mere_kernels(words: Collection[str]) -> bool:
    """Whether a step of a kind runs on one device that its host does not keep waiting: nothing is sent or waited for.

    What a compiler makes of it, nobody has met.
    """
    return ONE_DEVICE in words and _unhindered(words)


def mere_links(words: Collection[str]) -> bool:
    """Whether a step of a kind runs on several devices that their hosts do not keep waiting, and under no recipe."""
    return ONE_DEVICE not in words and TUNED not in words and _unhindered(words)


def _unhindered(words: Collection[str]) -> bool:
    return BINDS not in words and COMPILED not in words


ALIKE = {KERNELS: mere_kernels, LINKS: mere_links}
"""Words that are true of steps of which several sources measured the like on the same chip, and of which kinds."""


def memory_kind_of(scenario: Scenario) -> str:
    """Name which of ``MEMORY_WORDS`` is true of a step; "" where none is."""
    if not scenario.training.traits.measurable:
        return UNRUN
    return STAGES if scenario.plan.pp > 1 else ""


WAITS, WAITS_SOME = 0.1, 0.01
"""Share of a program's step that waits for the host where it binds, or may on another machine."""


def kind_of_program(chip: str, ranks: int, waiting_frac: float, *, known: str = "") -> str:
    """Name the kind of a program's step, of which only its chip, its ranks and its waiting for the host are known."""
    words = [ONE_DEVICE if ranks == 1 else "sharded"]
    if waiting_frac > WAITS_SOME:
        words.append(BINDS if waiting_frac > WAITS else NEAR)
    return ", ".join(words + _touched(words, known) + _unmet(chip))


def _touched(words: Collection[str], known: str) -> list[str]:
    return [known] if known and (NEAR in words or BINDS in words) else []


def _unmet(chip: str) -> list[str]:
    return [] if chip in residuals().met else [UNMET]


def widened(
    seconds: float, ends: tuple[float, float], kind: str, known: TimeResidual | None = None
) -> tuple[float, float]:
    """Move an interval's ends about ``seconds`` s to spread·√(ln²(end / s) + STRUCTURE²)^power·words·skew^±1."""
    known = known or residuals().time
    low, high = (math.hypot(math.log(max(end, 1e-3 * seconds) / seconds), STRUCTURE) for end in ends)
    return seconds * math.exp(-width(low, kind, known, up=False)), seconds * math.exp(width(high, kind, known, up=True))


def width(admitted: float, kind: str, known: TimeResidual, *, up: bool) -> float:
    """How far an end is from the prediction, as a logarithm, where efficiencies and ``STRUCTURE`` admit as much."""
    skew = known.skew if up else 1 / known.skew
    return float(known.spread * admitted**known.power * known.factor(kind) * skew)


def peak_width(peak_bytes: float, kind: str, known: MemoryResidual | None = None) -> float:
    """How far either end of a peak's interval is from it, as a logarithm: words · spread / (peak / GB)^power."""
    known = known or residuals().memory
    return float(known.words.get(kind, 1.0) * known.spread * (max(peak_bytes, 1.0) / 1e9) ** -known.power)


def memory_interval(peak_bytes: float, kind: str, most_bytes: float = 0.0) -> tuple[float, float]:
    """The 80 % interval of a peak, which may be as high as ``most_bytes`` by what the scenario leaves unsaid."""
    far = peak_width(peak_bytes, kind)
    above = math.hypot(far, math.log(max(most_bytes, peak_bytes) / peak_bytes)) if peak_bytes > 0 else far
    return peak_bytes * math.exp(-far), peak_bytes * math.exp(above)


def allocator_range(scenario: Scenario, moment: str, e: Efficiencies) -> Range | None:
    """The range of what the allocator holds over a peak of that moment."""
    return e.ranges.get(allocator_share(moment, scores=keeps_scores(scenario.training)))


def held_interval(reserved_bytes: float, kind: str, allocator: Range | None) -> tuple[float, float]:
    """The 80 % interval of what the allocator holds: that of the peak and of the allocator's share, in quadrature."""
    low, high = _held_logs(reserved_bytes, kind, allocator)
    return reserved_bytes * math.exp(low), reserved_bytes * math.exp(high)


def _held_logs(reserved_bytes: float, kind: str, allocator: Range | None) -> tuple[float, float]:
    """Logarithms of the ends of what is reserved, over what is predicted to be."""
    far = peak_width(reserved_bytes, kind)
    if allocator is None:
        return -far, far
    below, above = math.log(allocator.value / allocator.low), math.log(allocator.high / allocator.value)
    return -math.hypot(far, below), math.hypot(far, above)


def out_of_memory_frac(
    reserved_bytes: float, capacity_bytes: float, kind: str, allocator: Range | None = None
) -> float:
    """Probability that a step needs more than there is: log-normal about what is reserved.

    Its tenths are those of peaks of its size, and of what the ``allocator`` holds beyond a peak, in quadrature.
    """
    if reserved_bytes <= 0:
        return 0.0
    low, high = _held_logs(reserved_bytes, kind, allocator)
    spread = (high - low) / (2 * SIGMAS)
    above = math.log(capacity_bytes / reserved_bytes) - (high + low) / 2
    if spread == 0:
        return float(above < 0)
    return 0.5 * math.erfc(above / spread / math.sqrt(2))
