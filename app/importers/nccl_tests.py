"""Results of nccl-tests and rccl-tests, as text or JSON (``-J``): one row and one collective for each size."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from app.importers.amounts import amount
from app.importers.bandwidth import bus_factor, collective_kind
from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.source import Source
from estimator.scenario.measurement import MeasuredCollective, Measurement, Origin, Warning

_PREFIX = re.compile(r"^\s{0,8}\[[\d,]{1,12}\]<std(?:out|err)>:\s?")
"""What mpirun puts before every line."""
_ROW = re.compile(
    r"^\s*(?P<size>\d{1,15})\s+(?P<count>\d{1,15})\s+(?P<type>[a-z]\w{1,15})\s+(?P<op>[a-z]\w{0,15})\s+(?P<root>-?\d{1,6})"
    r"(?P<rest>(?:\s+(?:[\d.]{1,20}(?:e[+-]?\d{1,3})?|N/A|nan|-nan|inf))+)\s*$"
)
_RANK = re.compile(r"#\s*Rank\s+\d{1,6}\b.{0,200}?device\s+\S{1,8}\s+\[[^\]]{1,20}\]\s+(?P<name>.{1,60}?)\s*$")
_TOOL = re.compile(
    r"(all_?reduce|all_?gather|reduce_?scatter|alltoall|all_to_all|broadcast|sendrecv|reduce|gather|scatter)_perf", re.I
)
_FIGURES = 4
"""Time, two bandwidths and the count of wrong values, of out-of-place and of in-place."""
_KINDS = {"reduce": "reduce", "gather": "gather", "scatter": "scatter"}
_RIGHT_FRAC = 0.02
_FACTORS = ("all-reduce", "all-gather", "broadcast")


def is_text(text: str) -> bool:
    """Whether a text is the output of one of these tools."""
    return bool(re.search(r"algbw\s+busbw", text)) and bool(re.search(r"#\s{1,40}size\s+count\s+type", text))


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Read all rows; raise ImportRefused where there is none."""
    text = source.read("nccl-tests").decode("utf-8", "replace")
    warnings: list[Warning] = []
    if text.lstrip().startswith("{"):
        rows, device, ranks, kind = _of_json(text)
    else:
        rows, device, ranks, kind = _of_text(text, filename)
    if not rows:
        raise ImportRefused(
            "nccl-tests", "", "it holds no row of sizes and times", "Upload the whole output of the test."
        )
    ranks = ranks or _ranks_of(rows)
    if not kind:
        kind, ground = _kind_of(rows, ranks)
        warnings.append(Warning(code="collective-inferred", message=ground))
    wrong = sum(bool(row.pop("wrong", 0)) for row in rows)
    if wrong:
        message = f"{wrong} rows have wrong values: the collective did not compute what it should"
        warnings.append(Warning(code="wrong-values", message=message))
    collectives = []
    for row in rows[: limits.rows]:
        row |= {"kind": kind, "backend": "nccl", "world_size": ranks}
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
    measurement = Measurement(
        label=filename[:200],
        # the rows of any table of collectives, so that they are predicted and drawn like one
        origin=Origin(kind="upload", format="text/collectives", producer="nccl-tests"),
        device={"name": device, "count": ranks} if device else {"count": ranks},
        world_size=max(1, ranks),
        rows=tuple(rows[: limits.rows]),
        collectives=tuple(collectives),
        warnings=tuple(warnings),
    )
    return Imported(measurements=(measurement,), warnings=tuple(warnings), skipped=max(0, len(rows) - limits.rows))


def _of_text(text: str, filename: str) -> tuple[list[dict[str, Any]], str, int, str]:
    rows: list[dict[str, Any]] = []
    names: list[str] = []
    for line in text.splitlines():
        plain = _PREFIX.sub("", line[:400])
        if found := _RANK.search(plain):
            names.append(found["name"])
        elif found := _ROW.match(plain):
            figures = found["rest"].split()
            if len(figures) < _FIGURES - 1:
                continue
            # more figures of each half (-I) or a time stamp (-S) stand behind these
            half = len(figures) // 2 if len(figures) >= 2 * _FIGURES else 0
            row = _row(int(found["size"]), found["type"], figures[:_FIGURES], figures[half : half + _FIGURES])
            rows += [row] if row else []
    tool = _TOOL.search(text) or _TOOL.search(filename)
    device = names[0] if names and len(set(names)) == 1 else ""
    return rows, device, len(names), _kind(tool[1]) if tool else ""


def _of_json(text: str) -> tuple[list[dict[str, Any]], str, int, str]:
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
        if isinstance(size, int) and 0 < size < 2**50 and (row := _row(size, str(one.get("type", "")), *halves)):
            rows.append(row)
    config = document.get("config") if isinstance(document.get("config"), dict) else {}
    devices = [one for one in _list(config, "devices") if isinstance(one, dict)]
    names = {str(one.get("name") or one.get("device_name") or "")[:60] for one in devices}
    program = " ".join(str(one)[:200] for one in _list(document, "args")[:1])
    tool = _TOOL.search(program)
    return rows, names.pop() if len(names) == 1 else "", len(devices), _kind(tool[1]) if tool else ""


def _row(size: int, dtype: str, outside: list[str], inside: list[str]) -> dict[str, Any] | None:
    seconds = (amount(outside[0]) or 0.0) * 1e-6
    if size < 1 or not 0 < seconds < 1e6:
        return None
    row: dict[str, Any] = {"size_bytes": float(size), "dtype": dtype[:16], "mean_s": seconds}
    if (in_place := (amount(inside[0]) or 0.0) * 1e-6) > 0:
        row["in_place_s"] = in_place
    row |= {"algorithm_bytes_per_s": size / seconds, "bus_bytes_per_s": (amount(outside[2]) or 0.0) * 1e9}
    row["wrong"] = sum(amount(half[3]) or 0.0 for half in (outside, inside) if len(half) == _FIGURES)
    return row


def _ranks_of(rows: list[dict[str, Any]]) -> int:
    """The count of ranks whose bus bandwidth is what was printed; 2(n − 1)/n tells it for an all-reduce alone."""
    ratios = [row["bus_bytes_per_s"] / row["algorithm_bytes_per_s"] for row in rows if row["size_bytes"] > 1e6]
    ratio = sorted(ratios)[len(ratios) // 2] if ratios else 1.0
    if 1.0 <= ratio < 2.0:
        return max(2, round(2.0 / (2.0 - ratio)))
    return max(1, round(1.0 / (1.0 - ratio))) if 0 < ratio < 1 else 1


def _kind_of(rows: list[dict[str, Any]], ranks: int) -> tuple[str, str]:
    large = max(rows, key=lambda row: float(row["size_bytes"]))
    ratio = large["bus_bytes_per_s"] / large["algorithm_bytes_per_s"]
    kind = min(_FACTORS, key=lambda one: abs(bus_factor(one, ranks) - ratio))
    close = abs(bus_factor(kind, ranks) - ratio) <= _RIGHT_FRAC
    ground = "its bus bandwidth is that of one" if close else "nothing says which it is"
    return kind, f"The output does not name its collective; it was read as {kind}, as {ground}"


def _kind(tool: str) -> str:
    plain = tool.lower()
    return collective_kind(plain) or _KINDS.get(plain, plain)


def _list(document: Any, key: str) -> list[Any]:
    found = document.get(key) if isinstance(document, dict) else None
    return found if isinstance(found, list) else []
