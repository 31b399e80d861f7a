"""Peaks by pass, length and precision, and the allocator's snapshot as JSON."""

from __future__ import annotations

import gc
import gzip
import json

import pytest
import torch

from estimator.scenario.breakdown import MEMORY_KINDS
from estimator.scenario.parameters import parameters
from estimator.scenario.problems import InputProblems
from runners.benchmarks.memory import run
from runners.job import Job
from runners.model.by_name import model_of
from runners.snapshot import trimmed, write


@pytest.fixture(scope="module")
def rows():
    options = {"seq_lens": [32, 64], "precisions": ["fp32", "bf16"], "micro_batch": 2}
    result = run(Job(benchmark="memory", device="cpu", warmup=1, options=options), lambda event: None)
    assert result.status == "ok"
    return {(row["pass"], row["precision"], row["seq_len"]): row for row in result.rows}


def test_kinds_add_to_the_peak(rows):
    assert len(rows) == 12
    for row in rows.values():
        assert row["status"] == "ok"
        kinds = [row[f"{kind}_bytes"] for kind in MEMORY_KINDS if f"{kind}_bytes" in row]
        assert sum(kinds) == pytest.approx(row["peak_bytes"])
        assert row["before_bytes"] is None


def test_every_pass_holds_more_than_the_one_before(rows):
    for precision in ("fp32", "bf16"):
        for seq_len in (32, 64):
            forward, backward, step = (
                rows[mode, precision, seq_len]["peak_bytes"] for mode in ("forward", "forward-backward", "step")
            )
            assert forward < backward < step
        assert rows["step", precision, 64]["activations_bytes"] > rows["step", precision, 32]["activations_bytes"]


def test_states_have_the_size_of_their_numbers(rows):
    count = parameters(model_of("tiny"))
    for precision, size in (("fp32", 4), ("bf16", 2)):
        row = rows["step", precision, 32]
        assert row["parameters"] == count
        assert row["parameters_bytes"] == size * count
        assert row["optimizer_bytes"] == pytest.approx(2 * size * count, rel=0.01)
        assert rows["forward", precision, 32]["optimizer_bytes"] == 0


def test_rows_leave_nothing_behind():
    def live_bytes() -> int:
        gc.collect()
        tensors = [thing for thing in gc.get_objects() if type(thing) in (torch.Tensor, torch.nn.Parameter)]
        return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())

    before = live_bytes()
    options = {"seq_lens": [64], "precisions": ["fp32"]}
    result = run(Job(benchmark="memory", device="cpu", warmup=1, options=options), lambda event: None)
    assert {row["status"] for row in result.rows} == {"ok"}
    assert live_bytes() - before < 4 * parameters(model_of("tiny")) / 10


def test_a_snapshot_needs_a_place_and_a_gpu(tmp_path):
    options = {"seq_lens": [8], "precisions": ["fp32"], "passes": ["step"], "snapshot": True}
    job = Job(benchmark="memory", device="cpu", warmup=0, options=options)
    with pytest.raises(InputProblems, match=r"options\.snapshot: has no place to go"):
        run(job, lambda event: None)
    result = run(job, lambda event: None, tmp_path / "trace.json.gz")
    assert [warning.code for warning in result.warnings] == ["no_snapshot"]
    assert list(tmp_path.iterdir()) == []


def test_a_snapshot_is_json_without_the_machines_folders(tmp_path):
    frames = [{"filename": f"/home/someone/project/{i}.py", "line": i, "name": "f"} for i in range(5)]
    snapshot = {
        "segments": [
            {"address": 1, "total_size": 2048, "blocks": [{"size": 512, "state": "active", "frames": frames}]}
        ],
        "device_traces": [[{"action": "alloc", "addr": 1, "size": 512, "stream": 0, "frames": frames}]],
        "allocator_settings": {"expandable_segments": False},
        "external_annotations": [],
    }
    path = tmp_path / "snapshot.json.gz"
    assert write(snapshot, path, frames=2) == path.stat().st_size
    found = json.loads(gzip.decompress(path.read_bytes()))
    assert found == trimmed(snapshot, 2)
    (event,) = found["device_traces"][0]
    assert (event["action"], event["size"]) == ("alloc", 512)
    assert event["frames"] == [
        {"filename": "project/0.py", "line": 0, "name": "f"},
        {"filename": "project/1.py", "line": 1, "name": "f"},
    ]
    assert found["segments"][0]["blocks"][0]["state"] == "active"
    assert "someone" not in path.read_bytes().decode("latin-1")
