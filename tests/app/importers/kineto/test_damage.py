"""Broken traces: what is whole is read and what is not is said; never an exception of ours, never a hang."""

from __future__ import annotations

import gzip
import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.importers.imported import ImportRefused
from tests.app.importers.kineto import made
from tests.app.importers.reading import REFERENCE, codes, gz, one, read, refusal

TEXT = json.dumps(made.trace(), indent=2)


@pytest.mark.parametrize("part", [0.3, 0.5, 0.77, 0.95])
def test_cut_files_keep_their_whole_events(tmp_path, part):
    imported = read(tmp_path, TEXT[: int(len(TEXT) * part)])
    assert {"file-truncated", "no-whole-step"} <= codes(imported)
    assert not {"single-step", "no-step-marks", "step-cut", "json-repaired"} & codes(imported)
    found = one(imported)
    assert found.kernels
    assert not found.steps_s
    assert not found.phases_s
    assert not found.breakdown_s
    assert found.memory.peak_bytes is None
    assert "step" not in found.environment


def test_a_file_cut_off_in_its_first_operations_is_no_step(tmp_path):
    """The first whole event may last as long as all steps, and nothing that happened in it be there."""
    text = json.dumps(
        {"schemaVersion": 1, "traceEvents": [made.op("aten::linear", 0.0, 1.99e6, 1, made.HOST, None)] * 2}
    )
    found = one(read(tmp_path, text[: text.rindex("name")]))
    assert (found.steps_s, found.breakdown_s) == ((), {})


def test_real_traces_cut_off_among_their_kernels_are_no_steps(tmp_path):
    """PyTorch writes kernels stream by stream, so that at four fifths of a file every step lacks the same ones."""
    whole = gzip.decompress((REFERENCE / "kineto" / "h200_ddp_amp.json.gz").read_bytes())
    found = one(read(tmp_path, whole[: len(whole) * 4 // 5]))
    assert found.kernels
    assert not found.steps_s
    assert len(one(read(tmp_path, whole)).steps_s) == 3


def test_a_compressed_file_without_its_last_bytes_has_all_its_steps(tmp_path):
    imported = read(tmp_path, gz(TEXT)[:-8])
    assert "file-truncated" in codes(imported)
    assert len(one(imported).steps_s) == 3


@pytest.mark.parametrize(
    "content", ['{"deviceProperties": [{"name": "NV', '{"schemaVersion": 1, "traceEvents": [{"ph": "M"}, {"ph"']
)
def test_a_file_cut_off_before_the_first_operation_says_so(tmp_path, content):
    refused = refusal(tmp_path, content)
    assert "cut off" in refused.message
    assert "whole" in refused.remedy


@pytest.mark.parametrize("part", [0.4, 0.7, 0.999])
def test_cut_compressed_files_too(tmp_path, part):
    data = gz(json.dumps(made.trace(steps=40)))
    imported = read(tmp_path, data[: int(len(data) * part)])
    assert "file-truncated" in codes(imported)
    assert one(imported).kernels


def test_damaged_compressed_data(tmp_path):
    data = bytearray(gz(json.dumps(made.trace(steps=400), indent=1)))
    data[len(data) * 3 // 4] ^= 0xFF
    imported = read(tmp_path, bytes(data))
    assert "file-truncated" in codes(imported)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("aten::linear", "aten::\x00lin\x01ear"),
        ("aten::linear", "C:\\model\\x.py"),
        ('"name": "aten::linear"', '"name": "aten::linear", "x": NaN, "y": -inf, "z": Infinity'),
    ],
)
def test_broken_json_is_repaired(tmp_path, old, new):
    imported = read(tmp_path, TEXT.replace(old, new))
    assert "json-repaired" in codes(imported)
    assert one(imported).steps_s == (pytest.approx(0.01),) * 3


def test_broken_utf8_is_repaired(tmp_path):
    assert "json-repaired" in codes(read(tmp_path, TEXT.encode().replace(b"aten::linear", b"aten::\xff\xfe")))


def test_a_broken_event_costs_only_itself(tmp_path):
    imported = read(tmp_path, TEXT.replace('"name": "process_name"', '"name" "process_name"'))
    assert "events-skipped" in codes(imported)
    assert imported.skipped == 1
    assert len(one(imported).kernels) == 5


def test_strings_that_look_like_the_border_between_events(tmp_path):
    document = made.trace()
    nasty = '}, {"ph": "X", "name": "]'
    document["traceEvents"][0]["args"]["name"] = nasty
    document["traceEvents"] += [{"ph": "i", "name": nasty, "ts": 1.0, "pid": nasty, "tid": 0}] * 5
    assert len(one(read(tmp_path, document)).kernels) == 5


def test_objects_inside_lists_of_objects(tmp_path):
    document = made.trace()
    for event in document["traceEvents"]:
        event.setdefault("args", {})["list"] = [{"name": 1}, {"name": 2}, {"ph": [{"ts": 3}]}]
    assert len(one(read(tmp_path, document)).kernels) == 5


def test_a_second_array_after_the_events(tmp_path):
    document = made.trace() | {"otherData": [{"name": f"x{i}", "ph": "X"} for i in range(100)]}
    assert len(one(read(tmp_path, document)).kernels) == 5


@pytest.mark.parametrize(
    "content",
    [
        '{"traceEvents": []}',
        '{"traceEvents": {}}',
        '{"schemaVersion": 1, "deviceProperties": []}',
        '{"traceEvents": [{"ph": "M", "name": "x"}]}',
        '{"traceEvents": [1, 2, 3]}',
        '{"traceEvents": [[[[',
        '{"traceEvents": ["',
        '[{"ph": "X"}]',
    ],
)
def test_traces_without_operations(tmp_path, content):
    assert refusal(tmp_path, content).format == "kineto"


def test_a_profile_that_was_exported_too_late_says_so(tmp_path):
    document = made.trace()
    document["traceEvents"] = [event for event in document["traceEvents"] if event["ph"] == "M"]
    document["traceEvents"] += [{"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 1.0}]
    assert "on_trace_ready" in refusal(tmp_path, document).remedy
    del document["schemaVersion"]
    assert "PyTorch" in refusal(tmp_path, document).message
    assert "on_trace_ready" in refusal(tmp_path, {"traceEvents": []}).remedy


def test_a_deep_event(tmp_path):
    deep = "[" * 100_000 + "]" * 100_000
    imported = read(tmp_path, TEXT.replace('"name": "process_name"', f'"deep": {deep}, "name": "process_name"'))
    assert len(one(imported).kernels) == 5


def test_a_deep_description(tmp_path):
    imported = read(
        tmp_path, TEXT.replace('"schemaVersion"', '"deep": ' + "[" * 100_000 + "]" * 100_000 + ', "schemaVersion"', 1)
    )
    assert "metadata-unreadable" in codes(imported)
    assert len(one(imported).kernels) == 5


def test_a_name_of_a_million_letters(tmp_path):
    document = made.trace()
    document["traceEvents"][2]["name"] = "aten::" + "x" * 1_000_000
    document["deviceProperties"][0]["name"] = "y" * 1_000_000
    imported = read(tmp_path, document)
    assert len(str(imported)) < 20_000


FIELDS = ("ph", "cat", "name", "ts", "dur", "pid", "tid", "args")
ARGUMENTS = ("External id", "correlation", "stream", "device", "Input Dims", "Input type", "Concrete Inputs",
             "Group size", "In msg nelems", "Out msg nelems", "dtype", "Collective name",
             "kernel_flop", "bytes")  # fmt: skip
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.lists(st.integers(-5, 10**12), max_size=4),
    st.lists(st.lists(st.integers(-1, 10**10), max_size=5), max_size=4),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.integers(0, 70), st.sampled_from(FIELDS + ARGUMENTS), VALUES), max_size=12))
def test_wrong_types_anywhere(tmp_path, changes):
    document = made.trace()
    for index, field, value in changes:
        event = document["traceEvents"][index % len(document["traceEvents"])]
        target = event if field in FIELDS else event.get("args")
        if isinstance(target, dict):
            target[field] = value
    _read_or_refuse(tmp_path, document)


HEADER = ("deviceProperties", "distributedInfo", "schemaVersion", "with_stack", "cuda_runtime_version", "traceName")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(field=st.sampled_from(HEADER), value=VALUES)
def test_wrong_types_in_the_description(tmp_path, field, value):
    _read_or_refuse(tmp_path, made.trace() | {field: value})
    nested = made.trace()
    for part in nested["deviceProperties"] + [nested["distributedInfo"]]:
        for key in part:
            part[key] = value
    _read_or_refuse(tmp_path, nested)


@pytest.mark.parametrize("seed", range(20))
def test_flipped_bytes(tmp_path, seed):
    rng = random.Random(seed)
    data = bytearray(TEXT.encode())
    for _ in range(rng.choice((1, 5, 100))):
        data[rng.randrange(len(data))] = rng.randrange(256)
    _read_or_refuse(tmp_path, data.decode("latin-1"))


def _read_or_refuse(folder, document):
    try:
        imported = read(folder, document)
    except ImportRefused as refused:
        said = refused
    else:
        _holds_together(imported)
        return
    assert said.message
    assert said.remedy


def _holds_together(imported):
    measurement = one(imported)
    assert all(seconds >= 0 for seconds in measurement.phases_s.values())
    assert sum(measurement.breakdown_s.values()) == pytest.approx(
        sum(measurement.phases_s.values()), rel=1e-6, abs=1e-9
    )
    assert all(kernel.count >= 0 and kernel.total_s >= 0 for kernel in measurement.kernels)
