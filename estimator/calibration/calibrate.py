"""Calibrate: measurements of one device and host to its calibration, with what it rests on and what it gained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from estimator.calibration.collectives import OF_COLLECTIVES, collective_points, fit_collectives
from estimator.calibration.fit import (
    FEWEST,
    GroupErrors,
    fit,
    fit_tiles,
    median_frac,
    ratio_logs,
    split,
)
from estimator.calibration.host import PACES, host_ranges, pace_of
from estimator.calibration.points import GROUPS, Point, points_of, points_of_profile
from estimator.cost.calibration import OwnCounts, about
from estimator.cost.efficiency import SCHEMA_VERSION, Efficiencies, Range, Tiles, efficiencies, from_ranges
from estimator.scenario import catalog
from estimator.scenario.codec import encode
from estimator.scenario.hardware import Chip
from estimator.scenario.measurement import Measurement
from estimator.scenario.op_list import OpList
from estimator.scenario.problems import InputProblems, refusal
from estimator.scenario.units import counted

CONSTANTS: dict[str, tuple[str, ...]] = {
    "products": ("gemm_matrix_frac", "gemm_start_s", "gemm_overlap_power"),
    "tf32 products": ("gemm_tf32_frac", "gemm_tf32_outer_frac", "gemm_tf32_input_frac", "gemm_tf32_start_s"),
    "fp32 products": ("gemm_vector_frac", "gemm_vector_start_s", "gemm_split_factor"),
    "unaligned products": ("gemm_unaligned_frac",),
    "products in pairs": ("gemm_pairs_frac",),
    "products in fours": ("gemm_fours_frac",),
    "attention": ("attention_frac", "attention_half_length", "attention_half_width", "attention_backward_frac",
                  "attention_backward_half_length", "attention_backward_row_cycles"),
    "fp32 attention": ("attention_vector_frac", "attention_vector_half_length"),
    "contiguous kernels": ("memory_frac", "kernel_tail_s"),
    "norm kernels": ("norm_frac",),
    "column kernels": ("column_bytes_per_unit_cycle",),
    "strided kernels": ("strided_elements_per_unit_cycle",),
    "mixed kernels": ("mixed_elements_per_unit_cycle",),
    "optimizer": ("optimizer_tail_s",),
    "copies to the host": ("host_link_frac",),
    "copies of pageable memory": ("host_pageable_bytes_per_s",),
}  # fmt: skip
"""Which constants the points of a group may determine; a group is fitted with what those before it gave."""

ORDER = (
    "contiguous kernels", "norm kernels", "column kernels", "strided kernels", "mixed kernels", "optimizer",
    "copies to the host", "copies of pageable memory",
    "products", "tf32 products", "fp32 products", "unaligned products", "products in pairs",
    "products in fours", "attention", "fp32 attention",
)  # fmt: skip
assert set(ORDER) == set(CONSTANTS) == set(GROUPS)

TILED = {"products": "gemm_matrix_tiles", "tf32 products": "gemm_tf32_tiles", "fp32 products": "gemm_vector_tiles"}
LEAST_RESIDUAL_FRAC = 0.01
"""No constant is known better: clocks and temperatures move by as much from one day to the next."""
RESIDUALS = 1.5
"""About 80 % of normally distributed errors lie within so many medians of their size, rounded down."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A measurement by its file's or its own name, and its op list if it is a profile."""

    name: str
    measurement: Measurement
    ops: OpList | None = None


@dataclass(frozen=True, kw_only=True)
class Undetermined:
    """A constant that stays inherited, and why; ``note``: what of that is its own, apart as reasons are grouped."""

    constant: str
    reason: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What a set of measurements says of a device and its host; ``efficiencies`` are the base's where they say nothing.

    ``points``: how many each constant rests on. ``errors``: of points held back, by group, before and after.
    """

    name: str
    base: str
    device: str
    host: str
    made_from: tuple[str, ...]
    efficiencies: Efficiencies
    ranges: dict[str, Range]
    tables: dict[str, Tiles] = field(default_factory=dict)
    residuals_frac: dict[str, float] = field(default_factory=dict)
    points: dict[str, int] = field(default_factory=dict)
    errors: tuple[GroupErrors, ...] = ()
    undetermined: tuple[Undetermined, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)


def counted_by_points(points: Mapping[str, int], tables: int) -> OwnCounts:
    """What a calibration has of its own: what rests on no point was scaled."""
    measured = sum(count > 0 for count in points.values())
    return OwnCounts(measured=measured, scaled=len(points) - measured, tables=tables)


def calibrate(sources: Sequence[Source], name: str = "") -> Calibration:
    """Fit every constant that the measurements determine, and name those that they do not.

    Raises InputProblems where they are of several devices, of none that the catalogue knows, or say nothing at all, and
    where two are the same measurements, which are no further evidence.
    """
    _refuse_twice(sources)
    chip, key = _chip(sources)
    base = efficiencies(chip.efficiency)
    made_from = tuple(source.name for source in sources if _gives(source))
    left_out = {source.name: _lacks(source) for source in sources if not _gives(source)}
    by_group: dict[str, list[Point]] = {}
    for source in sources:
        found = points_of(source.measurement)
        for point in (*found, *(points_of_profile(source.ops) if source.ops is not None else ())):
            by_group.setdefault(point.group, []).append(point)
    ranges: dict[str, Range] = {}
    tables: dict[str, Tiles] = {}
    residuals: dict[str, float] = {}
    counts: dict[str, int] = {}
    errors: list[GroupErrors] = []
    undetermined: list[Undetermined] = []
    e = base
    for group in ORDER:
        points = by_group.get(group, [])
        kept, held = split(points)
        fitted, rests = fit(CONSTANTS[group], kept, chip, e)
        if group in TILED and len(kept) >= FEWEST and max(rests.values()) >= FEWEST:
            table = fit_tiles(TILED[group], kept, held, chip, fitted)
            if table is not None:
                tables[TILED[group]] = table
                fitted = replace(fitted, **{TILED[group]: table})  # type: ignore[arg-type]
        before, after = (median_frac(ratio_logs(held, chip, one)) for one in (e, fitted))
        better = not held or after < before
        residual = max(median_frac(ratio_logs(kept, chip, fitted)), LEAST_RESIDUAL_FRAC)
        for constant in CONSTANTS[group]:
            inherited = base.ranges[constant]
            if rests[constant] < FEWEST:
                undetermined.append(_too_few(constant, group, rests[constant], len(kept)))
            elif not better:
                reason = "a fit met the points held back no better than the inherited number"
                undetermined.append(Undetermined(constant=constant, reason=reason, note=group))
            elif getattr(fitted, constant) == inherited.value and constant != CONSTANTS[group][0]:
                reason = "the points are as well met without moving it"
                undetermined.append(Undetermined(constant=constant, reason=reason, note=group))
            else:
                value = getattr(fitted, constant)
                counts[constant], residuals[constant] = rests[constant], residual
                ranges[constant] = Range(
                    value=value,
                    low=value / (1 + RESIDUALS * residual),
                    high=value * (1 + RESIDUALS * residual),
                    unit=inherited.unit,
                    source=f"{', '.join(made_from)}: {counted(rests[constant], 'point')} of {group}",
                )
        if held:
            errors.append(
                GroupErrors(
                    group=group,
                    points=len(kept),
                    held_back=len(held),
                    before_frac=before,
                    after_frac=after if better else before,
                )
            )
        if not better:
            tables.pop(TILED.get(group, ""), None)
            continue
        e = fitted
    measurements = [source.measurement for source in sources]
    for own, missing in (
        host_ranges(measurements, base),
        fit_collectives(collective_points(measurements, key), base),
    ):
        ranges |= {constant: one.range for constant, one in own.items()}
        counts |= {constant: one.points for constant, one in own.items()}
        residuals |= {constant: one.residual_frac for constant, one in own.items()}
        undetermined += [Undetermined(constant=constant, reason=reason) for constant, reason in missing.items()]
    if not ranges:
        raise _nothing(sources, undetermined)
    host = _host(measurements)
    title = name or f"{chip.name or key}{f' on {host}' if host else ''}"
    device = str(sources[0].measurement.device.get("name", key))
    own_has = counted_by_points(counts, len(tables))
    made = from_ranges(title, ranges, tables, base, device=chip.name, about=about(device, host, own_has, base.name))
    return Calibration(
        name=title, base=chip.efficiency, device=device, host=host,
        made_from=made_from, efficiencies=made, ranges=ranges, tables=tables, residuals_frac=residuals, points=counts,
        errors=tuple(errors), undetermined=tuple(undetermined), left_out=left_out,
    )  # fmt: skip


def to_document(made: Calibration) -> dict[str, Any]:
    """A calibration as its file has it: what ``calibration_from_json`` reads, and what people ask of it."""
    return {
        "schema_version": SCHEMA_VERSION,
        "name": made.name,
        "base": made.base,
        "device": made.device,
        "host": made.host,
        "made_from": list(made.made_from),
        "ranges": {
            name: encode(one) | {"residual_frac": made.residuals_frac[name], "points": made.points[name]}
            for name, one in made.ranges.items()
        },
        "tables": {
            name: {
                "rows": [row for row, _, _ in table.tiles],
                "columns": [column for _, column, _ in table.tiles],
                "rate": [rate for *_, rate in table.tiles],
                "source": table.source,
            }
            for name, table in made.tables.items()
        },
        "errors": encode(made.errors),
        "undetermined": encode(made.undetermined),
    }


def _too_few(constant: str, group: str, depend: int, points: int) -> Undetermined:
    if not points:
        reason = "nothing of its kind was measured alone, for longer than the host needs to launch it"
        return Undetermined(constant=constant, reason=reason, note=group)
    reason = f"fewer than {FEWEST} points of its kind depend on it"
    return Undetermined(constant=constant, reason=reason, note=f"{depend} of {points}, {group}")


def _chip(sources: Sequence[Source]) -> tuple[Chip, str]:
    names = {str(source.measurement.device.get("name", "")): source.name for source in sources}
    names.pop("", None)
    given = ", ".join(dict.fromkeys(source.name for source in sources))
    on_cpu = [source.name for source in sources if _is_of_a_cpu(source)]
    if on_cpu:
        remedy = "Leave it out: this machine's CPU is measured where it is predicted for, and takes no calibration."
        raise refusal(", ".join(dict.fromkeys(on_cpu)), "made on a CPU", remedy)
    for source in sources:
        if source.ops is not None and source.ops.chip and not names:
            names[source.ops.chip] = source.name
    if not names:
        if not any(map(_holds_something, sources)):
            raise _nothing(sources)
        remedy = "Give one that says on which device it was made, as a result of `python -m runners probes` does."
        raise refusal(given, "no device is named", remedy)
    if len({catalog.chip(name).name for name in names}) > 1:
        remedy = "Calibrate each device by itself."
        of = "; ".join(f"{name} of {device}" for device, name in sorted(names.items()))
        raise refusal(given, f"several devices: {of}", remedy)
    key = next(iter(names))
    return catalog.chip(key), key


def _refuse_twice(sources: Sequence[Source]) -> None:
    """Raise InputProblems where two sources hold the same measurements, whatever their files are called."""
    for at, source in enumerate(sources):
        one = source.measurement
        for other in sources[:at]:
            same = replace(other.measurement, id=one.id, label=one.label, origin=one.origin)
            if same == one and other.ops == source.ops and _holds_something(source):
                names = source.name if source.name == other.name else f"{other.name}, {source.name}"
                remedy = "Give them once: the same again is no further evidence."
                raise refusal(names, "are the same measurements twice", remedy)


def _holds_something(source: Source) -> bool:
    """Whether a source has anything that constants are fitted to."""
    one = source.measurement
    launched = any(row.get("ladder") in ("launch", "runtime") for row in one.rows)
    return bool(launched or one.collectives or points_of(one) or (source.ops and points_of_profile(source.ops)))


def _gives(source: Source) -> bool:
    """Whether a calibration takes anything from a source: what it is fitted to, or how fast the host was."""
    return _holds_something(source) or any(pace_of([source.measurement], pace) for pace in PACES)


def _nothing(sources: Sequence[Source], undetermined: Sequence[Undetermined] = ()) -> InputProblems:
    """What to raise where no constant is determined: first of all, what such files lack."""
    given = list(dict.fromkeys(source.name for source in sources))
    exchanges = any(source.measurement.collectives for source in sources)
    held = any(map(_holds_something, sources))
    if exchanges:
        lacks = "; ".join(dict.fromkeys(one.reason for one in undetermined if one.constant in OF_COLLECTIVES))
    elif held:
        lacks = f"each needs {FEWEST} points of its own kind, and there are fewer"
    else:
        lacks = "; ".join(dict.fromkeys(map(_lacks, sources)))
    verb = "determines" if len(given) == 1 else "determine"
    remedy = "Give a result of `python -m runners probes`, a profile with shapes, or a table of NCCL tests."
    return refusal(", ".join(given), f"{verb} no constant: {lacks}", remedy)


def _lacks(source: Source) -> str:
    """What a source without anything to fit to has instead."""
    if source.ops is not None and source.ops.source == "trace":
        return "a traced program is not measured"
    if source.ops is not None:
        return "no op that the profile measured is long enough and known"
    if source.measurement.steps_s:
        return "whole steps say nothing of single kernels, launches or collectives"
    return "no kernels, launches or collectives were measured alone"


def _is_of_a_cpu(source: Source) -> bool:
    on = source.ops.chip if source.ops is not None else ""
    return source.measurement.device.get("kind") == "cpu" or on == catalog.THIS_CPU


def _host(measurements: Sequence[Measurement]) -> str:
    """The host as its environment says: processor and cores; "" where nothing does."""
    for one in measurements:
        cpu, cores = one.environment.get("cpu"), one.environment.get("cpu_count")
        if cpu:
            return f"{cpu}, {cores} cores" if cores else str(cpu)
    return ""
