"""Ablations: what each term of the model is worth on every set, and how much its fitted constants owe to each set."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import mean

from benchmarks.measured_sets import Case, source_of
from benchmarks.residuals import MOST_ROWS
from estimator.cost.efficiency import TABLES, Efficiencies, efficiencies, tiles
from estimator.estimate.estimate import Estimate, estimate
from estimator.scenario.breakdown import Category, Phase
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import Scenario

Change = Callable[[Efficiencies], Efficiencies]


@dataclass(frozen=True, kw_only=True)
class Term:
    """A term of the model, and how to do without it: other efficiencies, another plan, or seconds less."""

    name: str
    without: Change | None = None
    plan: Callable[[Scenario], Scenario] | None = None
    less_s: Callable[[Estimate], float] | None = None


def _with(**values: float) -> Change:
    return lambda e: replace(e, **values)  # type: ignore[arg-type]


def _untiled(e: Efficiencies) -> Efficiencies:
    smallest = tiles(((1, 1, 1.0),), "no tiles")
    return replace(e, **dict.fromkeys(TABLES, smallest))  # type: ignore[arg-type]


def _attention_as_products(e: Efficiencies) -> Efficiencies:
    plain = dict.fromkeys(("attention_frac", "attention_flash_frac", "attention_flash1_frac"), e.gemm_matrix_frac)
    lengths = dict.fromkeys((name for name in NAMES_OF_LENGTH), 0.0)
    backwards = dict.fromkeys(("attention_backward_frac", "attention_vector_backward_frac"), 1.0)
    others = {"attention_vector_frac": e.gemm_vector_frac, "attention_tile": 1.0}
    return replace(e, **plain, **lengths, **backwards, **others)  # type: ignore[arg-type]


NAMES_OF_LENGTH = (
    "attention_half_length", "attention_backward_half_length", "attention_vector_half_length", "attention_half_width",
    "attention_backward_half_width", "attention_vector_half_width", "attention_vector_backward_half_width",
    "attention_vector_row_cycles", "attention_vector_backward_row_cycles", "attention_vector_tail_blocks",
    "attention_row_cycles", "attention_backward_row_cycles", "attention_tail_blocks",
)  # fmt: skip


def _hostless(e: Efficiencies) -> Efficiencies:
    return replace(e, **{name: 0.0 for name in e.ranges if name.startswith("host_") and name.endswith("_s")
                         and not name.endswith("_per_s")})  # type: ignore[arg-type]  # fmt: skip


def _alone(e: Efficiencies) -> Efficiencies:
    return replace(e, **{name: e.ranges[name].high for name in ("gemm_matrix_frac", "gemm_vector_frac")})  # type: ignore[arg-type]


def _nothing_beside(scenario: Scenario) -> Scenario:
    plan = replace(scenario.plan, overlap=False, tp_overlap=False, ep_overlap=False)
    return replace(scenario, plan=plan)


TERMS = (
    Term(name="tiles and waves of products", without=_untiled),
    Term(name="products' rate inside steps, not the best alone", without=_alone),
    Term(name="results written behind multiplying, tiles that start late", without=_with(
        gemm_overlap_power=8.0, gemm_fill_depth=0.0, gemm_vector_fill_depth=0.0)),
    Term(name="the clock that a power limit leaves", without=_with(power_limit_w=0.0)),
    Term(name="matrix units slower in whole nodes than alone", without=_with(whole_node_factor=1.0)),
    Term(name="attention by implementation, width and length", without=_attention_as_products),
    Term(name="kernels other than products and attention",
         less_s=lambda one: one.breakdown_s[Category.ELEMENTWISE] + one.breakdown_s[Category.OPTIMIZER]),
    Term(name="strided kernels and mixed types", without=_with(
        strided_elements_per_unit_cycle=1e6, mixed_elements_per_unit_cycle=1e6, column_bytes_per_unit_cycle=1e6)),
    Term(name="rows gone over again by norms, softmax", without=_with(norm_frac=1.0, softmax_frac=1.0)),
    Term(name="what was just written, from the cache", without=_with(cache_kept_frac=1e-6)),
    Term(name="starts, tails and gaps of kernels", without=_with(
        gemm_start_s=0.0, gemm_tf32_start_s=0.0, gemm_vector_start_s=0.0, column_start_s=0.0, kernel_tail_s=0.0,
        kernel_gap_s=0.0, optimizer_tail_s=0.0, optimizer_wave_s=0.0,
        optimizer_chunk_s=0.0)),
    Term(name="the host's queue", without=_hostless),
    Term(name="communication", less_s=lambda one: one.phases_s[Phase.EXPOSED_COMMUNICATION]),
    Term(name="overlap of communication", plan=_nothing_beside),
    Term(name="products slowed by what runs beside", without=_with(contention_frac=0.0, contention_megatron_frac=0.0)),
    Term(name="latency of collectives", without=_with(
        collective_start_s=0.0, collective_rank_s=0.0, collective_ramp_s=0.0, host_collective_s=0.0)),
    Term(name="the pipeline's bubble", less_s=lambda one: one.phases_s[Phase.BUBBLE]),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A constant that was read off whole steps: ``names`` are scaled together.

    ``families``: names of the efficiencies, or chips of the calibrations, that have it; none: all do.
    """

    what: str
    names: tuple[str, ...]
    families: tuple[str, ...] = ()


HOPPER = ("hopper", "h100", "h100-sxm", "h20", "gh200", "h200-sxm", "h100-pcie", "h100-nvl", "h800-sxm")
"""Names of Hopper's efficiencies, and of its chips in calibrations."""
FITTED = (
    Fitted(
        what="matrix units' rate in whole nodes of H100",
        names=("whole_node_factor",),
        families=HOPPER,
    ),
    Fitted(
        what="products' rate inside steps on Hopper",
        names=("gemm_in_step_factor",),
        families=HOPPER,
    ),
    Fitted(
        what="starts of steps and of collectives on Hopper",
        names=("host_start_kernels", "collective_start_s"),
        families=HOPPER,
    ),
    Fitted(what="Megatron's host", names=("host_megatron_forward_s", "host_megatron_backward_s")),
    Fitted(what="host per blocking collective", names=("host_collective_s",)),
    Fitted(what="idle gap per kernel", names=("kernel_gap_s",)),
    Fitted(what="contention", names=("contention_frac",)),
)
"""Constants whose source in estimator/catalog/efficiencies names steps; every other one is of kernels and blocks alone,
what an op takes an eager host of the probes of 21 hosts."""
FACTORS = (0.7, 0.85, 1.0, 1.15, 1.4)
WORTH = 0.01
"""A constant leaves its shipped value only where the others' error falls by this share."""


def ablated(by_set: Mapping[str, Sequence[Case]]) -> list[str]:
    """The mean error of every source of steps with each term switched off."""
    groups: dict[str, list[Case]] = {}
    for name, found in by_set.items():
        groups.setdefault(source_of(name), []).extend(found)
    columns = ["as it is", *(term.name for term in TERMS)]
    rows = []
    for name, found in groups.items():
        plain = error_pct([predicted_s(case) for case in found], found)
        cells = [plain, *(error_pct([predicted_s(case, term) for case in found], found) for term in TERMS)]
        rows.append((name, cells))
    lines = [f"| without | {' | '.join(name for name, _ in rows)} |", "|---|" + "--:|" * len(rows)]
    for index, column in enumerate(columns):
        lines.append(f"| {column} | {' | '.join(_cell(cells[index], cells[0]) for _, cells in rows)} |")
    return lines


ASKED = 1.25
"""By what errors with constants of other sources may be larger than with those that ship."""


def _cell(value: float, plain: float, most: float = 1.1) -> str:
    """Percent, bold where more than ``most`` times the plain one."""
    shown = "–" if math.isnan(value) else f"{value:.1f}"
    return f"**{shown}**" if value > plain * most + 0.1 else shown


def predicted_s(case: Case, term: Term | None = None, change: Change | None = None) -> float:
    """Seconds of what was timed of a step, without a term; nan where it is then impossible, or no part of what was."""
    term = term or Term(name="")
    scenario = term.plan(case.scenario) if term.plan else case.scenario
    e = case.calibrated or efficiencies(scenario.cluster.chip.efficiency)
    change = change or term.without
    if change:
        e = _changed(change, e)
    try:
        one = estimate(scenario, replace_device(e), interval=False)
    except InputProblems:
        return math.nan
    waits = dict(one.host_wait_by_phase_s)
    if case.parts and term.less_s:
        return math.nan
    if case.parts:
        return sum(one.phases_s[part] + (waits[part] if case.waits else 0.0) for part in case.parts)
    seconds = one.step_time_s - (0.0 if case.waits else sum(waits.values()))
    return max(seconds - (term.less_s(one) if term.less_s else 0.0), 1e-9)


@cache
def replace_device(e: Efficiencies) -> Efficiencies:
    """The same for any chip."""
    return replace(e, device="")


@cache
def _changed(change: Change, e: Efficiencies) -> Efficiencies:
    return change(e)


def error_pct(predicted: Sequence[float], found: Sequence[Case]) -> float:
    """Mean of |predicted / measured − 1|, in percent."""
    errors = [abs(one / case.measured_s - 1) for one, case in zip(predicted, found, strict=True) if one == one]
    return 100 * mean(errors) if errors else math.nan


def held_out_constants(by_set: Mapping[str, Sequence[Case]]) -> list[str]:
    """The mean error of every set with each fitted constant chosen without that set's source, and without each model.

    Each constant takes, of ``FACTORS`` times its shipped value, the one with the least mean |log| error (a factor of
    two at most) over the other steps, no source weighing more than ``MOST_ROWS`` of them. Bold: ``ASKED``.
    """
    every = [(source_of(name), case) for name, found in by_set.items() for case in found]
    logs = {choice: _logs(every, choice) for choice in [(), *((i, f) for i in range(len(FITTED)) for f in FACTORS)]}
    lines = ["| set | as shipped | constants without its source | constants without each model |", "|---|--:|--:|--:|"]
    models = {case.scenario.model.name for _, case in every}
    without = {
        model: _chosen(logs, every, lambda _, case, model=model: case.scenario.model.name != model) for model in models
    }
    for name, found in by_set.items():
        source = source_of(name)
        own = _chosen(logs, every, lambda group, _, source=source: group != source)
        shipped = error_pct([predicted_s(case) for case in found], found)
        without_source = error_pct([predicted_s(case, change=_scaled(own)) for case in found], found)
        seconds = [predicted_s(case, change=_scaled(without[case.scenario.model.name])) for case in found]
        cells = [_cell(one, shipped, ASKED) for one in (without_source, error_pct(seconds, found))]
        lines.append(f"| {name} | {shipped:.1f} | {' | '.join(cells)} |")
    return lines


Choice = tuple[()] | tuple[int, float]
Logs = dict[Choice, list[float]]


def _logs(every: Sequence[tuple[str, Case]], choice: Choice) -> list[float]:
    factors = [1.0] * len(FITTED)
    if choice:
        factors[choice[0]] = choice[1]
    change = _scaled(tuple(factors))
    found = [abs(math.log(predicted_s(case, change=change) / case.measured_s)) for _, case in every]
    return [min(one, math.log(2)) for one in found]


def _chosen(logs: Logs, every: Sequence[tuple[str, Case]], counts: Callable[[str, Case], bool]) -> tuple[float, ...]:
    """The factor of each constant that fits the steps that count."""
    kept = [index for index, (group, case) in enumerate(every) if counts(group, case)]
    sizes: dict[str, int] = {}
    for index in kept:
        sizes[every[index][0]] = sizes.get(every[index][0], 0) + 1
    weights = [min(1.0, MOST_ROWS / sizes[every[index][0]]) for index in kept]

    def loss(choice: Choice) -> float:
        return sum(weight * logs[choice][index] for weight, index in zip(weights, kept, strict=True))

    found = []
    for constant in range(len(FITTED)):
        best = min(FACTORS, key=lambda factor, constant=constant: loss((constant, factor)))
        found.append(best if loss((constant, best)) < loss(()) * (1 - WORTH) else 1.0)
    return tuple(found)


@cache
def _scaled(factors: tuple[float, ...]) -> Change:
    def change(e: Efficiencies) -> Efficiencies:
        values: dict[str, float] = {}
        for one, factor in zip(FITTED, factors, strict=True):
            if not one.families or {e.name, e.device} & {*one.families}:
                values |= {name: min(getattr(e, name) * factor, 1.0 if name.endswith("_frac") else math.inf)
                           for name in one.names}  # fmt: skip
        return replace(e, **values)  # type: ignore[arg-type]

    return change
