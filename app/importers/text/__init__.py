"""Text tables: reports, logs and pasted tables, read by the form of each table and then by the words in its header."""

from __future__ import annotations

import re
from types import ModuleType

from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.source import Source
from app.importers.text import deepflow_log, tensor_log
from app.importers.text.kinds import (
    accumulation,
    all_reduce_blocks,
    all_reduce_lines,
    attention,
    attention_memory,
    compile_speedups,
    ddp_breakdown,
    ddp_lines,
    flash,
    generic,
    kernel_shares,
    layer_costs,
    measured_runs,
    op_sums,
    step_times,
    timings,
)
from app.importers.text.layout.document import Block, Document, Table, label
from app.importers.text.layout.scan import scan
from app.importers.text.reading import Decisions, compact
from app.importers.text.trainers import read as read_log
from app.importers.text.values.devices import candidates
from estimator.scenario.measurement import Measurement, Origin, Warning, any_measured

KINDS: tuple[ModuleType, ...] = (
    measured_runs,
    layer_costs,
    op_sums,
    flash,
    attention,
    attention_memory,
    compile_speedups,
    step_times,
    all_reduce_lines,
    all_reduce_blocks,
    ddp_lines,
    ddp_breakdown,
    kernel_shares,
    accumulation,
    timings,
    generic,
)
WHOLE = (read_log, tensor_log.read, deepflow_log.read)
"""Readers of texts that are one thing from end to end, before any is searched for tables."""
DEVICE_KINDS = {attention, attention_memory, compile_speedups, flash, step_times, all_reduce_lines, all_reduce_blocks,
                ddp_lines, ddp_breakdown, kernel_shares, op_sums, timings}  # fmt: skip
"""Kinds of tables that depend on the machine."""
PREDICTED_COLUMNS = {
    "part",
    "op",
    "traffic_forward_bytes",
    "communication_forward_kind",
    "total_backward_s",
    "share_frac",
}
"""Columns that together only ``estimator.estimate.layer_table`` writes."""
_HOST = re.compile(
    r"\s{0,100}((?:\d{1,3}(?:\.\d{1,3}){3}|localhost|(?=[\w.-]{0,60}[\d.-])[A-Za-z][\w.-]{0,60}"
    r"|\[\d{1,6},\d{1,6}\]<std(?:out|err)>):)[ \n]?"
)
"""A plain word is none: ``step: 1`` and ``forward: 1.2 ms`` are what a line says."""
_FEWEST_PREFIXED = 5
_REMEDY = (
    "Paste tables as text: Markdown pipes, columns aligned by spaces, CSV with a header line, or 'name: 1.23 ms' lines."
)


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Read every table of a text; raise ImportRefused where it holds none."""
    return read_text(_decoded(source), filename, limits, source.damage)


def read_text(text: str, filename: str, limits: Limits, damage: str = "") -> Imported:
    """Read every table of a text that is at hand; raise ImportRefused where it holds none."""
    text = _without_host(text)
    log = next((found for reader in WHOLE if (found := reader(text, filename)) is not None), None)
    if log is not None:
        warnings = _file_warnings(damage, Document(blocks=()))
        _check_size(len(log.rows), limits, 1)
        return Imported(measurements=(log,), warnings=(*warnings, *log.warnings))
    document = scan(text, limits.rows)
    _refuse_predictions(document)
    for block in document.blocks:
        _check_size(len(block.rows) if isinstance(block, Table) else 0, limits, block.line)
    groups: dict[tuple[tuple[str, ...], str], tuple[ModuleType, list[Block]]] = {}
    for block in document.blocks:
        kind = next((kind for kind in KINDS if kind.matches(block)), None)
        if kind is None:
            continue
        key = (block.around.heading, kind.__name__) if kind is not generic else (block.around.heading, str(block.line))
        groups.setdefault(key, (kind, []))[1].append(block)
    measurements, skipped = [], 0
    decisions = Decisions()
    warnings = _file_warnings(damage, document)
    for kind, blocks in groups.values():
        reading = kind.measure(blocks, document, decisions)
        skipped += reading.skipped
        said = compact(reading.warnings)
        if not reading.rows and not reading.samples:
            continue
        _check_size(len(reading.rows), limits, blocks[0].line)
        measurements.append(
            Measurement(
                label=(label(blocks[0]) or filename)[:200],
                origin=Origin(kind="upload", format=f"text/{kind.KIND}"),
                device=_device(kind, reading.rows, document),
                world_size=_world_size(reading.rows),
                rows=tuple(reading.rows),
                collectives=tuple(reading.collectives),
                kernels=tuple(sorted(reading.kernels, key=lambda one: -one.total_s)[: limits.kernels]),
                samples=reading.samples,
                environment=reading.environment,
                warnings=tuple(said),
                status="ok" if any_measured(reading.rows) else "oom",
            )
        )
    if not measurements:
        raise ImportRefused("text", "", "no table with figures was found in this text", _REMEDY)
    _share_softmax(measurements)
    warnings += step_times.mark_repeats([m for m in measurements if m.origin.format == f"text/{step_times.KIND}"])
    warnings += [warning for measurement in measurements for warning in measurement.warnings]
    return Imported(measurements=tuple(measurements), warnings=tuple(warnings), skipped=skipped)


def _refuse_predictions(document: Document) -> None:
    """Refuse a table of a layer's ops that Headroom wrote: taken for measured, it would agree with every prediction."""
    for block in document.blocks:
        if isinstance(block, Table) and set(block.columns) >= PREDICTED_COLUMNS:
            message = "this is Headroom's own prediction, op by op, not a measurement"
            remedy = "Import what was measured; the prediction stands in Explore under the same scenario."
            raise ImportRefused("table of a layer", f"line {block.line}", message, remedy)


def _decoded(source: Source) -> str:
    data = source.read("text")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):  # Windows PowerShell's redirection writes UTF-16
        return data.decode("utf-16", "replace")
    text = data.decode("utf-8-sig", "replace")
    if text.count("\ufffd") > 0.05 * len(text) or "\x00" in text:
        raise ImportRefused("binary", "", "this is neither text nor a known binary format", _REMEDY)
    return re.sub(r"\x1b\[[0-9;]{0,20}[A-Za-z]", "", text)


def _share_softmax(measurements: list[Measurement]) -> None:
    """The attention that one table of a text tells by its memory is the one that another one compares with."""
    kinds = {attention.KIND, attention_memory.KIND}
    tables = [m for m in measurements if m.origin.format.removeprefix("text/") in kinds]
    known = [row for m in tables for row in m.rows if row.get("memory_before_backward_bytes")]
    if not known or not all(row.get("softmax") == "written out" for row in known):
        return
    for other in measurements:
        if other.origin.format == f"text/{flash.KIND}":
            for row in other.rows:
                row.setdefault("softmax", "written out")


def _without_host(text: str) -> str:
    """What launchers put before every line (``10.0.0.7: ``, ``node3: ``, ``[1,0]<stdout>:``) is taken away."""
    found = _HOST.match(text)
    if found is None:
        return text
    lines = text.splitlines()
    prefix = found[1]
    if len(lines) < _FEWEST_PREFIXED or not all(line.startswith(prefix) for line in lines if line.strip()):
        return text
    return "\n".join(line[len(prefix) :].removeprefix(" ") for line in lines)


def _file_warnings(damage: str, document: Document) -> list[Warning]:
    found = []
    if damage:
        message = f"The compressed file is {damage}; the text up to there was read"
        found.append(Warning(code="file-truncated", message=message, where="the end"))
    if document.long_lines:
        message = f"{document.long_lines} lines of more than 20 000 characters were passed over"
        found.append(Warning(code="long-lines", message=message))
    return found


def _check_size(rows: int, limits: Limits, line: int) -> None:
    if rows > limits.rows:
        message = f"it has more rows than the limit of {limits.rows:,}"
        raise ImportRefused("text", f"line {line}", message, "Cut the table to the rows that matter, or average them.")


def _device(kind: ModuleType, rows: list[dict[str, object]], document: Document) -> dict[str, object]:
    """Which chips the table may be of: the file never says for certain, so the reader is asked."""
    found = candidates(rows, document.lines) if kind in DEVICE_KINDS else []
    return {"candidates": found} if found else {}


def _world_size(rows: list[dict[str, object]]) -> int:
    sizes = {row["world_size"] for row in rows if isinstance(row.get("world_size"), int)}
    only = sizes.pop() if len(sizes) == 1 else 1
    return only if isinstance(only, int) and only > 0 else 1
