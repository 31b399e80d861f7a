"""TensorBoard's event files (``events.out.tfevents.*``): the scalars of each step, and what a run says of itself.

A file is a run of records: length (8 bytes) and its checksum, content and its checksum (TFRecord,
tensorflow/core/lib/io/record_writer.h); each content a protobuf ``Event`` (tensorflow/core/util/event.proto), whose few
fields are read here by their numbers. Pictures, histograms and graphs are passed over.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.protobuf import fields, text
from app.importers.source import Source
from app.importers.text.trainers import json_lines, megatron
from app.importers.text.trainers.log import measurement, model_of
from app.importers.text.values.devices import candidates
from estimator.scenario.measurement import Measurement, Warning
from estimator.scenario.units import MIB

FORMAT = "tensorboard"
_MOST_BYTES = 512 * MIB
_WALL_S, _STEP, _SUMMARY = 1, 2, 5
"""Of an event."""
_VALUE = 1
"""Of a summary."""
_TAG, _SIMPLE, _TENSOR = 1, 2, 8
"""Of a value."""
_KIND, _CONTENT, _FLOATS, _DOUBLES, _TEXTS = 1, 4, 5, 6, 8
"""Of a tensor."""
_FLOAT, _DOUBLE, _TEXT = 1, 2, 7
"""Kinds of a tensor's numbers (tensorflow/core/framework/types.proto)."""
_HEAD = struct.Struct("<QI")
_CHECK_BYTES = 4
_OF_TEXT = "/text_summary"
_LONGEST_TEXT, _LONGEST_TAG = 200_000, 200
_MOST_TAGS = 400
_BESIDE = (" vs samples", " vs steps")
"""Megatron-LM writes its scalars twice, the second time by samples."""
_OWN_NAMES = {"time_metrics/end_to_end(s)": "step_time_s", "throughput(tps)": "tokens_per_s_per_gpu"}
"""Tags of torchtitan, whose rate is one GPU's (torchtitan/components/metrics.py)."""
_DOWNLOADED = b"Wall time,Step,Value"
"""The first line of what TensorBoard's page downloads of one scalar."""
_DOWNLOADED_TAG = re.compile(r"tag-(.{1,80}?)(?: ?\(\d+\))?\.csv$")
_REMEDY = "Copy the events.out.tfevents file again, whole, once the run is over."


def is_events(head: bytes) -> bool:
    """Whether a file begins with the record that names the version of event files."""
    return b"brain.Event:" in head[:64] or head.startswith(_DOWNLOADED)


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Read the steps of a run; raise ImportRefused where no scalar tells how long or how fast they were."""
    steps: dict[int, dict[str, Any]] = {}
    said: dict[str, Any] = {}
    content = source.read(FORMAT, _MOST_BYTES)
    whole = True
    try:
        csv_of_one = content.startswith(_DOWNLOADED)
        for wall_s, step, values in _downloaded(content, filename) if csv_of_one else map(_event, _records(content)):
            for tag, value in values:
                if isinstance(value, str):
                    said.setdefault(tag.removesuffix(_OF_TEXT), value)
                    continue
                if tag.endswith(_BESIDE) or (step not in steps and len(steps) >= limits.rows):
                    continue
                row = steps.setdefault(step, {"step": step})
                if len(row) < _MOST_TAGS:
                    row[_OWN_NAMES.get(tag, tag)] = value
                    row["_timestamp"] = wall_s
    except (ValueError, IndexError, struct.error, csv.Error):
        whole = False
    if not steps:
        message = "this event file of TensorBoard holds no scalars by step"
        raise ImportRefused(
            FORMAT, "", message, "Log the time of a step or tokens/s with add_scalar, and upload that file."
        )
    found = _run(steps, said, filename)
    if found is None:
        names = ", ".join(dict.fromkeys(name[:30] for row in steps.values() for name in list(row)[1:5]))
        message = f"its scalars ({names[:200]}) are of fewer than three steps, so that they give no step time"
        raise ImportRefused(FORMAT, "", message, "Log every few steps, and upload the file of the whole run.")
    if not whole:
        message = "The event file ends within a record, or is damaged; what stands before was read"
        warning = Warning(code="file-truncated", message=message, where="the end")
        found = replace(found, warnings=(warning, *found.warnings))
    return Imported(measurements=(found,), warnings=found.warnings)


def _run(steps: Mapping[int, dict[str, Any]], said: Mapping[str, Any], filename: str) -> Measurement | None:
    rows = [steps[number] for number in sorted(steps)]
    begin_s = min(row["_timestamp"] for row in rows)
    for row in rows:
        row["elapsed_s"] = row["_timestamp"] - begin_s
    settings, config = _settings(said)
    log = json_lines.of_objects(rows, settings, model_of(config))
    if log is None:
        return None
    scenario, world = megatron.scenario_of({name: str(value) for name, value in settings.items()})
    if scenario:  # whose arguments stand there one by one
        warnings = tuple(one for one in log.warnings if one.code != "settings-unsaid")
        log = replace(log, scenario=scenario, world_size=world, warnings=warnings)
    found = measurement(log, FORMAT, filename)
    found = replace(found, origin=replace(found.origin, format=FORMAT, producer="TensorBoard"))
    if (found.scenario or found.steps_s) and not found.device:
        found = replace(found, device={"candidates": candidates(found.rows, [])})
    return found


def _settings(said: Mapping[str, Any]) -> tuple[dict[str, Any], object]:
    """What texts say by name, and the configuration of a model, where one is one.

    The Trainer of Transformers writes both as JSON (``args``, ``model_config``), Megatron-LM a text for each argument.
    """
    found: dict[str, Any] = {}
    config: object = None
    for tag, value in said.items():
        document = _document(value)
        if tag == "model_config":
            config = document
        elif document:
            found |= document
        elif len(value) <= _LONGEST_TAG:
            found.setdefault(tag.replace("-", "_"), value)
    return found, config


def _document(value: str) -> dict[str, Any]:
    try:
        document = json.loads(value) if value.lstrip().startswith("{") else {}
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _records(content: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(content):
        length, _ = _HEAD.unpack_from(content, at)
        begin = at + _HEAD.size
        end = begin + length
        if end + _CHECK_BYTES > len(content):
            raise ValueError
        yield content[begin:end]
        at = end + _CHECK_BYTES


def _downloaded(content: bytes, filename: str) -> Iterator[tuple[float, int, list[tuple[str, float | str]]]]:
    """The same of a CSV of one scalar, whose tag is in the file's name (``run-train-tag-step_time.csv``)."""
    tag = found[1] if (found := _DOWNLOADED_TAG.search(filename)) else "value"
    for wall_s, step, value in itertools.islice(csv.reader(io.StringIO(content.decode("utf-8", "replace"))), 1, None):
        yield float(wall_s), int(step), [(tag, float(value))]


def _event(record: bytes) -> tuple[float, int, list[tuple[str, float | str]]]:
    """Seconds since 1970, step, and the scalars and texts of an event."""
    wall_s, step, values = 0.0, 0, []
    for number, part in fields(record):
        if number == _WALL_S and isinstance(part, bytes):
            (wall_s,) = struct.unpack("<d", part)
        elif number == _STEP and isinstance(part, int):
            step = part
        elif number == _SUMMARY and isinstance(part, bytes):
            values += [one for name, value in fields(part) if name == _VALUE and isinstance(value, bytes)
                       if (one := _value(value)) is not None]  # fmt: skip
    return (wall_s if math.isfinite(wall_s) else 0.0), step, values


def _value(message: bytes) -> tuple[str, float | str] | None:
    tag = ""
    number: float | str | None = None
    for name, part in fields(message):
        if name == _TAG and isinstance(part, bytes):
            tag = text(part)[:_LONGEST_TAG]
        elif name == _SIMPLE and isinstance(part, bytes):
            (number,) = struct.unpack("<f", part)
        elif name == _TENSOR and isinstance(part, bytes) and number is None:
            number = _tensor(part)
    if not tag or number is None or (isinstance(number, float) and not math.isfinite(number)):
        return None
    return tag, float(f"{number:.7g}") if isinstance(number, float) else number  # as many digits as fp32 has


def _tensor(message: bytes) -> float | str | None:
    """The only number of a tensor, or its first text; None of anything else."""
    kind, found = 0, dict[int, bytes]()
    for name, part in fields(message):
        if name == _KIND and isinstance(part, int):
            kind = part
        elif isinstance(part, bytes):
            found.setdefault(name, part)
    if kind == _TEXT and _TEXTS in found:
        return text(found[_TEXTS][:_LONGEST_TEXT])
    form, own = {_FLOAT: ("<f", _FLOATS), _DOUBLE: ("<d", _DOUBLES)}.get(kind, ("", 0))
    number = found.get(own) or found.get(_CONTENT) or b""
    return float(struct.unpack(form, number)[0]) if form and len(number) == struct.calcsize(form) else None
