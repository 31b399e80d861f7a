"""POST /api/parallelism: both comparisons as numbers, refusals with reasons."""

from __future__ import annotations

import pytest

from tests.app.examples import LLAMA


@pytest.fixture
def client(shared_client):
    return shared_client


def test_curves_are_as_long_as_their_axis(client):
    found = client.post("/api/parallelism", json={"scenario": LLAMA, "ranks": 8}).json()
    assert found["ranks"] == 8
    for part in ("tensor", "sequence"):
        x = found[part]["x"]
        assert x == sorted(x)
        for curve in found[part]["curves"]:
            assert len(curve["block_s"]) == len(curve["communication_bytes"]) == len(x)
        assert {way["name"] for way in found[part]["ways"]} >= {curve["name"] for curve in found[part]["curves"]}
    refused = next(way for way in found["tensor"]["ways"] if way["name"] == "2d")
    assert refused["problems"][0]["remedy"]
    assert any(crossover["at"] for crossover in found["tensor"]["crossovers"])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ([], "(document)"),
        ({"ranks": 8}, "scenario"),
        ({"scenario": LLAMA, "ranks": "8"}, "ranks"),
        ({"scenario": LLAMA, "ranks": 1}, "ranks"),
        ({"scenario": LLAMA, "rank": 8}, "rank"),
        ({"scenario": {**LLAMA, "model": "gpt5"}}, "model"),
    ],
)
def test_refusals_name_the_field(client, body, field):
    answer = client.post("/api/parallelism", json=body)
    assert answer.status_code == 422
    assert answer.json()["problems"][0]["field"] == field
