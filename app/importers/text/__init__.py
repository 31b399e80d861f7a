"""Text tables: reports, logs and pasted tables, read by the form of each table and then by the words in its header."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Sequence
from types import ModuleType

from app.importers.imported import Headers, Imported, ImportRefused, Limits, SeenTable
from app.importers.source import Source
from app.importers.text import deepflow_log, listing, nvidia_smi, tensor_log, trainers
from app.importers.text.kinds import (
    accumulation,
    all_reduce_blocks,
    all_reduce_lines,
    attention,
    attention_memory,
    compile_speedups,
    ddp_breakdown,
    ddp_lines,
    ddp_tables,
    flash,
    generic,
    kernel_shares,
    layer_costs,
    measured_runs,
    op_sums,
    same_run,
    step_memory,
    step_times,
    timings,
)
from app.importers.text.layout.decimals import with_points
from app.importers.text.layout.document import Block, Document, Table, label
from app.importers.text.layout.scan import scan
from app.importers.text.reading import Decisions, compact
from app.importers.text.values.devices import candidates
from app.importers.text.values.figures import columns_of
from estimator.scenario import catalog
from estimator.scenario.measurement import Measurement, Origin, Warning, any_measured, chips_of_rows
from estimator.scenario.units import counted
from estimator.validation.spellings import chips_of_row

KINDS: tuple[ModuleType, ...] = (
    measured_runs,
    layer_costs,
    op_sums,
    flash,
    attention,
    attention_memory,
    compile_speedups,
    step_memory,
    step_times,
    all_reduce_lines,
    all_reduce_blocks,
    ddp_lines,
    ddp_breakdown,
    ddp_tables,
    kernel_shares,
    accumulation,
    timings,
    generic,
)
WHOLE: tuple[ModuleType, ...] = (trainers, tensor_log, deepflow_log)
"""Readers of texts that are one thing from end to end, before any is searched for tables."""
DEVICE_KINDS = {attention, attention_memory, compile_speedups, flash, step_memory, step_times, all_reduce_lines,
                all_reduce_blocks, ddp_lines, ddp_breakdown, ddp_tables, kernel_shares, measured_runs, op_sums,
                timings}  # fmt: skip
"""Kinds of tables that depend on the machine."""
VAGUE_KINDS = {generic, timings}
"""What lines of a log may be taken for: a log with more steps than those have rows is none of them."""
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
_MOST_ODD_FRAC = 0.05
"""Of a text's letters: a shared file system leaves zeros in the log of a job that several write, or that broke off."""
_ADAPTERS = re.compile(
    r"""(?<![a-z])q?lora(?![a-z])(?!\w{0,20}["']?\s?[:=]\s?(?:none|null|false|no|0)\b)""", re.IGNORECASE
)
_LOOKED_AT = 200_000
"""Letters of a log in which it may say that it trains adapters."""
_MOST_SEEN, _FEW_ROWS, _MOST_LETTERS = 50, 5, 80
"""Of a text's tables, their rows and their cells, where people look at what was read."""
_PROGRAM = re.compile(
    r"^(?:import|from) (?:torch\w*|transformers|lightning|accelerate|deepspeed|megatron|jax|flax)\b", re.MULTILINE
)
"""What a program that trains begins with; a traceback shows such lines indented."""
_NOTHING = "no table with figures was found in this text"
_REMEDY = (
    "Paste tables as text: Markdown pipes, columns aligned by spaces, CSV with a header line, or 'name: 1.23 ms', one"
    " to a line; or a log as it was printed: of Megatron, DeepSpeed, torchtitan, nanotron, Lightning, MLPerf, Hugging"
    " Face, or of any loop whose lines say a step and its time or rate, as in 'step 10 | loss 4.2 | 135 ms'."
)


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Read every table of a text; raise ImportRefused where it holds none."""
    text = listing.without(_decoded(source))
    if not nvidia_smi.begins(text):
        text = nvidia_smi.without(text) if nvidia_smi.holds(text) else text
        return read_text(text, filename, limits, source.damage, source.headers)
    try:
        return read_text(nvidia_smi.without(text), filename, limits, source.damage, source.headers)
    except ImportRefused as refused:
        if refused.message != _NOTHING:
            raise
        message = "nvidia-smi says how busy a device was, not how long its work took"
        remedy = "Upload a profile, or a log with the times of steps."
        raise ImportRefused("nvidia-smi", "byte 0", message, remedy) from None


def read_text(text: str, filename: str, limits: Limits, damage: str = "", headers: Headers | None = None) -> Imported:
    """Read every table of a text that is at hand; raise ImportRefused where it holds none."""
    text = _without_host(text)
    log = next((found for reader in WHOLE if (found := reader.read(text, filename)) is not None), None)
    if log is not None:
        return _as_log(log, text, limits, damage)
    document, in_commas = with_points(scan(text, limits.rows))
    document = _said(document, headers or {})
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
    tables = tuple(
        _seen(block, kind) for kind, blocks in groups.values() for block in blocks if isinstance(block, Table)
    )
    parts: list[str] = []
    begins: list[int] = []
    decisions = Decisions()
    warnings = [*_file_warnings(damage, document), *in_commas]
    for kind, blocks in groups.values():
        reading = kind.measure(blocks, document, decisions)
        skipped += reading.skipped
        said = compact(reading.warnings)
        if not reading.rows and not reading.samples:
            continue
        _check_size(len(reading.rows), limits, blocks[0].line)
        begins.append(blocks[0].line)
        parts.append(blocks[0].around.heading[0] if blocks[0].around.heading else "")
        measurements.append(
            Measurement(
                label=(label(blocks[0]) or filename)[:200],
                origin=Origin(kind="upload", format=f"text/{kind.KIND}"),
                device=_device(kind, reading.rows, document, blocks[0]),
                world_size=_world_size(reading.rows),
                rows=tuple(reading.rows),
                steps_s=same_run.steps_of_one_run(reading.rows) if kind is step_times else (),
                collectives=tuple(reading.collectives),
                kernels=tuple(sorted(reading.kernels, key=lambda one: -one.total_s)[: limits.kernels]),
                samples=reading.samples,
                environment=reading.environment,
                warnings=tuple(said),
                status="ok" if any_measured(reading.rows) else "oom",
            )
        )
    if {kind for kind, _ in groups.values()} == {generic} and (chart := _chart(document)):
        return _as_logs(chart, text, limits, damage)
    if {kind for kind, _ in groups.values()} == {generic} and (run := _run(document, filename)) is not None:
        return dataclasses.replace(_as_log(run, text, limits, damage), tables=tables)
    if {kind for kind, _ in groups.values()} <= VAGUE_KINDS:
        loop = trainers.read_loop(text, filename)
        if loop is not None and len(loop.rows) > sum(len(one.rows) for one in measurements):
            return _as_log(loop, text, limits, damage)
    if not measurements and _PROGRAM.search(text[:_LOOKED_AT]):
        message = "this is a Python program, not what it printed"
        remedy = (
            "Predict its step without a GPU: headroom trace SCRIPT.py --out ops.json, and import ops.json. Or run it,"
            " and import its profile or its log."
        )
        raise ImportRefused("program", "", message, remedy)
    if not measurements:
        raise ImportRefused("text", "", _NOTHING, _REMEDY)
    _share_softmax(measurements)
    measurements = _told_apart(measurements, begins)
    measurements = _same_machine(measurements, parts)
    warnings += same_run.mark_repeats([m for m in measurements if m.origin.format == f"text/{step_times.KIND}"])
    warnings += [warning for measurement in measurements for warning in measurement.warnings]
    if len(measurements) == 1:  # what is said of the file is said of all that came of it
        measurements = [dataclasses.replace(measurements[0], warnings=tuple(warnings))]
    return Imported(
        measurements=tuple(measurements),
        warnings=tuple(warnings),
        skipped=skipped,
        tables=tuple(sorted(tables, key=lambda table: table.line))[:_MOST_SEEN],
    )


def _run(document: Document, filename: str) -> Measurement | None:
    """The steps of a run, where the text has one table, with a row for each step."""
    tables = [block for block in document.blocks if isinstance(block, Table) and block.form != "statistics"]
    if len(tables) != 1 or len(document.blocks) > 1:
        return None
    table = tables[0]
    return trainers.read_columns(table.columns, table.rows, document.lines[: table.line - 1], filename)


def _chart(document: Document) -> list[Measurement]:
    """The runs of a chart of Weights & Biases, where the text is one."""
    tables = [block for block in document.blocks if isinstance(block, Table) and block.form == "delimited"]
    return trainers.read_chart(tables[0].columns, tables[0].rows) if len(tables) == len(document.blocks) == 1 else []


def _as_logs(logs: list[Measurement], text: str, limits: Limits, damage: str) -> Imported:
    each = [_as_log(log, text, limits, damage) for log in logs]
    return dataclasses.replace(
        each[0],
        measurements=tuple(one.measurements[0] for one in each),
        warnings=tuple(dict.fromkeys(warning for one in each for warning in one.warnings)),
    )


def _as_log(log: Measurement, text: str, limits: Limits, damage: str) -> Imported:
    """What was read of a text that is one thing from end to end; a chip is proposed where a step can be predicted."""
    _check_size(len(log.rows), limits, 1)
    if (log.scenario or log.steps_s) and not log.device:
        log = dataclasses.replace(log, device={"candidates": candidates(log.rows, text.splitlines())})
    if (log.scenario or log.steps_s) and _ADAPTERS.search(text[:_LOOKED_AT]):
        message = "The log names LoRA, which a scenario has not: its prediction is of a step that trains every weight"
        log = dataclasses.replace(log, warnings=(*log.warnings, Warning(code="adapters", message=message)))
    return Imported(measurements=(log,), warnings=(*_file_warnings(damage, Document(blocks=())), *log.warnings))


def _said(document: Document, headers: Headers) -> Document:
    """The document under the headers that people give its columns."""
    return dataclasses.replace(
        document,
        blocks=tuple(
            dataclasses.replace(block, columns=tuple(own.get(at, name) for at, name in enumerate(block.columns)))
            if isinstance(block, Table) and (own := headers.get(block.line))
            else block
            for block in document.blocks
        ),
    )


def _seen(table: Table, kind: ModuleType) -> SeenTable:
    return SeenTable(
        line=table.line,
        kind=kind.KIND,
        columns=table.columns,
        units=tuple(column.printed_unit for column in columns_of(table)),
        cells=tuple(tuple(text[:_MOST_LETTERS] for text in row) for row in table.rows[:_FEW_ROWS]),
        rows=len(table.rows),
    )


def _refuse_predictions(document: Document) -> None:
    """Refuse a table of a layer's ops that Headroom wrote: taken for measured, it would agree with every prediction."""
    for block in document.blocks:
        if isinstance(block, Table) and set(block.columns) >= PREDICTED_COLUMNS:
            message = "this is Headroom's own prediction, op by op, not a measurement"
            remedy = "Import what was measured; the prediction stands in Explore under the same scenario."
            raise ImportRefused("table of a layer", f"line {block.line}", message, remedy)


def _decoded(source: Source) -> str:
    text = source.read("text").decode("utf-8-sig", "replace")
    if any(text.count(odd) > _MOST_ODD_FRAC * len(text) for odd in ("\ufffd", "\x00")):
        raise ImportRefused("binary", "", "this is neither text nor a known binary format", _REMEDY)
    return re.sub(r"\x00|\x1b\[[0-9;]{0,20}[A-Za-z]", "", text)


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


def _told_apart(measurements: list[Measurement], begins: Sequence[int]) -> list[Measurement]:
    """Tables of one kind and name with the line where each begins behind it."""
    named = Counter((one.label, one.origin.format) for one in measurements)
    return [
        dataclasses.replace(one, label=f"{one.label[:180]}, line {line}")
        if named[one.label, one.origin.format] > 1
        else one
        for one, line in zip(measurements, begins, strict=True)
    ]


def _same_machine(measurements: list[Measurement], parts: list[str]) -> list[Measurement]:
    """Tables of one part of a text, under one outermost heading, ran on one machine: any that all of them may be of."""
    shared: dict[str, set[str]] = {}
    for one, part in zip(measurements, parts, strict=True):
        if found := {chip["chip"] for chip in one.device.get("candidates", [])}:
            shared[part] = shared.get(part, found) & found
    return [
        dataclasses.replace(one, device={"candidates": left})
        if (left := [chip for chip in one.device.get("candidates", []) if chip["chip"] in shared[part]])
        else one
        for one, part in zip(measurements, parts, strict=True)
    ]


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
        message = f"{counted(document.long_lines, 'line')} of more than 20 000 characters passed over"
        found.append(Warning(code="long-lines", message=message))
    return found


def _check_size(rows: int, limits: Limits, line: int) -> None:
    if rows > limits.rows:
        message = f"it has more rows than the limit of {limits.rows:,}"
        raise ImportRefused("text", f"line {line}", message, "Cut the table to the rows that matter, or average them.")


def _device(kind: ModuleType, rows: list[dict[str, object]], document: Document, block: Block) -> dict[str, object]:
    """What the table ran on where each row names it, else which chips it may be of, so that the reader is asked."""
    if kind not in DEVICE_KINDS:
        return {}
    named = [names[0] if len(names := chips_of_row(row)) == 1 else "" for row in rows]
    if not all(named) or not named:
        return {"candidates": candidates(rows, document.lines, block.around.heading)}
    return {"name": catalog.chip(named[0]).label} if len(set(named)) == 1 else {}


def _world_size(rows: list[dict[str, object]]) -> int:
    sizes = chips_of_rows(rows)
    return sizes.pop() if len(sizes) == 1 else 1
