"""Calibrations over HTTP: made of stored measurements, listed, and named by estimates."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app.disk import write_json
from app.main import create_app
from estimator.scenario import catalog
from estimator.scenario.codec import encode

PROBES = json.loads((Path(__file__).parents[2] / "reference" / "h200_programs" / "launches.json").read_text())
OPS = Path(__file__).parents[2] / "reference" / "ops" / "gpt2.json"
SCENARIO = {
    "model": "gpt2", "cluster": {"chip": "h200-sxm", "chips_per_node": 1},
    "training": {"seq_len": 128, "global_batch": 1, "precision": "bf16"},
}  # fmt: skip


def test_a_calibration_without_a_name_is_called_by_what_it_is_made_of(settings):
    again = {
        **PROBES,
        "label": "a second day",
        "rows": [*PROBES["rows"][:-1], {**PROBES["rows"][-1], "median_s": 1e-3}],
    }
    write_json(settings.samples / "probes.json", {**PROBES, "label": "first day"})
    write_json(settings.samples / "again.json", again)
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as client:
        names = [
            client.post("/api/calibrations", json={"measurements": of, "name": " "}).json()["name"]
            for of in (["probes"], ["again"], ["probes", "again"])
        ]
        assert names == ["first day", "a second day", "first day and 1 more"]
        stamped, other = "20261120-101500-042-1f3a9c", "ours"  # a file that somebody put there
        (file, *_) = (settings.data / "calibrations").glob("*/*/*.json")
        for name in (stamped, other):
            (file.parent / f"{name}.json").write_bytes(file.read_bytes())
        created = {one["id"]: one["created_s"] for one in client.get("/api/calibrations").json()["calibrations"]}
        assert created[stamped] == datetime(2026, 11, 20, 10, 15, tzinfo=UTC).timestamp()
        assert created[other] == 0


def test_a_measurement_becomes_a_calibration_that_estimates_name(settings, tmp_path):
    write_json(settings.samples / "probes.json", PROBES)
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as client:
        made = client.post("/api/calibrations", json={"measurements": ["probes"], "name": "ours"})
        assert made.status_code == 201, made.text
        one = made.json()
        assert client.get("/api/calibrations").json()["calibrations"] == [one]
        assert abs(one["created_s"] - time.time()) < 60
        document = client.get(f"/api/calibrations/{one['id']}").json()
        assert document["ranges"]["host_forward_s"]["residual_frac"] >= 0
        assert list((settings.data / "calibrations" / "nvidia-h200").glob("*/*.json"))

        def step_s(chip: str, calibration: str = "") -> float:
            scenario = SCENARIO | {"cluster": {"chip": chip, "chips_per_node": 1}}
            answer = client.post("/api/estimate", json=scenario, params={"calibration": calibration})
            assert answer.status_code == 200, answer.text
            return float(answer.json()["step_time_s"])

        assert step_s("h200-sxm", one["id"]) > 1.05 * step_s("h200-sxm"), "a host slower than most"
        assert step_s("a100-80gb-sxm", one["id"]) == step_s("a100-80gb-sxm")
        slower = step_s("h200-sxm", one["id"])
        # all that the page shows of a scenario is under the same one
        asked = {"params": {"calibration": one["id"]}}
        assert client.post("/api/timeline", json=SCENARIO, **asked).json()["total_s"] == pytest.approx(slower)
        compared = client.post("/api/compare", json={"items": [{"scenario": SCENARIO}]}, **asked).json()
        assert compared["items"][0]["step_time_s"] == pytest.approx(slower)
        remedy = client.post("/api/remedies", json=SCENARIO, **asked).json()["best"][0]
        tried = client.post("/api/estimate", json=remedy["scenario"], **asked).json()
        assert tried["step_time_s"] == pytest.approx(remedy["step_time_s"])
        # of a search it says, too, where it is of another chip than the one that is searched for
        search = {"locked": {"dp": 1, "tp": 1}, **SCENARIO}
        plans = [
            client.post("/api/sweep", json=search | {"cluster": {"chip": chip, "chips_per_node": 1}}, **asked).json()
            for chip in ("h200-sxm", "a100-80gb-sxm")
        ]
        assert plans[0]["assumptions"] == []
        said = "No calibration is used: “ours” is of h200-sxm, and this is predicted for a100-80gb-sxm"
        assert [words.startswith(said) for words in plans[1]["assumptions"]] == [True]
        ways = SCENARIO | {"cluster": {"chip": "a100-80gb-sxm", "chips_per_node": 1}}
        split = client.post("/api/parallelism", json={"scenario": ways, "ranks": 2}, **asked).json()
        assert split["assumptions"][-1] == plans[1]["assumptions"][0]
        table = b"model  batch  seq_len  dtype  forward (ms)\ngpt2  1  128  bf16  10.0\n"
        text = client.put("/api/uploads?filename=steps.txt", content=table).json()["measurements"][0]["id"]
        rows = [
            client.get(f"/api/measurements/{text}/rows", params={"chip": "h200-sxm", **under}).json()["rows"][0]
            for under in ({}, asked["params"])
        ]
        assert rows[1]["forward_s"] > rows[0]["forward_s"]
        listed = client.put("/api/uploads?filename=ops.json", content=OPS.read_bytes()).json()["measurements"][0]["id"]
        own = client.get(f"/api/measurements/{listed}", **asked).json()["expected"]
        again = client.get(f"/api/measurements/{listed}/what-if", **asked).json()
        assert again["estimate"]["step_time_s"] == own["estimate"]["step_time_s"]
        assert again["estimate"]["assumptions"][0] == own["estimate"]["assumptions"][0]
        drawn = client.get(f"/api/measurements/{listed}/timeline", **asked).json()
        assert drawn["total_s"] == own["estimate"]["step_time_s"]
        assert drawn["lanes"] == ["host", "compute"]
        held = own["estimate"]["memory"]
        assert max(size for _, size in drawn["memory"]) == held["peak_bytes"] > 0
        assert drawn["capacity_bytes"] == held["capacity_bytes"]
        spread = {"ranks": 4, "sharding": "fsdp", "tp": 2, "split": ["c_attn=column", "c_proj=row"]}
        laid = client.get(f"/api/measurements/{listed}/what-if", params=spread).json()
        assert laid["laying"]["split"] == {"c_attn": "column", "c_proj": "row"}
        assert laid["estimate"]["chips"] == 8
        apart = client.get(f"/api/measurements/{listed}/what-if", params={**spread, "link": "ethernet-10g"}).json()
        assert apart["estimate"]["step_time_s"] > 1.1 * laid["estimate"]["step_time_s"]
        assert apart["before"] == laid["before"]
        # a link and a chip of one's own, as the page makes them of the catalogue's
        mine = catalog.link("ethernet-10g")
        for times in (1, 0.5):
            link = json.dumps(encode(mine) | {"bytes_per_s": mine.bytes_per_s * times})
            moved = client.get(f"/api/measurements/{listed}/what-if", params={**spread, "link": link}).json()
            same = moved["estimate"]["step_time_s"] == apart["estimate"]["step_time_s"]
            assert same is (times == 1), "half the rate takes longer"
        chip = catalog.chip("h200-sxm")
        slow = json.dumps(encode(chip) | {"memory_bytes_per_s": chip.memory_bytes_per_s / 4})
        moved = client.get(f"/api/measurements/{listed}/what-if", params={"chip": slow}).json()
        assert moved["estimate"]["step_time_s"] > moved["before"]["step_time_s"]
        for refused, field in (
            ({"tp": 5}, "tp"),
            ({"ranks": 2**20, "tp": 2}, "ranks"),
            ({"schedule": "gpipe"}, "schedule"),
            ({"split": "c_attn=column"}, "split"),
            ({"micro_batches": 0}, "micro_batches"),
            ({"link": "string"}, "link"),
            ({"link": "{"}, "link"),
            ({"chip": "{"}, "chip"),
        ):
            answer = client.get(f"/api/measurements/{listed}/what-if", params=refused)
            assert [one["field"] for one in answer.json()["problems"]] == [field], answer.text
        on_h200 = [
            client.get(f"/api/measurements/{listed}/what-if", params={"chip": "h200-sxm", **under}).json()
            for under in ({}, asked["params"])
        ]
        assert "ours" in on_h200[1]["estimate"]["assumptions"][0]
        assert on_h200[1]["estimate"]["step_time_s"] != on_h200[0]["estimate"]["step_time_s"]
        for path in ("/api/estimate", "/api/sweep", "/api/layers", "/api/parallelism"):
            given = {"scenario": SCENARIO} if path == "/api/parallelism" else SCENARIO
            refused = client.post(path, json=given, params={"calibration": "../none"})
            assert refused.status_code == 422
            assert refused.json()["problems"][0]["field"] == "calibration"
        missing = client.post("/api/calibrations", json={"measurements": ["none"]})
        assert missing.json()["problems"][0]["field"] == "measurements[0]"
    file = tmp_path / "calibration.json"
    file.write_text(json.dumps(document))
    chosen = settings.model_copy(update={"calibration": (file,)})
    with TestClient(create_app(chosen), base_url="http://127.0.0.1:8000") as client:
        answer = client.post("/api/estimate", json=SCENARIO)
        assert answer.json()["step_time_s"] == pytest.approx(slower)
