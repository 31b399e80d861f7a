"""Calibration: the document that holds a device's and a host's efficiencies, as a file or a request says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from estimator.cost.efficiency import (
    NAMES,
    SCHEMA_VERSION,
    TABLES,
    Efficiencies,
    Range,
    TileColumns,
    efficiencies,
    families,
    from_columns,
    from_ranges,
)
from estimator.scenario import catalog
from estimator.scenario.codec import decode, unknown_keys
from estimator.scenario.own_file import own_file
from estimator.scenario.problems import InputProblems, Problem, refusal
from estimator.scenario.units import counted

FAMILIES = tuple(sorted(families()))
KEYS = ("schema_version", "name", "base", "device", "host", "ranges", "tables", "made_from", "errors", "undetermined")
MORE = ("residual_frac", "points")
"""What `headroom calibrate` notes of a constant beside its range."""


def calibration_from_json(document: object, name: str) -> Efficiencies:
    """Read {name, base, device, host, ranges: {constant: Range}, tables: {table: TileColumns}}.

    What it leaves out is the base family's. ``name``: where the document has none. Raises InputProblems.
    """
    if not isinstance(document, Mapping) or not isinstance(document.get("ranges"), Mapping):
        raise _no_calibration(document, name)
    problems = unknown_keys("", document, KEYS)
    if document.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        remedy = f"This version reads {SCHEMA_VERSION}; calibrate again."
        problems.append(Problem(field="schema_version", message="is of another version", remedy=remedy))
    base = document.get("base", "default")
    if base not in FAMILIES:
        remedy = f"One of: {', '.join(FAMILIES)}."
        problems.append(Problem(field="base", message=f"{base!r} is not known", remedy=remedy))
    given_ranges, given_tables = document["ranges"], document.get("tables") or {}
    if not isinstance(given_tables, Mapping):
        remedy = 'Write {"gemm_matrix_tiles": {"rows", "columns", "rate", "source"}}, or leave it out.'
        problems.append(Problem(field="tables", message="must be a JSON object", remedy=remedy))
        given_tables = {}
    problems += unknown_keys("ranges", given_ranges, NAMES) + unknown_keys("tables", given_tables, TABLES)
    ranges: dict[str, Range] = {}
    for key in (key for key in NAMES if key in given_ranges):
        try:
            ranges[key] = _range(key, given_ranges[key])
        except InputProblems as error:
            problems += error.problems
    tables = {}
    for key in (key for key in TABLES if key in given_tables):
        try:
            columns = decode(TileColumns, given_tables[key], f"tables.{key}")
        except InputProblems as error:
            problems += error.problems
            continue
        if not (len(columns.rows) == len(columns.columns) == len(columns.rate) > 0):
            message, remedy = "its columns must be of one length, and not empty", "Give each tile rows, columns, rate."
            problems.append(Problem(field=f"tables.{key}", message=message, remedy=remedy))
        elif min(*columns.rows, *columns.columns, *columns.rate) <= 0:
            remedy = "Give positive numbers."
            problems.append(Problem(field=f"tables.{key}", message="must be above 0", remedy=remedy))
        else:
            tables[key] = from_columns(columns)
    if problems:
        raise InputProblems(problems)
    device, host = str(document.get("device", "")), str(document.get("host", ""))
    counts = own_counts(given_ranges, len(tables))
    return from_ranges(
        str(document.get("name", name)), ranges, tables, efficiencies(base), device=chip_named(device),
        about=about(device, host, counts, str(base)),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class OwnCounts:
    """What a calibration has of its own: constants measured, those moved along with them, tables of tiles."""

    measured: int
    scaled: int = 0
    tables: int = 0


def own_counts(ranges: Mapping[str, Any], tables: int) -> OwnCounts:
    """Count what a document has; what was not probed was scaled, and rests on no point."""
    scaled = sum(one.get("points", 1) == 0 for one in ranges.values())
    return OwnCounts(measured=len(ranges) - scaled, scaled=scaled, tables=tables)


def _no_calibration(document: object, name: str) -> InputProblems:
    """What to raise of a file that is no calibration: what it is, if it is one of Headroom's own, and where it goes."""
    own = own_file(document) if isinstance(document, Mapping) else None
    if isinstance(document, Mapping) and ("rows" in document or (own and own.kind == "measurement")):
        remedy = "Give it to `headroom calibrate`, and what that writes here."
        return refusal(name, "this is a measurement, no calibration", remedy)
    if own is not None and own.kind != "calibration":
        remedy = f"{own.belongs} A calibration is what `headroom calibrate` writes."
        return refusal(name, f"this is {own.called}, no calibration", remedy)
    remedy = 'Write {"ranges": {"gemm_matrix_frac": {"value", "low", "high", "unit", "source"}}}.'
    return refusal(name, "has no object 'ranges'", remedy)


def chip_named(device: str) -> str:
    """The catalogue's key of a device's name, or the name itself where the catalogue lacks it."""
    try:
        return catalog.chip(device).name if device else ""
    except InputProblems:
        return device


def about(device: str, host: str, own: OwnCounts, base: str) -> str:
    """Say what a calibration rests on."""
    where = f" on {device}" if device else ""
    of_host = f", host {host}" if host else ""
    tables = f" and {counted(own.tables, 'table')} of tiles" if own.tables else ""
    scaled = f", {own.scaled} scaled along" if own.scaled else ""
    measured = f"{own.measured} of their constants{tables} were measured{where}{of_host}{scaled}"
    return f"{measured}; the others are those of {base}."


def _range(name: str, given: object) -> Range:
    if isinstance(given, Mapping):
        given = {key: value for key, value in given.items() if key not in MORE}
    found = decode(Range, given, f"ranges.{name}")
    if not 0 <= found.low <= found.value <= found.high:
        message = "must lie between its low and its high, and neither below 0"
        remedy = "Order them: low, value, high."
        raise InputProblems([Problem(field=f"ranges.{name}.value", message=message, remedy=remedy)])
    return found
