"""A private PostgreSQL server for tests, started from the installed binaries; it can be away for a while."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.ports import free_ports


class Postgres:
    """One server on a free port of this machine.

    Its folder is not pytest's, which takes the rights of others away whenever a session of its own begins.
    """

    def __enter__(self) -> Postgres:
        """Make an empty server and start it."""
        self.binaries, self.user = _binaries(), _user()
        self._kept = tempfile.TemporaryDirectory(prefix="headroom-postgres-")
        self.folder = Path(self._kept.name)
        if self.user:
            shutil.chown(self.folder, self.user)
        initdb = [self.binaries / "initdb", "-D", self.folder / "data", "-U", "headroom", "-A", "trust", "-E", "UTF8"]
        subprocess.run([*initdb, "--no-sync"], user=self.user, cwd=self.folder, check=True, capture_output=True)
        (self.port,) = free_ports(1)
        self.url = f"postgresql://headroom@127.0.0.1:{self.port}/postgres"
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Shut it down and take its data away."""
        self.stop()
        self._kept.cleanup()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        arguments = ["-D", self.folder / "data", "-p", str(self.port), "-h", "127.0.0.1", "-k", self.folder, "-F"]
        with (self.folder / "log").open("ab") as log:
            command = [self.binaries / "postgres", *arguments]
            self.server = subprocess.Popen(command, user=self.user, cwd=self.folder, stdout=log, stderr=log)
        deadline_s = time.monotonic() + 180
        while time.monotonic() < deadline_s and self.server.poll() is None:
            try:
                with engine(self.url).connect():
                    return
            except sa.exc.OperationalError:
                time.sleep(0.1)
        pytest.fail(f"PostgreSQL did not start: {(self.folder / 'log').read_text(errors='replace')[-2000:]}")

    def stop(self) -> None:
        """Shut it down without waiting for clients."""
        self.server.send_signal(signal.SIGINT)
        self.server.wait(60)


def engine(url: str) -> sa.Engine:
    """Build an engine that keeps no connection."""
    driver = url.replace("postgresql://", "postgresql+psycopg://")
    return sa.create_engine(driver, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")


def _binaries() -> Path:
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
