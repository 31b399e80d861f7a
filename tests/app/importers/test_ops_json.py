"""Op lists that are imported: traces of one program are told apart by what they are called."""

from __future__ import annotations

import gzip
import json

import pytest

from app.importers import import_file
from estimator.scenario.op_list import OpList, to_json


@pytest.mark.parametrize(
    ("said", "filename", "label"),
    [
        ({"program": "train.py"}, "train.ops.json", "train.py"),
        ({"program": "train.py"}, "train.ops.json.gz", "train.py"),
        ({"program": "train.py"}, "wide.ops.json", "train.py (wide.ops.json)"),
        ({"program": "train.py", "arguments": ["--batch", "64"]}, "ops.json", "train.py --batch 64"),
        ({"program": "train.py", "arguments": ["--name", "a b"]}, "b.json", "train.py --name 'a b' (b.json)"),
        ({"program": "config.json", "arguments": ["--seq", "128"]}, "config.json", "config.json --seq 128"),
        ({"program": "profiled", "source": "profile"}, "b.json", "profiled"),
        ({"program": ""}, "b.json", "b.json"),
    ],
)
def test_a_trace_is_called_by_program_arguments_and_a_file_that_says_more(tmp_path, said, filename, label):
    data = json.dumps({**to_json(OpList(source="trace", program="", calls=(), signatures=())), **said}).encode()
    path = tmp_path / "source"
    path.write_bytes(gzip.compress(data) if filename.endswith(".gz") else data)
    (found,) = import_file(path, filename).measurements
    assert found.label == label
