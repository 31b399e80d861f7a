"""Store: the index of runs, uploads and measurements in SQLite or Postgres; the folders on disk are the truth.

Every table can be dropped: ``rebuild`` reads it again from the data folder. Files are complete before the one
transaction that makes them known.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa

from app import database
from app.disk import DataFolder, finished_folders, leaving, read_json, write_json
from app.encoding import encode_json
from app.runs.run import RUN, Run, read_run
from app.storage import FULL, CannotStoreError, Trouble, trouble_of
from app.summary import SUMMARY, Summary, ops_beside, read_measurement, summarize
from estimator.scenario.measurement import Measurement
from estimator.scenario.op_list import OpList
from estimator.scenario.op_list import from_json as op_list_from_json
from estimator.scenario.problems import InputProblems
from runners.job import RESULT_FILE

_log = logging.getLogger("headroom")


class Store:
    """The index of one data folder; thread-safe, every method one transaction."""

    def __init__(self, url: str, data: DataFolder, samples: Path) -> None:
        self.data, self.samples = data, samples
        self._url, self.engine = url, database.engine_of(url)
        self._changing = threading.Lock()  # of uploads that are there: what one says, another must not take back
        self._left: sa.Engine | None = None  # whoever still waits for its connection learns that it was left
        self.trouble: Trouble | None = None

    def open(self) -> None:
        """Make the tables where they are missing or of another version, and rebuild where the index is behind.

        Raises InputProblems where the database does not answer, CannotStoreError where a disk is full or read-only.
        """
        try:
            database.prepare(self.engine)
            if self.behind():
                self.rebuild()
            with self._transaction() as connection:
                self._put_samples(connection)
        except (sa.exc.DBAPIError, OSError) as error:
            trouble = trouble_of(error)
            if trouble is None:
                raise
            raise CannotStoreError(trouble) from None

    def open_to_read(self) -> None:
        """Open it; where its disk takes nothing, read the folders into an index in memory and say why: ``trouble``."""
        try:
            self.open()
        except CannotStoreError as error:
            self.trouble = error.trouble
            self.engine.dispose()
            self.engine = database.engine_in_memory()
            self.open()

    def take_up(self) -> bool:
        """Go on with the index that could not be opened, made again from the folders; say whether it can be by now."""
        engine = database.engine_of(self._url)
        try:
            database.prepare(engine)
            with contextlib.ExitStack() as stack:
                with engine.begin() as connection:
                    _empty(connection)  # whoever else holds it is waited for here, where nobody waits for us
                    # the index in memory has one connection: from here on nobody reads or writes it
                    stack.enter_context(self.engine.connect())
                    self._fill(connection)
                    self._put_samples(connection)
                self._left, self.engine, self.trouble = self.engine, engine, None
        except (sa.exc.SQLAlchemyError, OSError, InputProblems):
            engine.dispose()
            return False
        return True

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """Begin a transaction on the index; one that waited for another index than the present begins again."""
        while True:
            engine = self.engine
            with engine.begin() as connection:
                if engine is self.engine:
                    yield connection
                    return

    def close(self) -> None:
        """Close all connections."""
        for engine in filter(None, (self.engine, self._left)):
            engine.dispose()

    def check(self) -> str:
        """Return the kind of database after it answered a query."""
        with self._transaction() as connection:
            connection.execute(sa.select(sa.literal(1)))
        return self.engine.dialect.name

    def put_run(self, run: Run, measurement: Measurement | None = None) -> None:
        """Store a run as it stands now and, where it has one, the measurement that it gave."""
        with self._transaction() as connection:
            self._put_run(connection, run, measurement)

    def put_runs(self, runs: list[Run]) -> None:
        """Store new runs, all or none."""
        with self._transaction() as connection:
            for run in runs:
                self._put_run(connection, run, None)

    def run(self, run_id: str) -> Run | None:
        """Return one run."""
        if not _is_id(run_id):
            return None
        with self._transaction() as connection:
            document = connection.scalar(sa.select(database.runs.c.document).where(database.runs.c.id == run_id))
        return None if document is None else RUN.decode(document)

    def runs(self, *, unfinished: bool = False) -> list[Run]:
        """Return all runs, or those that have not ended, newest first."""
        query = sa.select(database.runs.c.document).order_by(database.runs.c.id.desc())
        if unfinished:
            query = query.where(database.runs.c.state.in_(("queued", "running")))
        with self._transaction() as connection:
            return [RUN.decode(document) for document in connection.scalars(query)]

    def put_upload(self, upload_id: str) -> list[Summary]:
        """Make a complete upload folder known; return the summaries of its measurements in their order."""
        rows = list(self._upload_rows(self.data.uploads / upload_id))
        with self._transaction() as connection:
            _put_upload(connection, upload_id, rows)
        return [SUMMARY.decode(row["document"]) for row in rows]

    def remove_run(self, run_id: str) -> None:
        """Delete a run that has ended: its folder, and the measurement that it gave."""

        def rows(connection: sa.Connection) -> None:
            for table in (database.runs, database.measurements):
                connection.execute(sa.delete(table).where(table.c.id == run_id))

        self._remove(self.data.runs / run_id, rows)

    def remove_upload(self, upload_id: str) -> bool:
        """Delete an uploaded file and its measurements; tell whether it was known."""
        if not _is_id(upload_id):
            return False
        table = database.measurements
        with self._transaction() as connection:
            known = connection.scalar(sa.select(database.uploads.c.id).where(database.uploads.c.id == upload_id))
        if known is None:
            return False

        def rows(connection: sa.Connection) -> None:
            connection.execute(sa.delete(database.uploads).where(database.uploads.c.id == upload_id))
            inside = table.c.path.startswith(f"uploads/{upload_id}/", autoescape=True)
            connection.execute(sa.delete(table).where(inside))

        with self._changing:
            self._remove(self.data.uploads / upload_id, rows)
        return True

    def summaries(self, most: int = 0, after: str = "") -> list[Summary]:
        """Return a line for every measurement, newest first, the bundled ones last.

        At most ``most`` of them, 0 for all, and only those that follow the one named ``after``; raises KeyError where
        there is none of that name.
        """
        table = database.measurements
        query = sa.select(table.c.document).order_by(table.c.bundled, table.c.created_s.desc(), table.c.id)
        with self._transaction() as connection:
            if after:
                place = sa.select(table.c.bundled, table.c.created_s, table.c.id).where(table.c.id == after)
                last = connection.execute(place).one_or_none()
                if last is None:
                    raise KeyError(after)
                older = sa.and_(table.c.created_s == last.created_s, table.c.id > last.id)
                listed = sa.and_(table.c.bundled == last.bundled, sa.or_(table.c.created_s < last.created_s, older))
                query = query.where(listed if last.bundled else sa.or_(table.c.bundled, listed))
            return [SUMMARY.decode(document) for document in connection.scalars(query.limit(most or None))]

    def measurement(self, measurement_id: str) -> Measurement | None:
        """Return one whole measurement from its file, or None where it is not known or its file has gone."""
        path = self._path(measurement_id)
        if path is None:
            return None
        try:
            measurement = read_measurement(path)
        except (OSError, msgspec.DecodeError) as error:
            _log.warning("measurement %s cannot be read: %s", measurement_id, error)
            return None
        return replace(measurement, id=measurement_id)

    def op_list(self, measurement_id: str) -> OpList | None:
        """Return the op list that came with a measurement, or None where it has none."""
        path = self._path(measurement_id)
        if path is None:
            return None
        try:
            return op_list_from_json(read_json(ops_beside(path)))
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, InputProblems) as error:
            _log.warning("op list of measurement %s cannot be read: %s", measurement_id, error)
            return None

    def put_said(self, measurement_id: str, **said: Mapping[str, Any] | int) -> Measurement | None:
        """Store what people say of an upload's measurement: ``scenario``, ``device``, ``world_size``.

        None where it is no such one.
        """
        fields: dict[str, Any] = {
            name: value if isinstance(value, int) else dict(value) for name, value in said.items()
        }
        with self._changing:
            path, known = self._path(measurement_id), self.measurement(measurement_id)
            if path is None or known is None or not path.is_relative_to(self.data.uploads):
                return None
            measurement = replace(known, **fields)
            write_json(path, measurement)
            folder = path.parent.parent
            rows = list(self._upload_rows(folder))
            with self._transaction() as connection:
                _put_upload(connection, folder.name, rows)
        return measurement

    def _path(self, measurement_id: str) -> Path | None:
        if not _is_id(measurement_id):
            return None
        with self._transaction() as connection:
            path = connection.scalar(
                sa.select(database.measurements.c.path).where(database.measurements.c.id == measurement_id)
            )
        if path is None:
            return None
        root: Path = self.samples if path.startswith("samples/") else self.data.root
        return root / str(path).removeprefix("samples/")

    def bundled(self) -> list[str]:
        """Return the ids of the bundled measurements, the default one first."""
        query = (
            sa.select(database.measurements.c.id)
            .where(database.measurements.c.bundled)
            .order_by(database.measurements.c.id)
        )
        with self._transaction() as connection:
            return list(connection.scalars(query))

    def behind(self) -> bool:
        """Tell whether the index and the folders on disk name different runs or uploads."""
        with self._transaction() as connection:
            runs = set(connection.scalars(sa.select(database.runs.c.id)))
            uploads = set(connection.scalars(sa.select(database.uploads.c.id)))
        return runs != _names(self.data.runs) or uploads != _names(self.data.uploads)

    def rebuild(self) -> None:
        """Read the whole index again from the folders; a folder that cannot be read is logged and left out."""
        with self._transaction() as connection:
            _empty(connection)
            self._fill(connection)

    def _fill(self, connection: sa.Connection) -> None:
        for folder in finished_folders(self.data.runs):
            try:
                run = read_run(folder)
            except (OSError, msgspec.DecodeError) as error:
                _log.warning("run folder %s left out: %s", folder, error)
                continue
            self._put_run(connection, *_with_measurement(folder, run))
        for folder in finished_folders(self.data.uploads):
            try:
                rows = list(self._upload_rows(folder))
            except (OSError, msgspec.DecodeError, KeyError) as error:
                _log.warning("upload folder %s left out: %s", folder, error)
                continue
            _put_upload(connection, folder.name, rows)

    def _remove(self, folder: Path, rows: Callable[[sa.Connection], None]) -> None:
        """Delete a folder and its rows; on a full disk the folder goes first, because the index needs space too."""
        with leaving(folder):
            try:
                with self._transaction() as connection:
                    rows(connection)
                return
            except sa.exc.DBAPIError as error:
                if trouble_of(error) is not FULL:
                    raise
        database.give_back(self.engine)
        with self._transaction() as connection:
            rows(connection)

    def _put_run(self, connection: sa.Connection, run: Run, measurement: Measurement | None) -> None:
        row = {"id": run.id, "state": run.state, "document": encode_json(run)}
        database.put(connection, database.runs, row)
        if measurement is not None:
            path = self.data.runs / run.id / RESULT_FILE
            row = self._row(path, measurement, run.finished_s or run.created_s)
            database.put(connection, database.measurements, row)

    def _upload_rows(self, folder: Path) -> Iterator[dict[str, Any]]:
        created_s = float(read_json(folder / "upload.json")["created_s"])
        for path in sorted((folder / "measurements").glob("*.json")):
            yield self._row(path, read_measurement(path), created_s, upload_id=folder.name)

    def _put_samples(self, connection: sa.Connection) -> None:
        connection.execute(sa.delete(database.measurements).where(database.measurements.c.bundled))
        for path in sorted(self.samples.glob("*.json")):
            try:
                measurement = replace(read_measurement(path), id=path.stem)
            except (OSError, msgspec.DecodeError) as error:
                _log.warning("bundled measurement %s left out: %s", path, error)
                continue
            database.put(connection, database.measurements, self._row(path, measurement, 0.0, bundled=True))

    def _row(
        self, path: Path, measurement: Measurement, created_s: float, *, bundled: bool = False, upload_id: str = ""
    ) -> dict[str, Any]:
        summary = summarize(measurement, created_s=created_s, bundled=bundled, upload_id=upload_id)
        return {
            "id": measurement.id,
            "created_s": created_s,
            "bundled": bundled,
            "path": f"samples/{path.name}" if bundled else str(path.relative_to(self.data.root)),
            "document": encode_json(summary),
        }


def _is_id(text: str) -> bool:
    # PostgreSQL fails on texts with NUL instead of finding nothing
    return text.isprintable() and len(text) < 200


def _names(parent: Path) -> set[str]:
    return {folder.name for folder in finished_folders(parent)}


def _with_measurement(folder: Path, run: Run) -> tuple[Run, Measurement | None]:
    if run.measurement_id is None:
        return run, None
    try:
        return run, replace(read_measurement(folder / RESULT_FILE), id=run.id)
    except (OSError, msgspec.DecodeError) as error:
        _log.warning("result of run %s left out: %s", folder, error)
        return replace(run, measurement_id=None), None


def _empty(connection: sa.Connection) -> None:
    for table in (database.runs, database.uploads, database.measurements):
        connection.execute(sa.delete(table))


def _put_upload(connection: sa.Connection, upload_id: str, rows: list[dict[str, Any]]) -> None:
    database.put(connection, database.uploads, {"id": upload_id})
    for row in rows:
        database.put(connection, database.measurements, row)
