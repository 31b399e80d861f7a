"""Nsight Systems, exported as SQLite (``nsys export --type sqlite``): kernels of the whole recording, by name.

The database is opened read-only and believed in nothing: only its plain tables are read, by statements that stand here.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import Any

from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.names import short_name
from app.importers.source import Source
from app.importers.whole_recording import listed, no_steps
from estimator.scenario.measurement import Kernel, Measurement, Origin, Warning
from runners.trace.kernel_category import category_of

_KERNELS, _GRAPHS, _COPIES = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
)
_STEPS_BETWEEN_LOOKS, _REMEDY = 100_000, "Export the report again: nsys export --type sqlite REPORT.nsys-rep"
_NS = 1e-9


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Sum kernels by name; raise ImportRefused where the database holds none, or is something else."""
    if source.compressed:
        raise ImportRefused("nsys", "", "a compressed database cannot be read", "Unpack it and upload the .sqlite.")
    until = time.monotonic() + limits.wall_s / 2
    try:
        with closing(sqlite3.connect(f"{source.path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            database.execute("PRAGMA trusted_schema = OFF")
            database.execute("PRAGMA query_only = ON")
            database.execute("PRAGMA cell_size_check = ON")
            database.set_progress_handler(lambda: int(time.monotonic() > until), _STEPS_BETWEEN_LOOKS)
            return _read(database, filename, limits)
    except (sqlite3.Error, UnicodeDecodeError) as error:  # its messages quote the file, whose bytes may be no text
        message = f"the database cannot be read ({type(error).__name__}: {str(error)[:100]})"
        raise ImportRefused("nsys", "", message, _REMEDY) from None


def _read(database: sqlite3.Connection, filename: str, limits: Limits) -> Imported:
    tables = _tables(database)
    graphs = _count(database, tables, _GRAPHS)
    if _KERNELS not in tables or "StringIds" not in tables:
        if graphs:
            message = "its kernels ran in CUDA graphs, which were recorded whole"
            raise ImportRefused("nsys", "", message, "Profile again with --cuda-graph-trace=node.")
        message = "this SQLite database holds no kernels of Nsight Systems"
        raise ImportRefused("nsys", "", message, f"{_REMEDY}; record with --trace=cuda.")
    name = next((one for one in ("demangledName", "shortName", "mangledName") if one in tables[_KERNELS]), None)
    if name is None:
        raise ImportRefused("nsys", _KERNELS, "its kernels have no names", _REMEDY)
    summed = database.execute(
        f'SELECT s.value, COUNT(*), SUM(k."end" - k.start), MIN(k.start), MAX(k."end") FROM {_KERNELS} k '  # noqa: S608
        f"LEFT JOIN StringIds s ON s.id = k.{name} GROUP BY k.{name} ORDER BY 3 DESC"
    ).fetchall()
    rows = [row for row in summed if all(isinstance(value, int) for value in row[1:]) and row[2] >= 0]
    found = [_kernel(row) for row in rows]
    if not found:
        raise ImportRefused("nsys", _KERNELS, "no kernel was recorded", f"{_REMEDY}; record with --trace=cuda.")
    window_s = (max(row[4] for row in rows) - min(row[3] for row in rows)) * _NS
    count, total_ns = _sum(database, tables, _COPIES) or (0, 0)
    kept, left_out = listed(found, limits.kernels, (count, total_ns * _NS))
    warnings = [no_steps("nsys")]
    if graphs:
        message = f"{graphs:,} replays of CUDA graphs lack their kernels; record with --cuda-graph-trace=node"
        warnings.append(Warning(code="cuda-graphs", message=message))
    environment: dict[str, Any] = {"recorded_s": window_s}
    warnings += left_out
    measurement = Measurement(
        label=filename[:200],
        origin=Origin(kind="upload", format="nsys", producer="Nsight Systems", version=_version(database, tables)),
        device=_device(database, tables),
        kernels=kept,
        environment=environment,
        warnings=tuple(warnings),
    )
    return Imported(measurements=(measurement,), warnings=tuple(warnings))


def _kernel(row: tuple[Any, ...]) -> Kernel:
    name = short_name(str(row[0] or "(unnamed)"))
    return Kernel(name=name, category=category_of(name), count=row[1], total_s=row[2] * _NS)


def _tables(database: sqlite3.Connection) -> dict[str, set[str]]:
    """Plain tables and their columns; views and virtual tables, which could run something, are not among them."""
    listed = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    plain = [name for name, sql in listed if isinstance(sql, str) and not sql.upper().startswith("CREATE VIRTUAL")]
    wanted = [name for name in plain if name in _WANTED]
    return {name: {row[1] for row in database.execute(f"PRAGMA table_info({name})")} for name in wanted}


_WANTED = (_KERNELS, _GRAPHS, _COPIES, "StringIds", "TARGET_INFO_GPU", "META_DATA_EXPORT")


def _count(database: sqlite3.Connection, tables: dict[str, set[str]], table: str) -> int:
    return int(database.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]) if table in tables else 0  # noqa: S608


def _sum(database: sqlite3.Connection, tables: dict[str, set[str]], table: str) -> tuple[int, int] | None:
    if table not in tables:
        return None
    count, total = database.execute(f'SELECT COUNT(*), SUM("end" - start) FROM {table}').fetchone()  # noqa: S608
    return (count, total) if count and isinstance(total, int) and total >= 0 else None


def _device(database: sqlite3.Connection, tables: dict[str, set[str]]) -> dict[str, Any]:
    if "name" not in tables.get("TARGET_INFO_GPU", ()):
        return {}
    names = [str(row[0])[:100] for row in database.execute("SELECT name FROM TARGET_INFO_GPU LIMIT 64") if row[0]]
    return {"name": names[0], "count": len(names)} if names else {}


def _version(database: sqlite3.Connection, tables: dict[str, set[str]]) -> str:
    if not {"name", "value"} <= tables.get("META_DATA_EXPORT", set()):
        return ""
    query = "SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_SCHEMA_VERSION' LIMIT 1"
    found = database.execute(query).fetchone()
    return str(found[0])[:20] if found else ""
