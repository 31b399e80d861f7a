"""The page's files: found, revalidated, and plotly.js compressed once for ever."""

from __future__ import annotations

import gzip
import re

from fastapi.testclient import TestClient

from app.main import create_app
from app.pages import plotly_file, plotly_url
from app.settings import Settings
from tests.app.waiting import until


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
