"""Data-parallel step breakdowns: ``Total time per step``, forward, backward, gradient communication, optimizer."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from app.importers.bandwidth import bus_factor
from app.importers.text.kinds.step_prose import fill_in, model_said, said_before
from app.importers.text.layout.document import Block, Document, Fields, KeyValue, place
from app.importers.text.reading import Decisions, Reading, shared_warnings
from app.importers.text.values.cells import cell
from app.importers.text.values.figures import Findings, put, scaled, whole
from app.importers.text.values.header import Column, column
from app.importers.text.values.models import model_of
from estimator.scenario.measurement import Warning
from estimator.scenario.units import counted

KIND = "data-parallel-steps"
_NO_HEADER: Column = column("time")
_TIMES = {
    "step": ("total time",), "forward": ("forward",), "backward": ("backward",),
    "communication_wait": ("communication",), "optimizer": ("optimizer",),
}  # fmt: skip
_COUNTS = {
    "seq_len": ("sequence length",), "batch": ("batch size",), "world_size": ("world size",),
    "iterations": ("number of iterations",), "warmup": ("warmup",), "layers": ("num_layers",), "hidden": ("d_model",),
    "heads": ("num_heads",), "ffn": ("d_ff",), "parameters": ("total parameters",),
}  # fmt: skip
MODES = (
    ("naive", "naive"),
    ("no overlap", "naive"),
    ("flat", "flat"),
    ("bucket", "bucketed"),
    ("overlap", "overlapped"),
)
_SHARE = re.compile(r"([\d.]{1,20})\s*%")
_FP32_BYTES = 4
_FASTEST_LINK_BYTES_PER_S = 900e9
"""One direction of NVLink 5, the fastest link between two GPUs of the catalogue."""
_OUTPUT_NAME = re.compile(r"\s-o\s+(\S{1,200})|--output[= ](\S{1,200})")


def matches(block: Block) -> bool:
    """A block with the time of a whole step and of its parts, or the few lines of settings before one."""
    return isinstance(block, Fields) and (_is_result(block) or _is_preface(block))


def measure(blocks: list[Block], document: Document, decisions: Decisions) -> Reading:
    """Read all such blocks under one heading; settings printed before a block belong to it."""
    rows: list[dict[str, Any]] = []
    warnings: list[Warning] = []
    preface: list[Fields] = []
    for block in blocks:
        if not isinstance(block, Fields):
            continue
        preface.append(block)
        if _is_result(block):
            rows.append(_row(preface, warnings))
            warnings += said_in_text(rows[-1:], preface[0])
            preface = []
    if rows:
        warnings += _wait(rows, place(blocks[0]))
        warnings += shared_warnings(Findings(), rows, blocks)
    return Reading(rows=rows, warnings=warnings)


OF_A_RANK = ("seq_len", "batch", "precision", "world_size")
"""What the text before data parallel steps may say of them: the batch is each rank's."""


def said_in_text(rows: list[dict[str, Any]], block: Block) -> list[Warning]:
    """Give rows what the text before them says of model, sizes, precision and ranks, where they do not."""
    said = said_before(block)
    ranks = {"world_size": said.values["gpus"]} if "gpus" in said.values else {}
    return [
        *model_said(rows, block),
        *fill_in(rows, replace(said, values={**said.values, **ranks}), place(block), OF_A_RANK),
    ]


def _is_result(block: Fields) -> bool:
    return all(_timed(block, words) is not None for words in (("total time",), ("forward",), ("backward",)))


def _is_preface(block: Fields) -> bool:
    return block.get("warmup") is not None and block.get("model") is not None


def _timed(block: Fields, words: tuple[str, ...]) -> KeyValue | None:
    for entry in block.entries:
        key = entry.key.lower()
        of_rank = entry.group.lower().startswith("per-rank")
        if all(word in key for word in words) and not of_rank and re.search(r"\d\s*(?:ms|us|s)\b", entry.value):
            return entry
    return None


def _row(blocks: list[Fields], warnings: list[Warning]) -> dict[str, Any]:
    result = blocks[-1]
    row: dict[str, Any] = {}
    for block in blocks:
        _settings(row, block)
    for name, words in _TIMES.items():
        if (entry := _timed(result, words)) is not None:
            time, _, share = entry.value.partition("(")
            put(row, name, time, _NO_HEADER, Findings())
            if name == "communication_wait":
                _share(row, share, result)
    if key := model_of(row):
        row["catalogue_model"] = key
    command = "".join(line for block in blocks for line in block.around.before)
    if re.search(r"\bnsys\s+profile\b", command):
        row["profiled"] = True
        message = "This block ran under a profiler, which slows launches; compare it with others like it"
        warnings.append(Warning(code="profiled-run", message=message, where=place(result)))
    _name_check(row, command, place(result), warnings)
    row["status"] = "ok"
    return row


def _share(row: dict[str, Any], share: str, result: Fields) -> None:
    """How much of the step is communication: by a line of its own, which has more digits, else as beside its time."""
    overhead = result.get("communication", "overhead")
    for text in (overhead.value if overhead else "", share):
        if (found := _SHARE.match(text)) and (percent := cell(found[1]).value) is not None:
            row["communication_wait_frac"] = scaled(percent, 0.01)
            return


def _settings(row: dict[str, Any], block: Fields) -> None:
    for name, words in _COUNTS.items():
        entry = block.get(*words)
        if entry is not None and (count := whole(re.split(r"[\s(]", entry.value)[0])) is not None:
            row[name] = count
    for entry in block.entries:
        if entry.key.lower() in ("model", "model size"):
            row.setdefault("model", entry.value.strip())
        elif "implementation" in entry.key.lower() or "mode" in entry.key.lower().split():
            mode = next((name for word, name in MODES if word in entry.value.lower()), None)
            if mode:
                row["ddp_mode"] = mode


def _name_check(row: dict[str, Any], command: str, where: str, warnings: list[Warning]) -> None:
    """A file named after one variant while the run says another: the run's own word counts."""
    found = _OUTPUT_NAME.search(command)
    name = (found[1] or found[2]) if found else ""
    claims = [mode for word, mode in MODES if word in name.lower() and mode != row.get("ddp_mode")]
    if claims and "ddp_mode" in row:
        message = (
            f"The output file is named {name!r}, but the run says {row['ddp_mode']}; it counts as {row['ddp_mode']}"
        )
        warnings.append(Warning(code="name-contradicts-mode", message=message, where=where))


def _wait(rows: list[dict[str, Any]], where: str) -> list[Warning]:
    """Where the exchange would be faster than any link, the time is only the wait for its tail."""
    found = []
    for row in rows:
        wait, ranks, count = row.get("communication_wait_s"), row.get("world_size"), row.get("parameters")
        if not wait or not ranks or not count:
            continue
        rate = bus_factor("all-reduce", ranks) * count * _FP32_BYTES / wait
        if rate > _FASTEST_LINK_BYTES_PER_S:
            found.append(rate)
            if "ddp_mode" not in row:
                row["ddp_mode"] = "overlapped"
                row["ddp_mode_inferred"] = True
    if not found:
        return []
    message = (
        f"'Gradient communication' of {counted(len(found), 'row')} is the wait for what was not hidden, not the "
        f"exchange: all gradients in that time would be {max(found) / 1e9:.0f} GB/s, more than any link. Such a row "
        "overlaps communication with backward, whatever it says"
    )
    return [Warning(code="gradient-communication-is-wait", message=message, where=where)]
