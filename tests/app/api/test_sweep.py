"""POST /api/sweep: the contract's shape, while other requests are still answered."""

from __future__ import annotations

import json
import threading
import time
from http.client import HTTPConnection

import httpx2
import pytest
from fastapi.testclient import TestClient

from app.api.sweep import SearchProgress, Stopped
from app.main import create_app
from estimator.search.sweep import sweep
from tests.app.examples import LLAMA

SPEC = {key: LLAMA[key] for key in ("model", "cluster", "training")}
LARGE = SPEC | {
    "cluster": {"chip": "h200-sxm", "chips_per_node": 8, "nodes": 16},
    "training": LLAMA["training"] | {"global_batch": 64},
}
"""Two million plans."""


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
    assert alone["step_time_s"] == pytest.approx(best["step_time_s"], rel=1e-9)
    assert found["pareto"]


def test_estimates_are_answered_while_a_sweep_runs(client):
    answers = []
    worker = threading.Thread(target=lambda: answers.append(client.post("/api/sweep", json=LARGE)))
    worker.start()
    time.sleep(0.1)
    assert worker.is_alive(), "the sweep must still be running"
    assert client.post("/api/estimate", json=LLAMA).status_code == 200
    assert answers == []
    worker.join(400)
    assert answers[0].status_code == 200


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"model": "llama3-8b"}, "cluster"),
        (SPEC | {"plan": {}}, "plan"),
        (SPEC | {"objective": "joy"}, "objective"),
        (SPEC | {"limits": {"memory_bytes": -1}}, "limits.memory_bytes"),
        (SPEC | {"locked": {"xp": 1}}, "locked.xp"),
        (SPEC | {"locked": {"cp_kind": "star"}}, "locked.cp_kind"),
        (SPEC | {"cluster": {"chip": "cpu"}}, "cluster.chip"),
        ([], "(document)"),
    ],
)
def test_a_specification_names_what_is_wrong(client, body, field):
    response = client.post("/api/sweep", json=body)
    assert response.status_code == 422
    assert field in [problem["field"] for problem in response.json()["problems"]]


NDJSON = {"accept": "application/x-ndjson"}


def told(client, body):
    with client.stream("POST", "/api/sweep", json=body, headers=NDJSON) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("application/x-ndjson")
        return [json.loads(line) for line in answer.iter_lines()]


def test_a_search_tells_how_far_it_is_and_ends_with_the_same_result(client, monkeypatch):
    monkeypatch.setattr("app.api.sweep.TELL_S", 0.02)
    wide = LARGE | {"training": LLAMA["training"] | {"global_batch": 1024}, "locked": {"tp": 1}}
    *lines, last = told(client, wide)
    counts = [line["tried"] for line in lines if "tried" in line]
    assert counts
    assert counts == sorted(counts)
    found = last["result"]
    assert found["plans_tried"] >= counts[-1]
    whole = client.post("/api/sweep", json=wide).json()
    assert [one["scenario"] for one in whole["best"]] == [one["scenario"] for one in found["best"]]


def test_a_bad_specification_is_refused_before_anything_is_told(client):
    response = client.post("/api/sweep", json=SPEC | {"objective": "joy"}, headers=NDJSON)
    assert response.status_code == 422


def test_a_search_that_nobody_waits_for_ends():
    progress = SearchProgress(60)
    progress.stop.set()
    with pytest.raises(Stopped):
        sweep(SPEC, None, progress.note)
    assert progress.tried < sweep(SPEC).plans_tried


ENDLESS = {
    "model": "deepseek-v3",
    "cluster": {"chip": "h100-sxm", "nodes": 2048},
    "training": {"seq_len": 8192, "global_batch": 16_384},
}
"""Tens of seconds, the first ten of them before any plan is tried."""


def test_a_client_that_leaves_frees_the_slot(served):
    _, address = served
    for accept in ("application/json", "application/x-ndjson"):
        leaving = HTTPConnection(address.removeprefix("http://"))
        headers = {"content-type": "application/json", "accept": accept}
        leaving.request("POST", "/api/sweep", json.dumps(ENDLESS), headers)
        time.sleep(1)
        leaving.close()
        began_s = time.monotonic()
        small = SPEC | {"locked": {"tp": 1, "pp": 1}}
        assert httpx2.post(f"{address}/api/sweep", json=small, timeout=60).status_code == 200
        assert time.monotonic() - began_s < 20, "the search that nobody waits for must not hold the slot"


@pytest.mark.parametrize("headers", [{}, NDJSON])
def test_a_search_may_take_a_bounded_time(settings, headers):
    bounded = settings.model_copy(update={"search_limit_s": 0.2})
    with TestClient(create_app(bounded), base_url="http://127.0.0.1:8000") as client:
        answer = client.post("/api/sweep", json=LARGE, headers=headers)
    refusal = json.loads(answer.text.splitlines()[-1])
    (problem,) = refusal["problems"]
    assert (problem["field"], answer.status_code) == ("locked", 200 if headers else 422)
    assert "0.2 s" in problem["message"]
    assert "Lock a field" in problem["remedy"]


def test_more_chips_than_anybody_has_are_refused_at_once(client):
    cluster = {"chip": "h100-sxm", "nodes": 100_000, "chips_per_node": 100_000}
    training = {"seq_len": 1024, "global_batch": 512}
    began_s = time.process_time()
    response = client.post("/api/sweep", json={"model": "gpt2", "cluster": cluster, "training": training})
    assert time.process_time() - began_s < 2
    assert response.status_code == 422
    (problem,) = response.json()["problems"]
    assert problem["field"] == "cluster.nodes"
    assert "at most 10 nodes" in problem["remedy"]
