"""The page's files: found and kept until they change, and plotly.js compressed once for ever."""

from __future__ import annotations

import gzip
import hashlib
import re
import shutil

from fastapi.testclient import TestClient

from app.main import create_app
from app.pages import BASIC_BUNDLE, VersionedFiles, plotly_file, plotly_url, plotly_version, wheel_file
from app.settings import ROOT, Settings
from tests.app.waiting import until

STATIC = ROOT / "static"
BUNDLE_SHA256 = "99784e3abfb07b142a15e521a439e6d9addceadb3f79553fd24c72774f0649ba"
"""plotly-basic.min.js in the archive of npm's plotly.js-basic-dist-min 4.1.1."""


def test_the_bundle_is_the_published_one_with_its_licence():
    assert hashlib.sha256((STATIC / BASIC_BUNDLE).read_bytes()).hexdigest() == BUNDLE_SHA256
    licence = (STATIC / BASIC_BUNDLE).with_name("LICENSE").read_text()
    assert licence.startswith("MIT License")
    assert "Plotly" in licence


def test_the_bundle_is_of_the_version_of_the_pinned_wheel():
    assert plotly_version(STATIC / BASIC_BUNDLE) == plotly_version(wheel_file())
    assert plotly_file(STATIC) == STATIC / BASIC_BUNDLE


def test_a_wheel_of_another_version_serves_its_own(tmp_path):
    static = shutil.copytree(STATIC, tmp_path / "static")
    bundle = static / BASIC_BUNDLE
    bundle.write_text("/**\n* plotly.js (basic - minified) v0.9.0\n*/")
    settings = Settings(data=tmp_path / "data", samples=tmp_path, probe_cpu=False, static=static)
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as client:
        named = f"/plotly-{plotly_version(wheel_file())}.min.js"
        assert f'src="{named}"' in client.get("/").text
        assert client.get(named, headers={"accept-encoding": "identity"}).content == wheel_file().read_bytes()


def test_the_page_names_the_plotly_that_is_served(client):
    response = client.get("/")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    assert response.headers["cache-control"] == "no-cache"
    named = re.findall(r"/plotly-[^\"]+\.js", response.text)
    assert named == [plotly_url(plotly_file(STATIC))] * 2, "asked for ahead, and run in its turn"
    assert named == re.findall(r"/plotly-[^\"]+\.js", (STATIC / "index.html").read_text())


def test_a_module_that_goes_between_listing_and_reading_is_left_out(tmp_path):
    static = shutil.copytree(STATIC, tmp_path / "static")
    files = VersionedFiles(static)
    files.look()
    (static / "js" / "figures" / "waterfall.js").unlink()
    assert "js/figures/waterfall.js" in files.ahead("explore")
    assert "js/views/explore/explore.js" in files.ahead("explore")


def test_every_file_that_the_page_names_is_kept_for_good_until_one_of_them_changes(tmp_path):
    static = shutil.copytree(STATIC, tmp_path / "static")
    settings = Settings(data=tmp_path / "data", samples=tmp_path, probe_cpu=False, static=static)
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as client:
        names = _own_files(client)
        assert {name.rsplit("/", 1)[1] for name in names} >= {"favicon.svg", "all.css", "theme.js", "main.js"}
        modules = {one.relative_to(static / "js").as_posix() for one in (static / "js").rglob("*.js")}
        begins = {name.partition("/js/")[2] for name in names if "/js/" in name}
        assert {"api.js", "views/explore/explore.js", "figures/waterfall.js"} < begins < modules
        assert not [name for name in begins if name.startswith(("views/search/", "views/studies/"))], "they may wait"
        search = {name.partition("/js/")[2] for name in _own_files(client, "/?view=search") if "/js/" in name}
        assert {"api.js", "state.js", "views/common/palette.js"} < search & begins
        assert "views/explore/explore.js" not in search, "Explore may wait as well"
        assert {name for name in search if name.startswith("views/search/")} == {
            name for name in modules if name.startswith("views/search/")
        }
        assert _own_files(client, "/?view=../../main") == names
        for name in names * 2:
            response = client.get(name)
            assert response.status_code == 200, name
            own = [static / name.split("/", 3)[3]] if not name.endswith("/all.css") else _sheets(static)
            assert response.content == b"\n".join(path.read_bytes() for path in own), "from memory too"
            assert response.headers["content-type"].startswith(_TYPES[name.rsplit(".", 1)[1]])
            assert "immutable" in response.headers["cache-control"]
        (static / "js" / "format.js").write_text("changed")
        assert not set(_own_files(client)) & set(names), "what main.js imports counts too"
        # a page that was open before asks on, and keeps nothing under its old address
        response = client.get(names[-1])
        assert response.headers["cache-control"] == "no-cache"
        again = client.get(names[-1], headers={"if-none-match": response.headers["etag"]})
        assert again.status_code == 304
        (main,) = [name for name in _own_files(client) if name.endswith("/main.js")]
        assert client.get(main.replace("main.js", "format.js")).text == "changed"
        (sheet,) = [name for name in names if name.endswith(".css")]
        (static / "css" / "tokens.css").write_text("changed")
        assert client.get(sheet).headers["cache-control"] == "no-cache"
        (sheet,) = [name for name in _own_files(client) if name.endswith(".css")]
        assert client.get(sheet).text.startswith("changed\n"), "the page's order"


_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def _sheets(static):
    """Every style sheet there is, in the order in which index.html names them."""
    named = [static / name for name in re.findall(r'href="(css/[^"]+)"', (static / "index.html").read_text())]
    assert sorted(named) == sorted((static / "css").iterdir())
    return named


def _own_files(client, path="/"):
    page = client.get(path).text
    assert not re.findall(r'(?:href|src)="/?(?:css|js|favicon)', page)
    return re.findall(r'(?:href|src)="(/static/[^"]+)"', page)


def test_plotly_is_compressed_once_and_kept_for_ever(tmp_path):
    settings = Settings(data=tmp_path / "data", samples=tmp_path, probe_cpu=False)
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as client:
        packed = until(lambda: _packed(client))
        assert "immutable" in packed.headers["cache-control"]
        assert packed.headers["vary"] == "accept-encoding"
        assert packed.content == plotly_file(STATIC).read_bytes()
        plain = client.get(plotly_url(plotly_file(STATIC)), headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.content == packed.content
        shutil.move(settings.data / "cache", tmp_path / "gone")
        assert _packed(client).content == plain.content, "it needs nothing of the data folder"
        shutil.move(tmp_path / "gone", settings.data / "cache")
    (kept,) = (settings.data / "cache").glob("plotly-*.gz")
    assert gzip.decompress(kept.read_bytes()) == plain.content
    written_ns = kept.stat().st_mtime_ns
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as client:
        until(lambda: _packed(client))
    assert kept.stat().st_mtime_ns == written_ns


def _packed(client):
    response = client.get(plotly_url(plotly_file(STATIC)), headers={"accept-encoding": "gzip"})
    return response if response.headers.get("content-encoding") == "gzip" else None
