"""GET /api/pathfinding: what the page draws, with inputs from the query; plans and search apart."""

from __future__ import annotations

import pytest


@pytest.fixture
def client(shared_client):
    return shared_client


def test_the_reference(client):
    found = client.get("/api/pathfinding").json()
    assert found["time_s"] == 302.88817584140634
    assert len(found["sweep"]["seconds"]) == len(found["sweep"]["memory_frac"])
    assert [one["number"] for one in found["inconsistencies"]] == [1, 2, 3, 4, 5, 6, 7]
    assert found["hierarchy"]["roofs"][0]["name"] == "memory"


def test_inputs_come_from_the_query(client):
    half = client.get("/api/pathfinding", params={"batch": "256", "power_w": "150"}).json()
    assert half["inputs"]["batch"] == 256
    assert half["machine"]["flops_per_s"] == pytest.approx(4.574e12 / 2, rel=1e-3)


def test_plans_and_search(client):
    found = client.get("/api/pathfinding/plans", params={"chips": "8"}).json()
    assert found["chips"] == 8
    assert found["rows"][0]["seconds"] == min(row["seconds"] for row in found["rows"] if row["fits"])
    found = client.get("/api/pathfinding/search").json()
    assert found["seconds"][-1] < found["seconds"][0] == 302.88817584140634
    assert len(found["shares"]) == len(found["seconds"])


@pytest.mark.parametrize("path", ["", "/plans", "/search"])
@pytest.mark.parametrize(
    ("query", "field"),
    [("l2_tile=4096", "l2_tile"), ("core_power_frac=-1", "core_power_frac"),
     ("core_power_frac=1.1", "core_power_frac"), ("bach=3", "bach"), ("hlp=3&hlp=3", "hlp"),
     ("dp=2&link_power_frac=0", "link_power_frac")],
)  # fmt: skip
def test_bad_inputs_name_the_field(client, path, query, field):
    if path == "/plans" and field == "link_power_frac":
        assert client.get(f"/api/pathfinding/plans?{query}").json()["rows"] == []
        return
    response = client.get(f"/api/pathfinding{path}?{query}")
    assert response.status_code == 422
    assert field in [problem["field"] for problem in response.json()["problems"]]
