"""What the app's tests share: settings in a temporary folder, a client, and a real PostgreSQL server."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from app.disk import DataFolder
from app.pages import compress_plotly
from app.settings import Settings
from app.store import Store
from tests.app.examples import HEADROOM


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch):
    for name in list(os.environ):
        if name.startswith("HEADROOM_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def _compressed_plotly(tmp_path_factory) -> Path:
    data = DataFolder(tmp_path_factory.mktemp("compressed"))
    data.create()
    return compress_plotly(data)


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
    command = [*HEADROOM, "serve", "--port", "0", "--data", str(tmp_path / "served")]
    environment = {**os.environ, "HEADROOM_PROBE_CPU": "false", "HEADROOM_NO_TOKEN": "true"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        yield process, process.stdout.readline().split()[-1]
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory) -> Iterator[str]:
    """URL of a private PostgreSQL server on a free port, started from the installed binaries."""
    binaries = _postgres_binaries()
    user = _user()
    folder = tmp_path_factory.mktemp("postgres")
    if user:
        shutil.chown(folder, user)
        for parent in folder.parents:
            if parent == Path(tempfile.gettempdir()):
                break
            parent.chmod(0o711)
    data = folder / "data"
    options = {"user": user, "cwd": folder, "check": True, "capture_output": True}
    initdb = [binaries / "initdb", "-D", data, "-U", "headroom", "-A", "trust", "-E", "UTF8", "--no-sync"]
    subprocess.run(initdb, **options)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    arguments = ["-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", folder, "-F"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([binaries / "postgres", *arguments], user=user, cwd=folder, stdout=log, stderr=log)
    try:
        url = f"postgresql://headroom@127.0.0.1:{port}/postgres"
        _wait_until_it_answers(url, server, folder / "log")
        yield url
    finally:
        server.send_signal(signal.SIGINT)  # fast shutdown: it does not wait for clients
        server.wait(20)


@pytest.fixture
def postgres_url(postgres_server) -> Iterator[str]:
    """URL of an empty database of its own for one test."""
    name = f"test_{time.monotonic_ns()}"
    engine = _engine(postgres_server)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    yield postgres_server.replace("/postgres", f"/{name}")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")


def _engine(url: str) -> sa.Engine:
    driver = url.replace("postgresql://", "postgresql+psycopg://")
    return sa.create_engine(driver, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")


def _postgres_binaries() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    on_path = shutil.which("postgres")
    if found:
        return found[-1].parent
    if on_path and shutil.which("initdb"):
        return Path(on_path).resolve().parent
    pytest.fail("No PostgreSQL server is installed. Install the package 'postgresql' (apt-get install postgresql).")


def _user() -> str | None:
    """Name an unprivileged user where we are root, because PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    pytest.fail("PostgreSQL does not run as root, and there is no user 'postgres' or 'nobody'.")


def _wait_until_it_answers(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    engine = _engine(url)
    deadline_s = time.monotonic() + 30
    while time.monotonic() < deadline_s and server.poll() is None:
        try:
            with engine.connect():
                return
        except sa.exc.OperationalError:
            time.sleep(0.1)
    pytest.fail(f"PostgreSQL did not start: {log.read_text(errors='replace')[-2000:]}")
