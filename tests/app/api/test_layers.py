"""POST /api/layers: JSON and CSV say the same; what cannot be read is refused."""

from __future__ import annotations

import csv
import io

import pytest

from tests.app.examples import LLAMA


@pytest.fixture
def client(shared_client):
    return shared_client


def test_json_and_csv_hold_the_same_rows(client):
    found = client.post("/api/layers", json=LLAMA).json()
    answer = client.post("/api/layers?format=csv", json=LLAMA)
    assert answer.headers["content-type"].startswith("text/csv")
    assert "attachment" in answer.headers["content-disposition"]
    header, *rows = csv.reader(io.StringIO(answer.text))
    assert header == found["columns"]
    assert [row[:3] for row in rows] == [row[:3] for row in found["rows"]]
    at = header.index("flops_forward")
    assert [float(row[at]) for row in rows] == [row[at] for row in found["rows"]]


def test_shares_add_to_the_step(client):
    found = client.post("/api/layers", json=LLAMA).json()
    part, op, share = (found["columns"].index(name) for name in ("part", "op", "share_frac"))
    assert sum(row[share] for row in found["rows"]) == pytest.approx(1)
    assert "optimizer" in [row[op] for row in found["rows"] if row[part] == "step"]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/api/layers?format=xlsx", LLAMA, "format"),
        ("/api/layers", {**LLAMA, "plan": {"tp": 3}}, "plan.dp"),
        ("/api/layers", [], "scenario"),
    ],
)
def test_refusals_name_the_field(client, path, body, field):
    answer = client.post(path, json=body)
    assert answer.status_code == 422
    assert answer.json()["problems"][0]["field"] == field
