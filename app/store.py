"""Store: the index of runs, uploads and measurements in SQLite or Postgres; the folders on disk are the truth.

Every table can be dropped: ``rebuild`` reads it again from the data folder. Files are complete before the one
transaction that makes them known.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa

from app.disk import DataFolder, finished_folders, read_json
from app.encoding import encode_json
from app.run import Run, read_run
from app.summary import Summary, read_measurement, summarize
from estimator.measurement import Measurement
from estimator.problems import InputProblems, Problem

SCHEMA_VERSION = "1"
_log = logging.getLogger("headroom")

_metadata = sa.MetaData()
_meta = sa.Table(
    "headroom_meta", _metadata, sa.Column("key", sa.String, primary_key=True), sa.Column("value", sa.String)
)
_runs = sa.Table(
    "headroom_runs",
    _metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("state", sa.String, nullable=False, index=True),
    sa.Column("document", sa.LargeBinary, nullable=False),
)
_uploads = sa.Table("headroom_uploads", _metadata, sa.Column("id", sa.String, primary_key=True))
_measurements = sa.Table(
    "headroom_measurements",
    _metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("created_s", sa.Float, nullable=False, index=True),
    sa.Column("bundled", sa.Boolean, nullable=False, index=True),
    sa.Column("path", sa.String, nullable=False),
    sa.Column("document", sa.LargeBinary, nullable=False),
)


class Store:
    """The index of one data folder; thread-safe, every method one transaction."""

    def __init__(self, url: str, data: DataFolder, samples: Path) -> None:
        self.data, self.samples = data, samples
        self.engine = _engine(url)

    def open(self) -> None:
        """Make the tables where they are missing or of another version, and rebuild where the index is behind.

        Raises InputProblems where the database does not answer.
        """
        try:
            self._prepare()
        except sa.exc.DatabaseError as error:
            # SQLite says "not a database" or "malformed" only when it reads; an index may simply be made again
            if self.engine.dialect.name != "sqlite" or not self._discard_sqlite():
                raise _refused(f"the index database does not answer: {str(error.orig).splitlines()[0]}") from None
            self._prepare()
        if self.behind():
            self.rebuild()
        self._index_samples()

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def check(self) -> str:
        """Return the kind of database after it answered a query."""
        with self.engine.connect() as connection:
            connection.execute(sa.select(sa.literal(1)))
        return self.engine.dialect.name

    def put_run(self, run: Run, measurement: Measurement | None = None) -> None:
        """Store a run as it stands now and, where it has one, the measurement that it gave."""
        with self.engine.begin() as connection:
            _put(connection, _runs, {"id": run.id, "state": run.state, "document": encode_json(run)})
            if measurement is not None:
                created_s = run.finished_s or run.created_s
                _put(
                    connection,
                    _measurements,
                    self._row(self.data.runs / run.id / "result.json", measurement, created_s),
                )

    def run(self, run_id: str) -> Run | None:
        """Return one run."""
        if not _is_id(run_id):
            return None
        with self.engine.connect() as connection:
            document = connection.scalar(sa.select(_runs.c.document).where(_runs.c.id == run_id))
        return None if document is None else msgspec.json.decode(document, type=Run)

    def runs(self, *, unfinished: bool = False) -> list[Run]:
        """Return all runs, or those that have not ended, newest first."""
        query = sa.select(_runs.c.document).order_by(_runs.c.id.desc())
        if unfinished:
            query = query.where(_runs.c.state.in_(("queued", "running")))
        with self.engine.connect() as connection:
            return [msgspec.json.decode(document, type=Run) for document in connection.scalars(query)]

    def put_upload(self, upload_id: str) -> list[Summary]:
        """Make a complete upload folder known; return the summaries of its measurements in their order."""
        rows = list(self._upload_rows(self.data.uploads / upload_id))
        with self.engine.begin() as connection:
            _put(connection, _uploads, {"id": upload_id})
            for row in rows:
                _put(connection, _measurements, row)
        return [msgspec.json.decode(row["document"], type=Summary) for row in rows]

    def summaries(self) -> list[Summary]:
        """Return a line for every measurement, newest first, the bundled ones last."""
        table = _measurements
        query = sa.select(table.c.document).order_by(table.c.bundled, table.c.created_s.desc(), table.c.id)
        with self.engine.connect() as connection:
            return [msgspec.json.decode(document, type=Summary) for document in connection.scalars(query)]

    def measurement(self, measurement_id: str) -> Measurement | None:
        """Return one whole measurement from its file, or None where it is not known or its file has gone."""
        if not _is_id(measurement_id):
            return None
        with self.engine.connect() as connection:
            path = connection.scalar(sa.select(_measurements.c.path).where(_measurements.c.id == measurement_id))
        if path is None:
            return None
        root = self.samples if path.startswith("samples/") else self.data.root
        try:
            measurement = read_measurement(root / path.removeprefix("samples/"))
        except (OSError, msgspec.DecodeError) as error:
            _log.warning("measurement %s cannot be read: %s", measurement_id, error)
            return None
        return replace(measurement, id=measurement_id)

    def bundled(self) -> list[str]:
        """Return the ids of the bundled measurements, the default one first."""
        query = sa.select(_measurements.c.id).where(_measurements.c.bundled).order_by(_measurements.c.id)
        with self.engine.connect() as connection:
            return list(connection.scalars(query))

    def behind(self) -> bool:
        """Tell whether the index and the folders on disk name different runs or uploads."""
        with self.engine.connect() as connection:
            runs = set(connection.scalars(sa.select(_runs.c.id)))
            uploads = set(connection.scalars(sa.select(_uploads.c.id)))
        return runs != _names(self.data.runs) or uploads != _names(self.data.uploads)

    def rebuild(self) -> None:
        """Read the whole index again from the folders; a folder that cannot be read is logged and left out."""
        with self.engine.begin() as connection:
            for table in (_runs, _uploads, _measurements):
                connection.execute(sa.delete(table))
            for folder in finished_folders(self.data.runs):
                try:
                    run = read_run(folder)
                except (OSError, msgspec.DecodeError) as error:
                    _log.warning("run folder %s left out: %s", folder, error)
                    continue
                if run.measurement_id:
                    try:
                        measurement = replace(read_measurement(folder / "result.json"), id=run.id)
                        created_s = run.finished_s or run.created_s
                        _put(connection, _measurements, self._row(folder / "result.json", measurement, created_s))
                    except (OSError, msgspec.DecodeError) as error:
                        _log.warning("result of run %s left out: %s", folder, error)
                        run = replace(run, measurement_id=None)
                _put(connection, _runs, {"id": run.id, "state": run.state, "document": encode_json(run)})
            for folder in finished_folders(self.data.uploads):
                try:
                    rows = list(self._upload_rows(folder))
                except (OSError, msgspec.DecodeError, KeyError) as error:
                    _log.warning("upload folder %s left out: %s", folder, error)
                    continue
                _put(connection, _uploads, {"id": folder.name})
                for row in rows:
                    _put(connection, _measurements, row)

    def _upload_rows(self, folder: Path) -> Iterator[dict[str, Any]]:
        created_s = float(read_json(folder / "upload.json")["created_s"])
        for path in sorted((folder / "measurements").glob("*.json")):
            yield self._row(path, read_measurement(path), created_s)

    def _index_samples(self) -> None:
        with self.engine.begin() as connection:
            connection.execute(sa.delete(_measurements).where(_measurements.c.bundled))
            for path in sorted(self.samples.glob("*.json")):
                try:
                    measurement = replace(read_measurement(path), id=path.stem)
                except (OSError, msgspec.DecodeError) as error:
                    _log.warning("bundled measurement %s left out: %s", path, error)
                    continue
                _put(connection, _measurements, self._row(path, measurement, 0.0, bundled=True))

    def _row(self, path: Path, measurement: Measurement, created_s: float, bundled: bool = False) -> dict[str, Any]:
        summary = summarize(measurement, created_s=created_s, bundled=bundled)
        return {
            "id": measurement.id,
            "created_s": created_s,
            "bundled": bundled,
            "path": f"samples/{path.name}" if bundled else str(path.relative_to(self.data.root)),
            "document": encode_json(summary),
        }

    def _prepare(self) -> None:
        with self.engine.begin() as connection:
            _metadata.create_all(connection)
            if connection.scalar(sa.select(_meta.c.value).where(_meta.c.key == "schema")) != SCHEMA_VERSION:
                _metadata.drop_all(connection)
                _metadata.create_all(connection)
                connection.execute(sa.insert(_meta).values(key="schema", value=SCHEMA_VERSION))
        if self.engine.dialect.name == "sqlite":
            with self.engine.connect() as connection:
                if connection.exec_driver_sql("PRAGMA quick_check").scalar() != "ok":
                    raise sa.exc.DatabaseError("PRAGMA quick_check", None, ValueError("the index is damaged"))

    def _discard_sqlite(self) -> bool:
        path = self.engine.url.database
        if not path or not Path(path).is_file():
            return False
        _log.warning("the index %s is damaged; it is made again from the data folder", path)
        self.engine.dispose()
        for suffix in ("", "-wal", "-shm"):
            Path(path + suffix).unlink(missing_ok=True)
        return True


def _is_id(text: str) -> bool:
    # PostgreSQL fails on texts with NUL instead of finding nothing
    return text.isprintable() and len(text) < 200


def _names(parent: Path) -> set[str]:
    return {folder.name for folder in finished_folders(parent)}


def _put(connection: sa.Connection, table: sa.Table, row: dict[str, Any]) -> None:
    connection.execute(sa.delete(table).where(table.c.id == row["id"]))
    connection.execute(sa.insert(table).values(**row))


def _refused(message: str) -> InputProblems:
    remedy = "Correct HEADROOM_DATABASE_URL (sqlite:///PATH or postgresql://USER@HOST/NAME), or unset it."
    return InputProblems([Problem(field="database_url", message=message, remedy=remedy)])


def _engine(url: str) -> sa.Engine:
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise _refused("it is not a database URL") from None
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() == "postgresql":
        return sa.create_engine(parsed, pool_pre_ping=True)
    if parsed.get_backend_name() != "sqlite":
        raise _refused(f"{parsed.get_backend_name()!r} is not supported")
    engine = sa.create_engine(parsed)

    @sa.event.listens_for(engine, "connect")
    def _settings(connection: Any, record: Any) -> None:
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=10000"):
            connection.execute(f"PRAGMA {pragma}").close()

    return engine
