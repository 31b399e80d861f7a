"""POST /api/hierarchy: products by level, and refusals that name the field."""

from __future__ import annotations

import pytest

from tests.app.examples import LLAMA


@pytest.fixture
def client(shared_client):
    return shared_client


def fields_of(response):
    assert response.status_code == 422, response.text
    return [problem["field"] for problem in response.json()["problems"]]


def test_rows_have_every_level(client):
    response = client.post("/api/hierarchy", json={"scenario": LLAMA, "mode": "bound"})
    assert response.status_code == 200, response.text
    found = response.json()
    names = [roof["name"] for roof in found["roofs"]]
    assert names == ["memory", "L2", "shared memory", "registers"]
    for row in found["rows"]:
        assert {"name", "m", "n", "k", "levels", "binds"} <= set(row)
        assert [level["name"] for level in row["levels"]] == names
        assert {"tile", "reloads", "bytes", "seconds"} <= set(row["levels"][0])
        assert row["binds"] in ("compute", *names)


def test_the_mode_may_be_left_out(client):
    assert client.post("/api/hierarchy", json={"scenario": LLAMA}).json()["mode"] == "bound"


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ([], "(document)"),
        ({}, "scenario"),
        ({"scenario": LLAMA, "mode": 3}, "mode"),
        ({"scenario": LLAMA, "mode": "fast"}, "mode"),
        ({"scenario": LLAMA, "modes": "bound"}, "modes"),
        ({"scenario": {}}, "model"),
    ],
)
def test_bad_requests_name_the_field(client, document, field):
    assert field in fields_of(client.post("/api/hierarchy", json=document))


def test_a_chip_without_known_levels_says_which_have_them(client):
    other = {**LLAMA, "cluster": {**LLAMA["cluster"], "chip": "rtx-4090"}}
    response = client.post("/api/hierarchy", json={"scenario": other})
    assert fields_of(response) == ["cluster.chip"]
    assert "h200-sxm" in response.text


def test_choices(client):
    found = client.get("/api/hierarchy").json()
    assert "h200-sxm" in found["chips"]
    assert found["modes"] == ["compatible", "bound"]
