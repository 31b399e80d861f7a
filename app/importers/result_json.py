"""Headroom's own results: one Measurement, a list of them, or what ``headroom import --json`` prints; beside them the
op lists of those that have one, as a page that is taken along holds them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.source import Source
from estimator.scenario.breakdown import CATEGORIES, MEMORY_KINDS, PHASES
from estimator.scenario.codec import decode
from estimator.scenario.measurement import SCHEMA_VERSION, STATUSES, Measurement, Warning
from estimator.scenario.op_list import from_json, to_json
from estimator.scenario.problems import InputProblems
from estimator.scenario.units import counted

_MOST_MEASUREMENTS = 10_000
_SHOWN_PROBLEMS = 3


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Read results exactly as they were written; raise ImportRefused naming the first fields that cannot be."""
    data = source.read("result")
    if source.damage:
        raise _refused("the end", f"the compressed file is {source.damage}", "Copy the file again, whole.")
    try:
        document = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _refused(_position(str(error)), f"this is not valid JSON ({_reason(str(error))})", _COPY_AGAIN) from None
    found, warnings, skipped = _parts(document)
    if not found:
        raise _refused("measurements", "there is no measurement in it", "Export a result again.")
    if len(found) > _MOST_MEASUREMENTS:
        raise _refused("measurements", f"{len(found):,} are more than {_MOST_MEASUREMENTS:,}", "Split the file.")
    single = len(found) == 1
    measurements = tuple(_measurement(one, "" if single else f"measurements[{i}]") for i, one in enumerate(found))
    if sum(len(one.rows) for one in measurements) > limits.rows:
        raise _refused("rows", f"there are more than {limits.rows:,} rows", "Split the file.")
    named = tuple(one if one.label else dataclasses.replace(one, label=filename[:200]) for one in measurements)
    ops = _op_lists(document, len(named))
    own = tuple(warning for one in named for warning in one.warnings if warning not in warnings)
    return Imported(measurements=named, warnings=(*warnings, *own), skipped=skipped, op_lists=ops)


_BESIDE = ("prediction", "expected", "proposed", "rows_by_status", "predicted_rows", "unpredicted")
"""What the server and ``headroom run`` add to a measurement that they show."""

_COPY_AGAIN = "Copy the file again, whole; a result is written in one piece when its run ends."


def _parts(document: Any) -> tuple[list[Any], tuple[Warning, ...], int]:
    if isinstance(document, list):
        return document, (), 0
    if not isinstance(document, dict):
        raise _refused("", "it holds no measurement", "Export a result again.")
    if "measurements" not in document:
        return [document], (), 0
    found, said, skipped = document["measurements"], document.get("warnings", []), document.get("skipped", 0)
    if not isinstance(found, list) or not isinstance(said, list):
        raise _refused("measurements", "measurements and warnings must be lists", "Export a result again.")
    warnings = tuple(_decoded(Warning, one, f"warnings[{i}]") for i, one in enumerate(said[:_MOST_MEASUREMENTS]))
    return found, warnings, skipped if isinstance(skipped, int) and 0 <= skipped < 2**31 else 0


def _op_lists(document: Any, count: int) -> tuple[dict[str, Any] | None, ...]:
    """Op lists in the order of the measurements, None for those without; checked as an op list's own file is."""
    given = document.get("op_lists") if isinstance(document, dict) and "measurements" in document else None
    if given is None:
        return ()
    if not isinstance(given, list) or len(given) > count:
        raise _refused("op_lists", "it must be a list, one for each measurement at most", "Export the page again.")
    try:
        return tuple(None if one is None else to_json(from_json(one)) for one in given)
    except InputProblems as error:
        first = error.problems[0]
        raise _refused(f"op_lists: {first.field[:60]}", first.message[:200], first.remedy[:300]) from None


def _measurement(data: Any, where: str) -> Measurement:
    if isinstance(data, dict):
        data = {name: value for name, value in data.items() if name not in _BESIDE}
    version = data.get("schema_version", SCHEMA_VERSION) if isinstance(data, dict) else SCHEMA_VERSION
    if isinstance(version, int) and version > SCHEMA_VERSION:
        message = f"it has schema version {version}, newer than {SCHEMA_VERSION}, the newest known here"
        raise _refused(f"{where}.schema_version".lstrip("."), message, "Update Headroom and import again.")
    found: Measurement = _decoded(Measurement, data, where)
    for place, wrong in _contradictions(found):
        raise _refused(f"{where}.{place}".lstrip("."), wrong, "Export a result again, or correct the field.")
    return found


def _contradictions(found: Measurement) -> list[tuple[str, str]]:
    """List what is well formed but impossible."""
    wrong = []
    if found.status not in STATUSES:
        wrong.append(("status", f"{found.status[:40]!r} is not one of {', '.join(STATUSES)}"))
    if found.world_size < 1 or not 0 <= found.rank < found.world_size:
        wrong.append(("rank", f"rank {found.rank} of {found.world_size} cannot be"))
    if any(seconds < 0 for seconds in found.steps_s):
        wrong.append(("steps_s", "a step cannot take negative time"))
    parts = (
        ("phases_s", found.phases_s, PHASES),
        ("breakdown_s", found.breakdown_s, CATEGORIES),
        ("memory.by_kind", found.memory.by_kind, MEMORY_KINDS),
    )
    for place, values, names in parts:
        unknown = sorted(set(values) - set(names))
        if unknown:
            wrong.append((place, f"{unknown[0][:40]!r} is not one of {', '.join(names)}"))
        if any(value < 0 for value in values.values()):
            wrong.append((place, "a part cannot be negative"))
    if any(kernel.count < 0 or kernel.total_s < 0 for kernel in found.kernels):
        wrong.append(("kernels", "counts and times cannot be negative"))
    return wrong


def _decoded(cls: type[Any], data: Any, where: str) -> Any:
    try:
        return decode(cls, data, where)
    except InputProblems as error:
        shown = error.problems[:_SHOWN_PROBLEMS]
        more = len(error.problems) - len(shown)
        message = "; ".join(f"{problem.field[:80]} {problem.message[:200]}" for problem in shown)
        rest = f", and {counted(more, 'more field')}" if more else ""
        raise _refused(shown[0].field[:80], f"{message}{rest}", shown[0].remedy[:300]) from None


def _position(message: str) -> str:
    words = message.rsplit("(byte ", 1)
    return f"byte {words[1].rstrip(')')}" if len(words) == 2 else ""


def _reason(message: str) -> str:
    return message.removeprefix("JSON is malformed: ").split(" (byte")[0]


def _refused(place: str, message: str, remedy: str) -> ImportRefused:
    return ImportRefused("result", place, message, remedy)
