"""GET /api/health: what a container check reads."""

from __future__ import annotations


def test_health_tells_what_works(client):
    document = client.get("/api/health").json()
    assert document["status"] == "ok"
    assert document["database"] == "sqlite"
    assert document["runs"] == {"queued": 0, "running": 0}
    assert document["this_cpu"] == "off"
