"""GET /api/benchmarks: every benchmark and option that a job may name, as the runners declare them, without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields

import pytest

from runners.job import BENCHMARKS
from runners.options import OPTIONS, AttentionOptions, about, options_of

WITHOUT_TORCH = """
import json, sys
from app.api import benchmarks
found = json.loads(bytes(benchmarks.get_benchmarks().body))
print(json.dumps([len(found["benchmarks"]), [name for name in sys.modules if name.split(".")[0] == "torch"]]))
"""


@pytest.fixture(scope="module")
def benchmarks(shared_client):
    return {one["name"]: one for one in shared_client.get("/api/benchmarks").json()["benchmarks"]}


def test_every_benchmark_says_what_it_measures_and_with_how_many_processes(benchmarks):
    assert tuple(benchmarks) == BENCHMARKS
    for name, one in benchmarks.items():
        assert one["about"] == about(name)
    ranks = {name: (one["least_ranks"], one["most_ranks"]) for name, one in benchmarks.items()}
    assert ranks.pop("collectives") == (2, None)
    assert {ranks.pop(name) for name in ("attention", "memory", "precision")} == {(1, 1)}
    assert set(ranks.values()) == {(1, None)}


def test_options_are_those_of_the_runners(benchmarks):
    for name, one in benchmarks.items():
        assert [option["name"] for option in one["options"]] == [field.name for field in fields(OPTIONS[name])]
        assert all(option["help"] for option in one["options"])
        given = {option["name"]: option["default"] for option in one["options"]}
        assert options_of(name, given) == OPTIONS[name](), "the defaults are a legal job's"
    options = {option["name"]: option for option in benchmarks["attention"]["options"]}
    assert options["seq_lens"] == {
        "name": "seq_lens",
        "list": True,
        "type": "integer",
        "choices": None,
        "minimum": 1,
        "maximum": 1e18,
        "help": next(field.metadata["help"] for field in fields(AttentionOptions) if field.name == "seq_lens"),
        "default": [],
    }
    assert options["precisions"]["choices"] == ["fp32", "tf32", "fp16", "bf16"]
    snapshot = next(option for option in benchmarks["memory"]["options"] if option["name"] == "snapshot")
    assert (snapshot["type"], snapshot["list"], snapshot["default"]) == ("boolean", False, False)


def test_the_server_needs_no_torch_for_it():
    found = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == [len(BENCHMARKS), []]
