"""Run cells: what the cells of a table that are no times say of a run: model, sizes, precision, GPUs, layout, rates."""

from __future__ import annotations

import re
from typing import Any

from app.importers.text.reading import FAILED
from app.importers.text.values import meaning
from app.importers.text.values.cells import cell
from app.importers.text.values.figures import Findings, count, keep, put
from app.importers.text.values.header import Column
from app.importers.text.values.models import common_name, model_of
from app.importers.text.values.precision import from_text
from app.importers.text.values.rates import rate_of
from app.importers.text.values.units import unit
from estimator.validation.spellings import (
    LONGEST_NAME,
    is_out_of_memory,
    mentions_out_of_memory,
    says_no,
    says_yes,
    sharding_of,
)

_NAME_WITH_SEQ = re.compile(r"(.{1,60}?)[_\- ]+(?:seq|ctx|len|s|t)[_=\-]?(\d{1,9})$", re.IGNORECASE)
COUNTS = (
    (meaning.SEQ_LEN, "seq_len"),
    (meaning.BATCH, "batch"),
    (meaning.GLOBAL_BATCH, "global_batch"),
    (meaning.MICRO_BATCH, "micro_batch"),
    (meaning.GPU_BATCH, "batch_per_gpu"),
    (meaning.ACCUMULATION, "gradient_accumulation"),
    (meaning.GPUS, "gpus"),
    (meaning.NODES, "nodes"),
    (meaning.GPUS_PER_NODE, "gpus_per_node"),
    *((names, degree) for degree, names in meaning.DEGREES.items()),
    (meaning.PARAMETERS, "parameters"),
)
_POWERS_OF_TWO = ("seq_len", "batch", "global_batch", "micro_batch", "batch_per_gpu")
"""Counts of which people write 8k for 8192."""
_SEVERAL_GPUS = re.compile(r"^(\d{1,7})(?:\s*[x×*]\s*|\s+)(?=[A-Za-z])|\s*(?<![A-Za-z])[x×*]\s*(\d{1,7})$")
_MOST_DIGITS = 7


def describe(row: dict[str, Any], column: Column, text: str, findings: Findings) -> None:
    """Write one cell that is no time: known columns under the scenario's words, others under their own names."""
    plain = text.strip("*` ")
    count_of = next((key for names, key in COUNTS if meaning.name_is(column, names)), "")
    rate = rate_of(column.header)
    what = meaning.quantity(column)
    if meaning.name_is(column, meaning.MODEL) and not _is_of_bytes(text):
        found = _NAME_WITH_SEQ.match(plain)
        row["model"] = common_name(found[1] if found else plain)
        if found:
            row["seq_len"] = int(found[2])
    elif meaning.name_is(column, meaning.PRECISION):
        if plain:
            row["precision"] = from_text(text)
    elif column.name in meaning.PRECISION_FLAGS and (says_yes(plain) or says_no(plain)):
        row.setdefault("precision", "fp32")
        if says_yes(plain):  # amp beside bf16 is autocast to that
            name = "bf16" if row["precision"].startswith("bf16") else column.name
            row["precision"] = meaning.PRECISION_FLAGS[name]
    elif meaning.name_is(column, meaning.GPU) and plain:
        _gpu(row, plain)
    elif count_of and (read := count(text, 1024.0 if count_of in _POWERS_OF_TWO else 1e3)) is not None:
        row[count_of] = int(read) if read == int(read) else read
        if read < 1 or read != int(read):
            findings.no_counts.setdefault(column.header, []).append(plain)
    elif rate:
        _rate(row, rate, text, findings)
    elif meaning.name_is(column, meaning.BATCH_TOKENS) and (tokens := cell(text)).value is not None:
        row["batch_tokens"] = count(text)
        row["_batch_tokens"] = tokens.text
    elif meaning.name_is(column, meaning.ZERO) and plain[-1:] in _ZERO_STAGES:
        row["sharding"] = _ZERO_STAGES[plain[-1]]
    elif meaning.name_is(column, meaning.SHARDING) and plain:
        row["sharding"] = plain
    elif column.name == "fsdp" and (says_yes(plain) or sharding_of(plain)):
        row["sharding"] = "fsdp" if says_yes(plain) else plain
    elif meaning.name_is(column, meaning.RECOMPUTE) and plain.lower() in meaning.RECOMPUTED:
        row["recompute"] = meaning.RECOMPUTED[plain.lower()]
    elif meaning.name_is(column, meaning.OPTIMIZER_KERNEL):
        if plain:
            row["optimizer_kernel"] = plain
    elif is_out_of_memory(column.name):
        row["oom"] = plain
    elif meaning.name_is(column, meaning.STATUS):
        oom = mentions_out_of_memory(plain)
        if FAILED.search(plain) or oom:
            row["status"] = plain
        findings.oom += oom
    elif what is not None and what.name.startswith(("peak_memory", "memory")):
        put(row, what.name, text, column, findings)
    elif column.name:
        keep(row, column.name, text, column, findings)
    row.pop("catalogue_model", None)
    if key := model_of(row):
        row["catalogue_model"] = key


_ZERO_STAGES = {"0": "ddp", "1": "zero1", "2": "zero2", "3": "zero3"}


def _rate(row: dict[str, Any], key: str, text: str, findings: Findings) -> None:
    """Write a rate as a float, whatever letter for thousands stands behind it."""
    read, value = cell(text), count(text)
    if read.missing:
        findings.oom += read.missing == "oom"
        findings.missing += read.missing != "oom" and read.text != ""
    row[key] = value if value is not None or read.missing else read.text


def _gpu(row: dict[str, Any], text: str) -> None:
    """Write which GPU a row ran on, and on how many where the same cell says so: ``8x H100``, ``H100 x8``, ``8``."""
    if text.isascii() and text.isdigit():
        row.setdefault("gpus", int(text[:_MOST_DIGITS]))
        return
    if text.lower() in ("cuda", "gpu"):
        row["device"] = text
        return
    if several := _SEVERAL_GPUS.search(text):
        row.setdefault("gpus", int(several[1] or several[2]))
        text = (text[: several.start()] + text[several.end() :]).strip()
    row["gpu"] = text[:LONGEST_NAME]


def _is_of_bytes(text: str) -> bool:
    """Whether a cell is the size of a file, 3.56 GiB, and not the name of a size, 7B."""
    read = cell(text)
    known = unit(read.unit) if read.value is not None and read.unit not in ("b", "B") else None
    return known is not None and known.suffix == "_bytes"
