"""Results of nccl-tests and rccl-tests, as text or JSON (``-J``): a measurement for each sweep, a row for each size.

A text may hold several sweeps, of several collectives. Columns are those of the header, which versions and collectives
write differently: ``redop`` and ``root`` only where there are such (before 2.12), ``error`` or ``#wrong``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from app.importers.amounts import amount
from app.importers.bandwidth import bus_factor, collective_kind
from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.source import Source
from estimator.scenario.measurement import MeasuredCollective, Measurement, Origin, Warning
from estimator.scenario.units import counted

_BEFORE = r"(?:#|^)\s{0,80}"
"""Pages that take a comment for a heading drop its sign."""
_HEADER = re.compile(_BEFORE + r"(?:(size)\s+count|bytes\s+N)\s+type\s+(\S.{10,300})$")
_ROW = re.compile(
    r"(?:^|[\s:>\]])(?P<size>\d{1,15})\s+(?P<count>\d{1,15})\s+(?P<type>[a-z]\w{1,15})\s+(?P<rest>\S.{8,300})$"
)
"""Behind whatever a launcher puts before its lines."""
_RANK = re.compile(
    _BEFORE + r"Rank\s+(?P<rank>\d{1,6})\b(?:\s+Group\s+(?P<group>\d{1,6}))?.{0,200}?"
    r"device\s+\S{1,8}\s+\[[^\]]{1,20}\]\s+(?P<name>.{1,60}?)\s*$"
)
_BEGINS = re.compile(_BEFORE + r"nThreads?:?\s+(\d{1,4})\s+nGpus:?\s+(\d{1,4})\b")
_TOOL = re.compile(
    r"(all_?reduce|all_?gather|reduce_?scatter|alltoall|all_to_all|broadcast|sendrecv|hypercube|reduce|gather|scatter)"
    r"_perf",
    re.I,
)
_WRONG = re.compile(_BEFORE + r"Out of bounds values\s{0,8}:\s{0,8}(\d{1,12})")
_FIGURE = re.compile(r"[\d.]{1,20}(?:e[+-]?\d{1,3})?", re.IGNORECASE)
_FIGURES = 4
"""Time, two bandwidths and the count of wrong values, of out-of-place and of in-place."""
_KINDS = {"reduce": "reduce", "gather": "gather", "scatter": "scatter"}
_REDUCING = {"all-reduce", "reduce-scatter", "reduce"}
_ROOTED = {"reduce", "broadcast", "gather", "scatter"}
_RIGHT_FRAC = 0.02
_MOST_SWEEPS, _LONGEST_LINE = 50, 600
_LARGE_BYTES = 1e6


@dataclass(kw_only=True)
class _Sweep:
    """The rows of one run, and what its head says."""

    tool: str = ""
    ranks: int = 0
    own: int = 1
    """Ranks of the process that printed."""
    device: str = ""
    rows: list[dict[str, Any]] = field(default_factory=list)
    reduces: bool | None = None
    rooted: bool | None = None
    """Whether its rows name an operation and a root; None where nothing tells."""
    wrong: int = 0


def is_text(text: str) -> bool:
    """Whether a text is the output of one of these tools."""
    return bool(re.search(r"algbw\s+busbw", text)) and bool(
        re.search(_BEFORE + r"(?:size\s+count|bytes\s+N)\s+type", text, re.MULTILINE)
    )


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Read all sweeps; raise ImportRefused where there is none."""
    text = source.read("nccl-tests").decode("utf-8", "replace")
    sweeps = _of_json(text) if text.lstrip().startswith("{") else _of_text(text, filename)
    sweeps = [one for one in sweeps if one.rows]
    if not sweeps:
        raise ImportRefused(
            "nccl-tests", "", "it holds no row of sizes and times", "Upload the whole output of the test."
        )
    kept = sweeps[:_MOST_SWEEPS]
    measurements, rows = [], 0
    for one in kept:
        measured = _measurement(one, filename, max(0, limits.rows - rows), alone=len(kept) == 1)
        rows += len(measured.rows)
        measurements.append(measured)
    skipped = sum(len(one.rows) for one in sweeps) - rows
    warnings = [warning for one in measurements for warning in one.warnings]
    if len(sweeps) > len(kept):
        message = f"Sweeps after the first {len(kept)} were left out: {len(sweeps) - len(kept):,}"
        warnings.append(Warning(code="sweeps-left-out", message=message))
    return Imported(measurements=tuple(measurements), warnings=tuple(warnings), skipped=skipped)


def _measurement(sweep: _Sweep, filename: str, most: int, *, alone: bool) -> Measurement:
    warnings: list[Warning] = []
    kind = _kind(sweep.tool) if sweep.tool else ""
    if kind and not _may_be(kind, sweep):
        kind = ""
    ranks = sweep.ranks or _ranks_of(sweep, kind) or sweep.own
    titled = collective_kind(filename)
    if not kind and titled and _may_be(titled, sweep) and abs(bus_factor(titled, ranks) - _ratio(sweep)) <= _RIGHT_FRAC:
        kind = titled
    if not kind:
        kind, ground = _kind_of(sweep, ranks)
        warnings.append(Warning(code="collective-inferred", message=ground))
    wrong = max(sum(bool(row.pop("wrong", 0)) for row in sweep.rows), int(sweep.wrong > 0))
    if wrong:
        message = f"Wrong values in {counted(wrong, 'row')}: the collective did not compute what it should"
        warnings.append(Warning(code="wrong-values", message=message))
    collectives = []
    rows = [{**row, "kind": kind, "backend": "nccl", "world_size": ranks} for row in sweep.rows[:most]]
    for row in rows:
        rate = row["size_bytes"] / row["mean_s"]
        collectives.append(
            MeasuredCollective(
                kind=kind,
                bytes=row["size_bytes"],
                ranks=ranks,
                seconds=row["mean_s"],
                algorithm_bytes_per_s=rate,
                bus_bytes_per_s=rate * bus_factor(kind, ranks),
            )
        )
    return Measurement(
        label=filename[:200] if alone else f"{filename[:150]}: {kind}, {counted(ranks, 'rank')}",
        # the rows of any table of collectives, so that they are predicted and drawn like one
        origin=Origin(kind="upload", format="text/collectives", producer="nccl-tests"),
        device={"name": sweep.device, "count": ranks} if sweep.device else {"count": ranks},
        world_size=max(1, ranks),
        rows=tuple(rows),
        collectives=tuple(collectives),
        warnings=tuple(warnings),
    )


def _of_text(text: str, filename: str) -> list[_Sweep]:
    sweeps = [*_sweeps(text)]
    named = {tool.lower() for tool in _TOOL.findall(text)} or {tool.lower() for tool in _TOOL.findall(filename)}
    only = named.pop() if len(named) == 1 else ""
    joined: list[_Sweep] = []
    for one in sweeps:
        sweep = replace(one, tool=one.tool or only)
        if joined and _goes_on(joined[-1], sweep):
            joined[-1].rows += sweep.rows
            joined[-1].wrong += sweep.wrong
        elif sweep.rows:
            joined.append(sweep)
    return joined


def _goes_on(before: _Sweep, after: _Sweep) -> bool:
    """Whether a sweep was run a size at a time."""
    same = (before.tool, before.ranks, before.device) == (after.tool, after.ranks, after.device)
    said = {(row["size_bytes"], row["dtype"]) for row in before.rows}
    return same and not any((row["size_bytes"], row["dtype"]) in said for row in after.rows)


def _sweeps(text: str) -> Iterator[_Sweep]:
    """Rows under each header, with the tool and the ranks that were named last before it."""
    sweep, columns, micro = _Sweep(), ["redop", "root", *["time", "algbw", "busbw", "#wrong"] * 2], True
    tool, own = "", 1
    names: dict[str, dict[int, str]] = {}
    for whole in text.splitlines():
        line = whole[:_LONGEST_LINE]
        if found := _RANK.search(line):
            names.setdefault(found["group"] or "", {})[int(found["rank"])] = found["name"]
        elif found := _HEADER.search(line):
            yield sweep
            columns, micro = found[2].lower().split(), bool(found[1])
            ranks, device = _ranks_named(names)
            sweep, tool = _Sweep(tool=tool, ranks=ranks, own=own, device=device), ""
        elif found := _BEGINS.search(line):
            names, own = {}, max(1, int(found[1]) * int(found[2]))
        elif found := _WRONG.search(line):
            sweep.wrong += int(found[1])
        elif hits := {hit.lower() for hit in _TOOL.findall(line)}:
            tool = hits.pop() if len(hits) == 1 else ""
        elif found := _ROW.search(line):
            _add(sweep, columns, found, 1e-6 if micro else 1e-3)
    yield sweep


def _ranks_named(names: dict[str, dict[int, str]]) -> tuple[int, str]:
    """Ranks of one communicator, and the device if all are of one kind; lines may have been cut out of the list."""
    if not names:
        return 0, ""
    ranks = max(names[""], default=-1) + 1 if set(names) == {""} else len(next(iter(names.values())))
    if len(names) == 1:
        ranks = max(next(iter(names.values()))) + 1
    kinds = {name for group in names.values() for name in group.values()}
    return ranks, kinds.pop() if len(kinds) == 1 else ""


def _add(sweep: _Sweep, columns: Sequence[str], found: re.Match[str], scale: float) -> None:
    cells = found["rest"].split()
    if "redop" in columns[:1] and _FIGURE.fullmatch(cells[0]):  # one that does not reduce leaves it empty
        columns = columns[1:]
    first = columns.index("time") if "time" in columns else 0
    if len(cells) < first + _FIGURES - 1 or not all(_FIGURE.fullmatch(one) for one in cells[first : first + 3]):
        return
    said = dict(zip(columns[:first], cells[:first], strict=False))
    # more figures of each half (-I) or a time stamp (-S) may stand behind these
    second = columns.index("time", first + 1) if "time" in columns[first + 1 :] else len(columns)
    if len(cells) > len(columns) + 2:
        second = first + (len(cells) - first) // 2
    halves = [cells[first : first + _FIGURES], cells[second : second + _FIGURES]]
    if columns[first + _FIGURES - 1 : first + _FIGURES] != ["#wrong"]:
        halves = [half[: _FIGURES - 1] for half in halves]  # how far the values are off, no count of wrong ones
    row = _row(int(found["size"]), found["type"], halves[0], halves[1], scale)
    if row is None:
        return
    operation = next((said[name] for name in ("redop", "op") if name in said), "none")
    sweep.reduces = operation != "none"
    sweep.rooted = said.get("root", "-1") != "-1"
    sweep.rows.append(row)


def _of_json(text: str) -> list[_Sweep]:
    """Its environment, which holds all of the machine's variables, is not looked at."""
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ImportRefused(
            "nccl-tests", "", f"this is not valid JSON ({error})", "Run the test again with -J."
        ) from None
    rows = []
    for one in _list(document, "results"):
        halves = []
        for name in ("out_of_place", "in_place"):
            half = one.get(name) if isinstance(one, dict) else None
            half = half if isinstance(half, dict) else {}
            halves.append([str(half.get(key, "nan")) for key in ("time", "alg_bw", "bus_bw", "nwrong")])
        size = one.get("size") if isinstance(one, dict) else None
        if (
            isinstance(size, int)
            and 0 < size < 2**50
            and (row := _row(size, str(one.get("type", "")), halves[0], halves[1]))
        ):
            rows.append(row)
    config = document.get("config") if isinstance(document.get("config"), dict) else {}
    devices = [one for one in _list(config, "devices") if isinstance(one, dict)]
    names = {str(one.get("name") or one.get("device_name") or "")[:60] for one in devices}
    program = " ".join(str(one)[:200] for one in _list(document, "args")[:1])
    tool = _TOOL.search(program)
    device = names.pop() if len(names) == 1 else ""
    return [_Sweep(tool=tool[1].lower() if tool else "", ranks=len(devices), device=device, rows=rows)]


def _row(size: int, dtype: str, outside: list[str], inside: list[str], scale: float = 1e-6) -> dict[str, Any] | None:
    seconds = (amount(outside[0]) or 0.0) * scale
    if size < 1 or not 0 < seconds < 1e6:
        return None
    row: dict[str, Any] = {"size_bytes": float(size), "dtype": dtype[:16], "mean_s": seconds}
    if inside and (in_place := (amount(inside[0]) or 0.0) * scale) > 0:
        row["in_place_s"] = in_place
    row |= {"algorithm_bytes_per_s": size / seconds, "bus_bytes_per_s": (amount(outside[2]) or 0.0) * 1e9}
    row["wrong"] = sum(amount(half[3]) or 0.0 for half in (outside, inside) if len(half) == _FIGURES)
    return row


def _ratio(sweep: _Sweep) -> float:
    """Printed bus bandwidth over size and time, of the rows that are long enough to have digits; 0 without any."""
    large = [row for row in sweep.rows if row["size_bytes"] > _LARGE_BYTES]
    ratios = sorted(row["bus_bytes_per_s"] / row["algorithm_bytes_per_s"] for row in large)
    return ratios[len(ratios) // 2] if ratios else 0.0


def _may_be(kind: str, sweep: _Sweep) -> bool:
    """Whether a collective has rows that reduce, and a root, as these do; where nothing tells, any may be."""
    reducing = sweep.reduces is None or sweep.reduces == (kind in _REDUCING)
    return reducing and (not sweep.rooted or kind in _ROOTED)


def _ranks_of(sweep: _Sweep, kind: str) -> int:
    """The count of ranks whose bus bandwidth is what was printed: 2(n − 1)/n of an all-reduce, (n − 1)/n of others that
    depend on it; 0 where nothing tells."""
    ratio = _ratio(sweep)
    if kind and bus_factor(kind, 2) == bus_factor(kind, 4):
        return 0
    if kind == "all-reduce" or (not kind and 1.0 <= ratio < 2.0 and _may_be("all-reduce", sweep)):
        return max(2, round(2.0 / (2.0 - ratio))) if 0 < ratio < 2 else 0
    return max(2, round(1.0 / (1.0 - ratio))) if 0 < ratio < 1 else 0


def _kind_of(sweep: _Sweep, ranks: int) -> tuple[str, str]:
    ratio = _ratio(sweep)
    kinds = [kind for kind in ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce", "p2p")
             if _may_be(kind, sweep) and sweep.rooted in (None, kind in _ROOTED)]  # fmt: skip
    kind = min(kinds or ["all-reduce"], key=lambda one: abs(bus_factor(one, ranks) - ratio) if ratio else 0)
    close = abs(bus_factor(kind, ranks) - ratio) <= _RIGHT_FRAC
    ground = "its bus bandwidth is that of one" if close else "nothing says which it is"
    return kind, f"The output does not name its collective; it was read as {kind}, as {ground}"


def _kind(tool: str) -> str:
    plain = tool.lower()
    return collective_kind(plain) or _KINDS.get(plain, plain)


def _list(document: Any, key: str) -> list[Any]:
    found = document.get(key) if isinstance(document, dict) else None
    return found if isinstance(found, list) else []
