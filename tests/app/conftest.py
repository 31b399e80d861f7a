"""What the app's tests share: settings in a temporary folder, a client, and a real PostgreSQL server."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app.disk import DataFolder
from app.pages import compress_plotly, plotly_file
from app.settings import ROOT, Settings
from app.store import Store
from tests.app.examples import HEADROOM_STARTED, ONE_THREAD
from tests.app.postgres import Postgres, engine
from tests.app.small_disk import SmallDisk


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch):
    for name in list(os.environ):
        if name.startswith("HEADROOM_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HEADROOM_PLACEMENT", ONE_THREAD)


@pytest.fixture(scope="session")
def _compressed_plotly(tmp_path_factory) -> Path:
    data = DataFolder(tmp_path_factory.mktemp("compressed"))
    data.create()
    return compress_plotly(plotly_file(ROOT / "static"), data)


@pytest.fixture
def settings(tmp_path, _compressed_plotly) -> Settings:
    """Settings of a server that an earlier one left its compressed plotly.js."""
    samples = tmp_path / "samples"
    samples.mkdir()
    cache = tmp_path / "data" / "cache"
    cache.mkdir(parents=True)
    (cache / _compressed_plotly.name).hardlink_to(_compressed_plotly)
    return Settings(data=tmp_path / "data", samples=samples, probe_cpu=False)


@pytest.fixture
def data(tmp_path) -> DataFolder:
    """A data folder without runs and uploads."""
    folder = DataFolder(tmp_path / "data")
    folder.create()
    return folder


@pytest.fixture
def store(data, tmp_path) -> Iterator[Store]:
    """The index of that folder."""
    opened = Store(f"sqlite:///{tmp_path / 'index.sqlite3'}", data, tmp_path / "samples")
    opened.open()
    yield opened
    opened.close()


@pytest.fixture
def client(settings) -> Iterator[TestClient]:
    from app.main import create_app

    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as found:
        yield found


@pytest.fixture(scope="session")
def shared_client(tmp_path_factory, _compressed_plotly) -> Iterator[TestClient]:
    """A client for endpoints that keep nothing, so that their tests need no server each."""
    from app.main import create_app

    folder = tmp_path_factory.mktemp("shared")
    (folder / "samples").mkdir()
    settings = Settings(data=folder / "data", samples=folder / "samples", probe_cpu=False)
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as found:
        yield found


@pytest.fixture
def served(tmp_path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running ``headroom serve`` of its own, and its address."""
    command = [*HEADROOM_STARTED, "serve", "--port", "0", "--data", str(tmp_path / "served")]
    environment = {**os.environ, "HEADROOM_PROBE_CPU": "false", "HEADROOM_NO_TOKEN": "true"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        yield process, process.stdout.readline().split()[-1]
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL of a private PostgreSQL server."""
    with Postgres() as server:
        yield server.url


@pytest.fixture
def postgres_url(postgres_server) -> Iterator[str]:
    """URL of an empty database of its own for one test."""
    name = f"test_{time.monotonic_ns()}"
    found = engine(postgres_server)
    with found.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    yield postgres_server.replace("/postgres", f"/{name}")
    with found.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def small_disk(tmp_path) -> Iterator[SmallDisk]:
    """A file system of 16 MiB, which a test can fill and make read-only."""
    with SmallDisk(tmp_path / "disk", size_bytes=16 * 1024**2) as found:
        yield found
