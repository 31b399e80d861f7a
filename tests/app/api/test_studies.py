"""GET /api/studies: the list with inputs, one study with the inputs of the query, refusals as problem documents."""

from __future__ import annotations

import pytest

from estimator.studies import STUDIES


@pytest.fixture
def client(shared_client):
    return shared_client


def test_the_list_describes_every_input(client):
    found = client.get("/api/studies").json()["studies"]
    assert [one["name"] for one in found] == list(STUDIES)
    for one in found:
        for field in one["inputs"]:
            assert {"name", "type", "choices", "minimum", "maximum", "help", "default"} == set(field)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_answers_with_its_figures(client, name):
    answer = client.get(f"/api/studies/{name}")
    assert answer.status_code == 200
    assert all(one["agrees"] is not False for one in answer.json()["figures"])


def test_the_query_changes_inputs(client):
    found = client.get("/api/studies/ulysses-16?N=30000&P=8").json()
    assert found["inputs"] == {
        "N": 30_000, "d": 16_384, "h": 128, "P": 8, "dtype_bytes": 2, "workspace_bytes": 42_074_112,
    }  # fmt: skip


@pytest.mark.parametrize(("path", "status", "said"), [
    ("nothing", 404, "ulysses-16"),
    ("ulysses-16?N=x", 422, "N: must be a whole number"),
    ("ulysses-16?N=1&N=2", 422, "N: is given twice"),
    ("ulysses-16?n=1", 422, "n: unknown key. Known keys: N, d"),
    ("ulysses-16?N=" + "9" * 400, 422, "N:"),
    ("ulysses-16?N=" + "9" * 5000, 422, "N:"),
    ("ulysses-16?N=inf", 422, "N:"),
])  # fmt: skip
def test_refusals_are_problem_documents(client, path, status, said):
    answer = client.get(f"/api/studies/{path}")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert said in answer.json()["detail"]
