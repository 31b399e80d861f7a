"""Every failure is an RFC 9457 problem document, and none shows how we failed."""

from __future__ import annotations

import errno
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.odd_json import documents


def assert_problem(response, status, *words):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    assert document["status"] == status
    assert {"type", "title", "detail", "problems"} <= set(document)
    for word in words:
        assert word in document["detail"]
    return document


def test_an_unknown_path_and_a_wrong_method_say_so(client):
    assert_problem(client.get("/api/nothing"), 404, "/api/nothing")
    assert_problem(client.get("/nothing"), 404)
    assert_problem(client.get("/static/any/js/../../app/main.py"), 404)
    assert_problem(client.get("/static/any/js/%2e%2e/%2e%2e/pyproject.toml"), 404)
    response = client.get("/api/estimate")
    assert_problem(response, 405, "GET")
    assert response.headers["allow"] == "POST"
    assert_problem(client.post("/"), 405)
    assert_problem(client.delete("/api/runs"), 405)


def test_an_error_of_ours_shows_no_stack_trace(client, caplog):
    def broken():
        raise RuntimeError("secret detail")

    client.app.get("/api/broken")(broken)
    response = client.get("/api/broken")
    assert_problem(response, 500, "log")
    assert "secret" not in response.text
    assert "secret detail" in caplog.text
    assert response.headers["x-content-type-options"] == "nosniff"


def test_a_folder_that_the_server_may_not_write_says_so(client):
    def denied():
        raise PermissionError(errno.EACCES, "Permission denied", "uploads/.new")

    client.app.get("/api/denied")(denied)
    assert_problem(client.get("/api/denied"), 507, "may not write in its data folder", "owner and rights")


def test_a_parameter_that_cannot_be_read_is_named(client):
    document = assert_problem(
        client.post("/api/runs?dry_run=perhaps", json={}),
        422,
    )
    assert document["problems"][0]["field"] == "dry_run"


def test_an_answer_does_not_grow_with_the_number_of_mistakes(shared_client):
    asked = {"items": [{"measurement": "none"}] * 32}
    wrong = {"measurements": [str(number) for number in range(500)]}
    for path, body, words in (
        ("/api/compare", asked, "32 fields cannot be used: items[0].measurement"),
        ("/api/calibrations", wrong, "500 fields cannot be used: measurements[0], measurements[1]"),
        ("/api/calibrations", {"measurements": ["1"] * 100_000}, "measurements: must be a list of 1 to 1000 texts"),
        ("/api/runs", [1] * 100_000, "jobs: 100000 jobs. Give 1 to 1000."),
        ("/api/estimate", {f"key{number}": 1 for number in range(100_000)}, "fields cannot be used: key0, key1"),
    ):
        response = shared_client.post(path, json=body)
        assert_problem(response, 422, words)
        assert len(response.json()["detail"]) < 500
        assert len(response.content) < 30_000


names = st.sampled_from(
    ["items", "baseline", "scenario", "field", "measurement", "model", "cluster", "limits", "steps"]
)


@pytest.mark.parametrize(
    "path", ["/api/estimate/axis", "/api/sweep", "/api/compare", "/api/runs", "/api/runs?dry_run=1"]
)
@given(document=documents(names=names))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_json_comes_to_an_endpoint_is_refused_with_reasons(shared_client, path, document):
    body = json.dumps(document).encode()
    response = shared_client.post(path, content=body, headers={"content-type": "application/json"})
    assert_problem(response, 422)
    assert all(problem["message"] and problem["remedy"] for problem in response.json()["problems"])
