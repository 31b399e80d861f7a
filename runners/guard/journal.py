"""Journal: the rows of a run on disk as they come, and the Measurement that they make where the run is lost.

It lies beside the result until that is written. One JSON object per line: first the Measurement without rows, then
``begins`` with what is known of a row before it is measured, and ``rows`` with what it gave.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from estimator.scenario.codec import decode, encode
from estimator.scenario.measurement import Measurement, Warning
from estimator.scenario.problems import InputProblems
from runners.job import write_measurement

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What a write meets where there is no room, or where a limit leaves none."""

KEPT = "the result that was there is kept: {}"

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Journal:
    """What a journal holds: the run, the rows that were measured, and the one that was begun and not ended, if any."""

    head: Measurement
    rows: list[Row] = field(default_factory=list)
    begun: Row | None = None


def journal_of(result: Path) -> Path:
    """Where the journal of a result lies."""
    return result.with_suffix(".rows.jsonl")


def older_of(result: Path) -> Path:
    """Where the result that an earlier run left in that place is kept while, or because, the new one has failed."""
    return result.with_suffix(".older.json")


def start(path: Path, head: Measurement) -> None:
    """Begin a journal with what is known before the first row."""
    path.write_text(json.dumps(encode(head)) + "\n", encoding="utf-8")


def append(path: Path, **entry: object) -> None:
    """Add one line in one write; nothing where there is no journal, because whoever gave the run up has read it.

    Nothing on a full disk either: the rows are in the result, and lost only if the run is lost before that.
    """
    line = (json.dumps(entry) + "\n").encode()
    with contextlib.suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        before = os.fstat(descriptor).st_size
        try:
            if os.write(descriptor, line) < len(line):
                os.ftruncate(descriptor, before)
        except OSError as error:
            if error.errno not in FULL:
                raise
        finally:
            os.close(descriptor)


def read(path: Path) -> Journal | None:
    """Read a journal up to a line that a dying process left unfinished; None where there is none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
        head = decode(Measurement, json.loads(lines[0]))
    except (OSError, IndexError, ValueError, InputProblems):
        return None
    rows: list[Row] = []
    begun: Row | None = None
    for line in lines[1:]:
        try:
            entry = json.loads(line)
        except ValueError:
            break
        rows += entry.get("rows", [])
        begun = entry.get("begins")
    return Journal(head=head, rows=rows, begun=begun)


def has_rows(result: Path) -> bool:
    """Whether there is a journal with rows that were measured, and so no result yet."""
    journal = read(journal_of(result))
    return journal is not None and bool(journal.rows)


def recover(result: Path, status: str, message: str, row_status: str) -> bool:
    """Write the result that the journal makes, where none is written yet; says whether it did.

    ``status`` and ``message`` are the run's; ``row_status`` is that of a row which was begun and not ended.
    """
    journal = read(journal_of(result))
    if journal is None:
        return False
    written = write_measurement(result, measurement(journal, status, message, row_status), keep=True)
    journal_of(result).unlink(missing_ok=True)
    return written


def measurement(journal: Journal, status: str, message: str, row_status: str) -> Measurement:
    """All rows that were measured, and the one that was not."""
    rows = list(journal.rows)
    if journal.begun is not None:
        rows.append({**journal.begun, "status": row_status, "message": message})
    warning = Warning(code=status, message=message[:2000])
    return replace(journal.head, rows=tuple(rows), status=status, warnings=(*journal.head.warnings, warning))
