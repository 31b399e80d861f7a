"""POST /api/compare: predictions and measurements beside one another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app.disk import write_json
from app.main import create_app
from app.own_predictions import kept_prediction
from app.settings import Settings
from estimator.scenario.codec import encode
from tests.app.examples import LLAMA, MEASUREMENT, SCENARIO, scenario


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return tmp_path_factory.mktemp("samples")


@pytest.fixture(scope="module")
def client(samples, tmp_path_factory):
    write_json(samples / "sample.json", encode(MEASUREMENT))
    settings = Settings(data=tmp_path_factory.mktemp("data"), samples=samples, probe_cpu=False)
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as found:
        yield found


def test_a_measurement_beside_its_prediction(client):
    items = [{"measurement": "sample"}, {"scenario": SCENARIO, "label": "predicted"}]
    response = client.post("/api/compare", json={"items": items, "baseline": 1})
    assert response.status_code == 200
    found = response.json()
    assert found["baseline"] == 1
    measured, predicted = found["items"]
    assert (measured["kind"], measured["label"], measured["step_time_s"]) == ("measured", "a measured step", 0.011)
    assert (predicted["kind"], predicted["label"]) == ("predicted", "predicted")
    assert {"tokens_per_s", "mfu", "phases_s", "breakdown_s", "memory", "status", "scenario"} <= set(measured)
    delta = found["deltas"][0]
    assert delta["step_time_frac"] == pytest.approx(0.011 / predicted["step_time_s"] - 1)
    assert delta["phases_s"]["forward"] == pytest.approx(0.003 - predicted["phases_s"]["forward"])
    assert "host_wait" not in delta["phases_s"], "the measurement has none"
    assert delta["peak_bytes_frac"] == pytest.approx(1e9 / predicted["memory"]["peak_bytes"] - 1)
    assert found["deltas"][1]["step_time_frac"] == 0
    assert found["differences"] == []


def test_differences_of_plans_are_named(client):
    other = {**LLAMA, "plan": {**LLAMA["plan"], "dp": 4, "tp": 2}}
    items = [{"scenario": LLAMA}, {"scenario": other}]
    found = client.post("/api/compare", json={"items": items}).json()
    assert {item["field"]: item["values"] for item in found["differences"]} == {"plan.dp": [8, 4], "plan.tp": [1, 2]}
    assert found["items"][0]["label"] == "llama3-8b"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ([], "(document)"),
        ({}, "items"),
        ({"items": []}, "items"),
        ({"items": "all"}, "items"),
        ({"items": [{"measurement": "sample"}] * 33}, "items"),
        ({"items": [{"measurement": "none"}]}, "items[0].measurement"),
        ({"items": [{"measurement": 3}]}, "items[0].measurement"),
        ({"items": [{}]}, "items[0]"),
        ({"items": [{"measurement": "sample", "scenario": SCENARIO}]}, "items[0]"),
        ({"items": [{"measurement": "sample", "colour": "red"}]}, "items[0].colour"),
        ({"items": [{"measurement": "sample", "label": 3}]}, "items[0].label"),
        ({"items": [{"measurement": "sample"}, {"scenario": scenario(plan__tp=3)}]}, "items[1].scenario.plan.tp"),
        ({"items": [{"measurement": "sample"}], "baseline": 1}, "baseline"),
        ({"items": [{"measurement": "sample"}], "baseline": True}, "baseline"),
        ({"items": [{"measurement": "sample"}], "base": 0}, "base"),
    ],
)
def test_a_request_names_the_item_that_is_wrong(client, body, field):
    response = client.post("/api/compare", json=body)
    assert response.status_code == 422
    assert field in [problem["field"] for problem in response.json()["problems"]]


TRACE = Path(__file__).parents[2] / "reference" / "h200" / "trace-short-1.trace.json.gz"


@pytest.fixture(scope="module")
def profile(client):
    found = client.put("/api/uploads", params={"filename": TRACE.name}, content=TRACE.read_bytes()).json()
    return found["measurements"][0]["id"]


def test_a_profile_differs_from_its_own_prediction_and_from_no_scenario(client, profile):
    """It was "matmul +60 500 %" beside whatever scenario was open."""
    items = [{"scenario": SCENARIO}, {"measurement": profile}, {"expected": profile}]
    beside = client.post("/api/compare", json={"items": items}).json()
    assert [delta["step_time_frac"] for delta in beside["deltas"]] == [0, None, None]
    assert not any(delta["breakdown_s"] for delta in beside["deltas"][1:])
    own = client.post("/api/compare", json={"items": items, "baseline": 2}).json()
    assert own["deltas"][1]["step_time_frac"] == pytest.approx(0, abs=0.05)
    assert own["deltas"][1]["breakdown_s"]["matmul"] < 0
    assert own["deltas"][0]["step_time_frac"] is None
    assert own["items"][2]["label"].endswith("its own ops, predicted")


def test_two_profiles_of_unknown_scenarios_may_be_compared(client, profile):
    document = encode(MEASUREMENT) | {"scenario": {}, "label": "another"}
    (other,) = client.put("/api/uploads", content=json.dumps(document).encode()).json()["measurements"]
    items = [{"measurement": profile}, {"measurement": other["id"]}]
    found = client.post("/api/compare", json={"items": items}).json()
    assert found["deltas"][1]["step_time_frac"] is not None
    # as a traced program and what was measured of it are
    items[0] = {"expected": profile}
    # what a page has of it by now is not made again
    before = kept_prediction.cache_info().misses
    for _ in range(2):
        client.get(f"/api/measurements/{profile}")
        client.post("/api/compare", json={"items": items})
    assert kept_prediction.cache_info().misses - before <= 1
    assert client.post("/api/compare", json={"items": items}).json()["deltas"][1]["causes"]
    refused = client.post("/api/compare", json={"items": [{"expected": other["id"]}]})
    assert refused.status_code == 422
    assert refused.json()["problems"][0]["field"] == "items[0].expected"
