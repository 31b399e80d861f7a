"""POST /api/sweep: the contract's shape, while other requests are still answered."""

from __future__ import annotations

import threading
import time

import pytest

from tests.app.examples import LLAMA

SPEC = {key: LLAMA[key] for key in ("model", "cluster", "training")}


@pytest.fixture
def client(shared_client):
    return shared_client


def test_the_best_plans_and_the_front(client):
    response = client.post("/api/sweep", json=SPEC | {"locked": {"tp": 1, "pp": 1}})
    assert response.status_code == 200
    found = response.json()
    assert found["plans_tried"] >= found["plans_fitting"] > 0
    assert found["plans_per_s"] > 0
    best = found["best"][0]
    assert best["scenario"]["plan"]["tp"] == 1
    alone = client.post("/api/estimate", json=best["scenario"]).json()
    assert alone["step_time_s"] == best["step_time_s"]
    assert found["pareto"]


def test_estimates_are_answered_while_a_sweep_runs(client):
    answers = []
    worker = threading.Thread(target=lambda: answers.append(client.post("/api/sweep", json=SPEC)))
    worker.start()
    time.sleep(0.1)
    assert worker.is_alive(), "the sweep must still be running"
    assert client.post("/api/estimate", json=LLAMA).status_code == 200
    assert answers == []
    worker.join(60)
    assert answers[0].status_code == 200


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"model": "llama3-8b"}, "cluster"),
        (SPEC | {"plan": {}}, "plan"),
        (SPEC | {"objective": "joy"}, "objective"),
        (SPEC | {"limits": {"memory_bytes": -1}}, "limits.memory_bytes"),
        (SPEC | {"locked": {"xp": 1}}, "locked.xp"),
        (SPEC | {"cluster": {"chip": "cpu"}}, "cluster.chip"),
        ([], "(document)"),
    ],
)
def test_a_specification_names_what_is_wrong(client, body, field):
    response = client.post("/api/sweep", json=body)
    assert response.status_code == 422
    assert field in [problem["field"] for problem in response.json()["problems"]]
