from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.importers.imported import ImportRefused
from estimator.scenario.codec import encode
from estimator.scenario.measurement import Kernel, MeasuredCollective, MeasuredMemory, Measurement, Origin, Warning
from tests.app.importers.reading import gz, read, refusal
from tests.odd_json import SCALARS, documents

ROOT = Path(__file__).parents[3]
RESULT = Measurement(
    label="my run",
    origin=Origin(kind="run", format="step", producer="headroom", version="0.1.0"),
    device={"name": "NVIDIA H200", "count": 2},
    world_size=2,
    scenario={"model": "gpt2", "training": {"seq_len": 1024}},
    steps_s=(0.1, 0.11),
    phases_s={"forward": 0.03, "backward": 0.06, "optimizer": 0.01},
    breakdown_s={"matmul": 0.08, "host": 0.02},
    kernels=(Kernel(name="gemm", category="matmul", count=3, total_s=0.08, flops=1e12, bytes=2e9),),
    collectives=(MeasuredCollective(kind="all-reduce", bytes=1e6, ranks=2, seconds=1e-3),),
    memory=MeasuredMemory(peak_bytes=5e9, reserved_bytes=6e9, by_kind={"parameters": 1e9}),
    rows=({"model": "gpt2", "step_s": 0.1},),
    environment={"torch": "2.13.0"},
    warnings=(Warning(code="few-steps", message="two steps"),),
    samples={"step_s": [0.1, 0.11]},
)
DOCUMENT = encode(RESULT)


def test_one_result_comes_back_as_it_was(tmp_path):
    for content in (json.dumps(DOCUMENT), b"\xef\xbb\xbf" + json.dumps(DOCUMENT).encode(), gz(json.dumps(DOCUMENT))):
        imported = read(tmp_path, content)
        assert imported.measurements == (RESULT,)
        assert imported.warnings == RESULT.warnings
        assert imported.skipped == 0


def test_lists_and_bundles(tmp_path):
    assert read(tmp_path, [DOCUMENT, DOCUMENT]).measurements == (RESULT, RESULT)
    said = {"code": "x", "message": "y", "where": "z"}
    bundle = read(tmp_path, {"measurements": [DOCUMENT], "warnings": [said], "skipped": 3})
    assert bundle.measurements == (RESULT,)
    assert bundle.warnings == (Warning(**said), *RESULT.warnings)
    assert bundle.skipped == 3


def test_a_result_without_a_label_takes_the_files_name(tmp_path):
    unnamed = {**DOCUMENT, "label": ""}
    assert read(tmp_path, unnamed, "rank0.json").measurements[0].label == "rank0.json"


@pytest.mark.parametrize(
    ("change", "place", "says"),
    [
        ({"stepz_s": []}, "stepz_s", "unknown key"),
        ({"steps_s": "fast"}, "steps_s", "must be a list"),
        ({"steps_s": [-1.0]}, "steps_s", "negative"),
        ({"world_size": 0}, "rank", "cannot be"),
        ({"rank": 5}, "rank", "rank 5 of 2"),
        ({"status": "great"}, "status", "great"),
        ({"phases_s": {"lunch": 1.0}}, "phases_s", "lunch"),
        ({"breakdown_s": {"matmul": -1.0}}, "breakdown_s", "negative"),
        ({"memory": {"by_kind": {"cake": 1.0}}}, "memory.by_kind", "cake"),
        ({"kernels": [{"name": "x", "category": "y", "count": -1, "total_s": 0}]}, "kernels", "negative"),
        ({"kernels": [{"name": 5}]}, "kernels[0].name", "must be text"),
        ({"schema_version": 99}, "schema_version", "newer"),
    ],
)
def test_wrong_fields_are_named(tmp_path, change, place, says):
    refused = refusal(tmp_path, {**DOCUMENT, **change})
    assert refused.format == "result"
    assert refused.place == place
    assert says in refused.message
    assert refusal(tmp_path, [DOCUMENT, {**DOCUMENT, **change}]).place == f"measurements[1].{place}"


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(DOCUMENT)[:-20],
        json.dumps(DOCUMENT).replace("0.11", "NaN", 1),
        json.dumps(DOCUMENT).replace("0.11", "1e999", 1),
        json.dumps(DOCUMENT).replace("my run", "my \x00 run", 1),
        json.dumps(DOCUMENT).encode().replace(b"my run", b"\xff\xfe", 1),
        '{"measurements": []}',
        '{"measurements": {}}',
        '{"measurements": [5]}',
        '{"origin": ' + "[" * 200_000 + "]" * 200_000 + "}",
        '{"rows": [' + "{}," * 200_000 + "{}]}",
        gz(json.dumps(DOCUMENT))[:-30],
    ],
)
def test_broken_results(tmp_path, content):
    assert refusal(tmp_path, content).format == "result"


FIELDS = [field.name for field in dataclasses.fields(Measurement)]
VALUES = documents(SCALARS | st.floats(allow_nan=False), st.sampled_from(["a", "name", "kind"]), max_leaves=5)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(FIELDS), VALUES, min_size=1, max_size=3))
def test_wrong_types_in_every_field(tmp_path, changes):
    try:
        read(tmp_path, {**DOCUMENT, **changes})
    except ImportRefused as refused:
        said = refused
    else:
        return
    assert said.message
    assert said.remedy
    assert len(str(said)) < 3000


def test_op_lists_that_were_taken_along_come_back_beside_their_measurements(tmp_path):
    ops = json.loads((ROOT / "tests" / "reference" / "ops" / "gpt2.json").read_text())
    both = {"measurements": [DOCUMENT, DOCUMENT | {"label": "another"}]}
    assert read(tmp_path, json.dumps(both | {"op_lists": [None, ops]})).op_lists == (None, ops)
    assert read(tmp_path, json.dumps(both)).op_lists == ()
    for wrong in ({}, [ops] * 3, [{**ops, "calls": 5}]):
        assert "op_lists" in refusal(tmp_path, json.dumps(both | {"op_lists": wrong})).place
