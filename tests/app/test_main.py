"""The server as a whole: what it serves, and that every failure is a problem document."""

from __future__ import annotations

import gzip
import re

import pytest
from fastapi.testclient import TestClient

from app.main import create_app
from app.pages import plotly_file, plotly_url
from app.settings import Settings
from estimator.problems import InputProblems
from tests.app.waiting import until


def assert_problem(response, status, *words):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    assert document["status"] == status
    assert {"type", "title", "detail", "problems"} <= set(document)
    for word in words:
        assert word in document["detail"]
    return document


def test_the_page_names_the_installed_plotly(client):
    response = client.get("/")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    assert response.headers["cache-control"] == "no-cache"
    named = re.findall(r"/plotly-[0-9.]+\.min\.js", response.text)
    assert named == [plotly_url()]


def test_every_file_that_the_page_names_is_served_and_revalidated(client):
    page = client.get("/").text
    names = re.findall(r'(?:href|src)="/?((?:css|js)/[^"]+)"', page)
    assert names
    for name in names:
        response = client.get(f"/{name}")
        assert response.status_code == 200, name
        assert response.headers["cache-control"] == "no-cache"
        again = client.get(f"/{name}", headers={"if-none-match": response.headers["etag"]})
        assert again.status_code == 304


def test_plotly_is_compressed_once_and_kept_for_ever(tmp_path):
    settings = Settings(data=tmp_path / "data", samples=tmp_path, probe_cpu=False)
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as client:
        packed = until(lambda: _packed(client), 30)
        assert "immutable" in packed.headers["cache-control"]
        assert packed.headers["vary"] == "accept-encoding"
        assert packed.content == plotly_file().read_bytes()
        plain = client.get(plotly_url(), headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.content == packed.content
    (kept,) = (settings.data / "cache").glob("plotly-*.gz")
    assert gzip.decompress(kept.read_bytes()) == plain.content
    written_ns = kept.stat().st_mtime_ns
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as client:
        until(lambda: _packed(client), 2)
    assert kept.stat().st_mtime_ns == written_ns


def _packed(client):
    response = client.get(plotly_url(), headers={"accept-encoding": "gzip"})
    return response if response.headers.get("content-encoding") == "gzip" else None


def test_an_unknown_path_and_a_wrong_method_say_so(client):
    assert_problem(client.get("/api/nothing"), 404, "/api/nothing")
    assert_problem(client.get("/nothing"), 404)
    assert_problem(client.get("/js/../../app/main.py"), 404)
    assert_problem(client.get("/js/%2e%2e/%2e%2e/pyproject.toml"), 404)
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


def test_a_parameter_that_cannot_be_read_is_named(client):
    document = assert_problem(
        client.post("/api/runs?dry_run=perhaps", json={}),
        422,
    )
    assert document["problems"][0]["field"] == "dry_run"


def test_health_tells_what_works(client):
    document = client.get("/api/health").json()
    assert document["status"] == "ok"
    assert document["database"] == "sqlite"
    assert document["runs"] == {"queued": 0, "running": 0}
    assert document["this_cpu"] == "off"


@pytest.mark.postgres
def test_the_server_works_on_postgresql(settings, postgres_url):
    chosen = settings.model_copy(update={"database_url": postgres_url})
    with TestClient(create_app(chosen), base_url="http://127.0.0.1:8000") as client:
        assert client.get("/api/health").json()["database"] == "postgresql"
        assert client.get("/api/measurements").json() == {"measurements": []}


def test_a_second_server_may_not_use_the_same_data_folder(settings, client):
    with pytest.raises(InputProblems, match="another Headroom server"), TestClient(create_app(settings)):
        pass


def test_beyond_loopback_a_token_is_needed(settings):
    with pytest.raises(InputProblems, match="HEADROOM_TOKEN"):
        create_app(settings.model_copy(update={"host": "0.0.0.0"}))


def test_a_data_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputProblems, match="--data"):
        create_app(Settings(data=tmp_path / "file" / "data", probe_cpu=False))


def test_the_schema_is_served_and_pages_that_load_from_elsewhere_are_not(client):
    assert "/api/estimate" in client.get("/api/openapi.json").json()["paths"]
    assert client.get("/docs").status_code == 404
