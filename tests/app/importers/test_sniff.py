from __future__ import annotations

import io
import json
import pickle
import sqlite3
import zipfile

import pytest
import torch

from app.importers import FORMATS
from app.importers.imported import Limits
from app.importers.sniff import sniff
from app.importers.source import Source
from estimator.search.specification import KEYS
from tests.app.importers.reading import gz, refusal, write


@pytest.mark.parametrize(
    ("content", "format"),
    [
        ('{"traceEvents": []}', "kineto"),
        ('{"schemaVersion": 1, "deviceProperties": [', "kineto"),
        ('[{"name": "x", "ph": "X"}]', "kineto"),
        ('{"steps_s": [1.0]}', "result"),
        ('[{"origin": {"kind": "run"}}]', "result"),
        ('{"measurements": []}', "result"),
        ("model  ms\n1  2", "text"),
        ("[WARNING] few\nmodel  ms\n1  2", "text"),
        ("a,b\n1,2", "text"),
    ],
)
def test_formats_by_content(tmp_path, content, format):
    for data in (content.encode(), gz(content)):
        for name in ("a.json", "a.pickle", "a.csv", "a"):
            assert sniff(Source(write(tmp_path, data), Limits()), name) == format
    assert format in FORMATS


def test_long_metadata_before_the_events(tmp_path):
    text = '{"notes": "' + "x" * 2_000_000 + '", "traceEvents": []}'
    assert sniff(Source(write(tmp_path, text), Limits()), "x") == "kineto"


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.mark.parametrize("protocol", range(6))
def test_pickles_are_never_opened(tmp_path, protocol):
    mark = tmp_path / "executed"
    for data in (pickle.dumps(Bomb(str(mark)), protocol), gz(pickle.dumps({"segments": [Bomb(str(mark))]}, protocol))):
        refused = refusal(tmp_path, data, "trace.json")
        assert "export_chrome_trace" in refused.remedy or refused.format in ("text", "binary")
        assert not mark.exists()
    if protocol >= 2:
        assert refused.format == "snapshot"


def archive(names):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name in names:
            file.writestr(name, "x")
    return buffer.getvalue()


def database(folder):
    path = folder / "report.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("create table META_DATA_EXPORT (name text)")
    connection.close()
    return path.read_bytes()


def torch_file(folder):
    torch.save({"weight": torch.ones(3)}, folder / "model.pt")
    return (folder / "model.pt").read_bytes()


@pytest.mark.parametrize(
    ("make", "format", "way_out"),
    [
        (lambda folder: archive(["trace.json"]), "archive", "Paste tables"),
        (torch_file, "torch archive", "export_chrome_trace"),
        (database, "nsys", "nsys export"),
        (lambda folder: b"QDSTRM\x00\x01", "nsys-rep", "nsys stats"),
        (lambda folder: b"\x28\xb5\x2f\xfdxx", "zstd", "gzip"),
        (lambda folder: b"\xfd7zXZ\x00x", "xz", "gzip"),
        (lambda folder: b"BZh91AY", "bzip2", "gzip"),
        (lambda folder: b"%PDF-1.7", "pdf", "text"),
        (lambda folder: b"\x89PNG\r\n", "image", "numbers"),
        (lambda folder: b"\x7fELF\x02\x01\x01" + bytes(100), "binary", "trace"),
        (lambda folder: gz(gz(b"text")), "gzip", "Unpack it once"),
        (lambda folder: b'{"rocprofiler-sdk-tool": [{' + b" " * 2_000_000, "rocprof", "--output-format csv"),
    ],
)
def test_what_is_refused_says_the_way_out(tmp_path, make, format, way_out):
    refused = refusal(tmp_path, make(tmp_path), "x.json")
    assert refused.format == format
    assert way_out in refused.remedy


def test_reports_of_nsight_by_their_name_only_where_nothing_else_is_known(tmp_path):
    assert refusal(tmp_path, b"\x01\x00\x02\x00" * 50, "run.nsys-rep").format == "nsys-rep"
    assert refusal(tmp_path, b"\x01\x00\x02\x00" * 50, "run.bin").format == "binary"


def test_other_json_names_its_keys(tmp_path):
    refused = refusal(tmp_path, json.dumps({"weight_map": {}, "global_step": 5}))
    assert refused.format == "json"
    assert "weight_map, global_step" in refused.message
    assert refusal(tmp_path, "{}").format == "json"
    assert refusal(tmp_path, "[]").format == "json"
    assert refusal(tmp_path, "[[[[").format == "json"


@pytest.mark.parametrize("content", ['{"weight_map": [1, 2', '{"global_st', "[[[[", '[{"a": 1}, {"b": "x'])
def test_json_that_ends_in_the_middle_says_so(tmp_path, content):
    refused = refusal(tmp_path, content)
    assert refused.format == "json"
    assert f"ends in the middle, after {len(content)} bytes" in refused.message
    assert "whole" in refused.remedy


SCENARIO = {"model": "llama3-8b", "cluster": {"chip": "h100-sxm", "nodes": 1}, "training": {"seq_len": 4096}}


@pytest.mark.parametrize(
    ("more", "way"),
    [
        ({}, "headroom estimate FILE"),
        ({"plan": {"dp": 8, "overlap": True}}, "headroom estimate FILE"),
        ({"objective": "step_time", "locked": {"pp": 1}}, "headroom sweep FILE"),
    ],
)
def test_a_scenario_is_refused_with_the_way_to_its_prediction(tmp_path, more, way):
    refused = refusal(tmp_path, json.dumps({**SCENARIO, **more}, indent=1))
    assert refused.format == "scenario"
    assert "nothing was measured" in refused.message
    assert way in refused.remedy


@pytest.mark.parametrize("key", sorted({*KEYS} - SCENARIO.keys()))
def test_every_key_of_a_search_is_known_for_one(tmp_path, key):
    assert "headroom sweep FILE" in refusal(tmp_path, json.dumps({**SCENARIO, key: {}})).remedy


def test_rows_beside_a_scenario_s_keys_are_still_read(tmp_path):
    content = json.dumps({**SCENARIO, "step_ms": 12.5, "tokens_per_s": 8000.0})
    assert sniff(Source(write(tmp_path, content), Limits()), "x.json") == "records"
