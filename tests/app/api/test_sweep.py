"""POST /api/sweep: the contract's shape, while other requests are still answered."""

from __future__ import annotations

import json
import threading
import time

import pytest

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


def test_a_search_tells_how_far_it_is_and_ends_with_the_same_result(client):
    wide = SPEC | {"cluster": {"chip": "h200-sxm", "nodes": 16}, "training": LLAMA["training"] | {"global_batch": 1024}}
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
    from app.api.sweep import SearchProgress, Stopped
    from estimator.search.sweep import sweep

    progress = SearchProgress()
    progress.stop.set()
    with pytest.raises(Stopped):
        sweep(SPEC, None, progress.note)
    assert 0 < progress.tried < sweep(SPEC).plans_tried
