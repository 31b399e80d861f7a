"""POST /api/remedies and /api/timeline: what the estimator finds, and a problem where it cannot."""

from __future__ import annotations

import pytest

from tests.app.examples import LLAMA


@pytest.fixture
def client(shared_client):
    return shared_client


def test_remedies_and_timeline_are_of_the_estimate(client):
    own = client.post("/api/estimate", json=LLAMA).json()
    found = client.post("/api/remedies", json=LLAMA).json()
    assert found["binds_s"] == own["breakdown_s"][found["binds"]]
    for one in found["best"]:
        assert client.post("/api/estimate", json=one["scenario"]).json()["step_time_s"] == one["step_time_s"]
    drawn = client.post("/api/timeline", json=LLAMA).json()
    assert max(drawn["end_s"]) == pytest.approx(own["step_time_s"])
    assert len(drawn["lane"]) == len(drawn["kind"]) == len(drawn["start_s"])
    for path in ("/api/remedies", "/api/timeline"):
        refused = client.post(path, json={**LLAMA, "plan": {"tp": 3}})
        assert refused.status_code == 422
        assert refused.json()["problems"]
