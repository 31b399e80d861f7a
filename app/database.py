"""Database: the tables of the index, and the engine for SQLite or Postgres; what is lost here can be made again."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from app.storage import CannotStoreError, unwritable
from estimator.scenario.problems import InputProblems, Problem

SCHEMA_VERSION = "4"
_REMEDY = "Correct it (sqlite:///PATH or postgresql://USER@HOST/NAME), or unset it."
_log = logging.getLogger("headroom")
SQLITE_PATIENCE_MS = 10_000
"""How long SQLite waits for a database that somebody else locks."""

_BOUNDS = {"connect_timeout": 5, "tcp_user_timeout": 10_000}
"""Of libpq, in seconds and milliseconds: a host that is gone does not answer at all."""

_metadata = sa.MetaData()
_meta = sa.Table(
    "headroom_meta", _metadata, sa.Column("key", sa.String, primary_key=True), sa.Column("value", sa.String)
)
runs = sa.Table(
    "headroom_runs",
    _metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("state", sa.String, nullable=False, index=True),
    sa.Column("document", sa.LargeBinary, nullable=False),
)
uploads = sa.Table("headroom_uploads", _metadata, sa.Column("id", sa.String, primary_key=True))
measurements = sa.Table(
    "headroom_measurements",
    _metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("created_s", sa.Float, nullable=False, index=True),
    sa.Column("bundled", sa.Boolean, nullable=False, index=True),
    sa.Column("path", sa.String, nullable=False),
    sa.Column("document", sa.LargeBinary, nullable=False),
)


def engine_of(url: str) -> sa.Engine:
    """Build the engine of a database URL; raise InputProblems where it is none that the index can use."""
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise _refused("it is not a database URL") from None
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() == "postgresql":
        return _postgres(parsed)
    if parsed.get_backend_name() != "sqlite":
        raise _refused(f"{parsed.get_backend_name()!r} is not supported")
    engine = sa.create_engine(parsed)

    @sa.event.listens_for(engine, "connect")
    def _settings(connection: Any, record: Any) -> None:
        for pragma in (f"busy_timeout={SQLITE_PATIENCE_MS}", "journal_mode=WAL", "synchronous=NORMAL"):
            connection.execute(f"PRAGMA {pragma}").close()

    return engine


def _postgres(url: sa.URL) -> sa.Engine:
    bounds = {name: most for name, most in _BOUNDS.items() if name not in url.query}
    try:
        return sa.create_engine(url, pool_pre_ping=True, connect_args=bounds)
    except (ImportError, sa.exc.NoSuchModuleError):
        driver = url.get_driver_name()
        remedy = "Install it by make run EXTRAS=postgres or pip install 'psycopg[binary]', or unset the variable."
        if driver != "psycopg":
            remedy = "Write postgresql://USER@HOST/NAME, which uses psycopg, or install that driver."
        raise _refused(f"PostgreSQL's driver {driver} is not installed", remedy) from None


def engine_in_memory() -> sa.Engine:
    """Build the engine of an index that lives as long as it does; one transaction at a time."""
    return sa.create_engine(
        "sqlite://", poolclass=sa.QueuePool, pool_size=1, max_overflow=0, connect_args={"check_same_thread": False}
    )


def prepare(engine: sa.Engine) -> None:
    """Make the tables where they are missing or of another version; a damaged SQLite file is begun again.

    Raises InputProblems where the database does not answer, CannotStoreError where that is its disk's fault.
    """
    try:
        try:
            _make_tables(engine)
        except sa.exc.DatabaseError as error:
            if not _is_damaged(error):
                raise
            _discard(engine)
            _make_tables(engine)
    except sa.exc.DatabaseError as error:
        file = engine.url.database if engine.dialect.name == "sqlite" else None
        hindrance = unwritable(Path(file).parent) if file and Path(file).parent.is_dir() else None
        if hindrance:
            raise CannotStoreError(hindrance) from None
        reason = str(error.orig).strip().splitlines()[0]
        raise _refused(f"the index database does not answer: {reason}") from None


def give_back(engine: sa.Engine) -> None:
    """Let SQLite take up its log again from the start, so that the next change needs no space, as far as it can."""
    if engine.dialect.name == "sqlite":
        with contextlib.suppress(sa.exc.DBAPIError), engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(RESTART)")


def put(connection: sa.Connection, table: sa.Table, row: dict[str, Any]) -> None:
    """Store a row in place of the one with its id."""
    connection.execute(sa.delete(table).where(table.c.id == row["id"]))
    connection.execute(sa.insert(table).values(**row))


def _make_tables(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        _metadata.create_all(connection)
        if connection.scalar(sa.select(_meta.c.value).where(_meta.c.key == "schema")) != SCHEMA_VERSION:
            _metadata.drop_all(connection)
            _metadata.create_all(connection)
            connection.execute(sa.insert(_meta).values(key="schema", value=SCHEMA_VERSION))


def _is_damaged(error: sa.exc.DatabaseError) -> bool:
    """Tell a file that is no database from one that is locked or cannot be written."""
    name = getattr(error.orig, "sqlite_errorname", "")
    return name == "SQLITE_NOTADB" or name.startswith("SQLITE_CORRUPT")


def _discard(engine: sa.Engine) -> None:
    path = engine.url.database
    assert path, "only a file can be damaged"
    _log.warning("the index %s is damaged; it is made again from the data folder", path)
    engine.dispose()
    for suffix in ("", "-wal", "-shm"):
        Path(path + suffix).unlink(missing_ok=True)


def _refused(message: str, remedy: str = _REMEDY) -> InputProblems:
    return InputProblems([Problem(field="HEADROOM_DATABASE_URL", message=message, remedy=remedy)])
