"""Calibrations over HTTP: made of stored measurements, listed, and named by estimates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app.disk import write_json
from app.main import create_app

PROBES = json.loads((Path(__file__).parents[2] / "reference" / "h200_programs" / "launches.json").read_text())
SCENARIO = {
    "model": "gpt2", "cluster": {"chip": "h200-sxm", "chips_per_node": 1},
    "training": {"seq_len": 128, "global_batch": 1, "precision": "bf16"},
}  # fmt: skip


def test_a_measurement_becomes_a_calibration_that_estimates_name(settings, tmp_path):
    write_json(settings.samples / "probes.json", PROBES)
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as client:
        made = client.post("/api/calibrations", json={"measurements": ["probes"], "name": "ours"})
        assert made.status_code == 201, made.text
        one = made.json()
        assert client.get("/api/calibrations").json()["calibrations"] == [one]
        document = client.get(f"/api/calibrations/{one['id']}").json()
        assert document["ranges"]["host_forward_s"]["residual_frac"] >= 0
        assert list((settings.data / "calibrations" / "nvidia-h200").glob("*/*.json"))

        def step_s(chip: str, calibration: str = "") -> float:
            scenario = SCENARIO | {"cluster": {"chip": chip, "chips_per_node": 1}}
            answer = client.post("/api/estimate", json=scenario, params={"calibration": calibration})
            assert answer.status_code == 200, answer.text
            return float(answer.json()["step_time_s"])

        assert step_s("h200-sxm", one["id"]) > 1.05 * step_s("h200-sxm")
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
        for path in ("/api/estimate", "/api/sweep", "/api/layers"):
            refused = client.post(path, json=SCENARIO, params={"calibration": "../none"})
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
