"""GET /api/measurements: lists, whole measurements, and predictions where the scenario allows one."""

from __future__ import annotations

import dataclasses

import pytest
from fastapi.testclient import TestClient

from app.disk import write_json
from app.main import create_app
from app.settings import Settings
from estimator.codec import encode
from tests.app.examples import MEASUREMENT


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return tmp_path_factory.mktemp("samples")


@pytest.fixture(scope="module")
def client(samples, tmp_path_factory):
    partial = dataclasses.replace(MEASUREMENT, scenario={"training": {"seq_len": 1024}}, label="partial", steps_s=())
    write_json(samples / "partial.json", encode(partial))
    write_json(samples / "whole.json", encode(MEASUREMENT))
    settings = Settings(data=tmp_path_factory.mktemp("data"), samples=samples, probe_cpu=False)
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as found:
        yield found


def test_the_list_says_what_each_has(client):
    partial, whole = client.get("/api/measurements").json()["measurements"]
    assert whole == {
        "id": "whole",
        "label": "a measured step",
        "origin": {"kind": "run", "format": "step", "producer": "headroom", "version": "0.1.0"},
        "status": "ok",
        "device_name": "NVIDIA A100",
        "world_size": 1,
        "step_time_s": 0.011,
        "peak_bytes": 1e9,
        "rows": 0,
        "kernels": 1,
        "created_s": 0.0,
        "has_scenario": True,
        "bundled": True,
    }
    assert partial["step_time_s"] is None
    assert partial["has_scenario"] is False


def test_a_whole_scenario_brings_its_prediction(client):
    found = client.get("/api/measurements/whole").json()
    assert found["kernels"][0]["name"] == "gemm"
    alone = client.post("/api/estimate", json=found["scenario"]).json()
    assert found["prediction"] == alone
    assert client.get("/api/measurements/partial").json()["prediction"] is None


@pytest.mark.parametrize("name", ["none", "..%2fwhole", "whole.json", "%00"])
def test_an_unknown_one_is_not_found(client, name):
    response = client.get(f"/api/measurements/{name}")
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"


def test_one_whose_file_has_gone_is_not_found(client, samples):
    (samples / "whole.json").unlink()
    assert client.get("/api/measurements/whole").status_code == 404
