"""Storage: what keeps the server from storing something, a full or read-only disk or a database that is away."""

from __future__ import annotations

import errno
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from estimator.scenario.problems import InputProblems, Problem

_FULL = (errno.ENOSPC, errno.EDQUOT)
_TRIED_BYTES = 1 << 16
"""As much as SQLite needs to open an index."""

_SPACE = "Free some space: delete runs and uploads here, or files of others on that disk."
_WRITE = "Let the server write there (mount -o remount,rw, or its owner and rights), and start it again."
_WAIT = "Try again when it answers; nothing is lost, and runs go on."


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """Why nothing can be stored now: a status of HTTP (503: it passes, 507: somebody has to act), cause and remedy."""

    status: int
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.message[0].upper()}{self.message[1:]}. {self.remedy}"

    def problem(self, field: str) -> Problem:
        """Say it of a setting."""
        return Problem(field=field, message=self.message, remedy=self.remedy)


class CannotStoreError(InputProblems):
    """Raised where nothing can be stored in the data folder; ``trouble`` says why."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__([trouble.problem("data")])
        self.trouble = trouble


FULL = Trouble(status=507, message="the disk is full", remedy=_SPACE)
READ_ONLY = Trouble(status=507, message="the disk is read-only", remedy=_WRITE)
DENIED = Trouble(status=507, message="the server may not write in its data folder", remedy=_WRITE)


def trouble_of(error: BaseException) -> Trouble | None:
    """Tell what keeps from storing by the exception that it raised; None where it is something else."""
    if isinstance(error, sa.exc.TimeoutError):
        return _away("it has no connection left")
    if isinstance(error, sa.exc.DBAPIError):
        return _of_database(error)
    if isinstance(error, OSError):
        return FULL if error.errno in _FULL else READ_ONLY if error.errno == errno.EROFS else None
    return None


def unwritable(folder: Path) -> Trouble | None:
    """Try to write into a folder; say what hinders, None where nothing does."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_TRIED_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        denied = f"{folder} cannot be written ({error.strerror or error})"
        return trouble_of(error) or Trouble(status=507, message=denied, remedy=_WRITE)
    return None


def _of_database(error: sa.exc.DBAPIError) -> Trouble | None:
    if not isinstance(error, (sa.exc.OperationalError, sa.exc.InterfaceError)) and not error.connection_invalidated:
        return None
    name = getattr(error.orig, "sqlite_errorname", "")
    if name == "SQLITE_FULL":
        return FULL
    if name.startswith("SQLITE_READONLY"):
        return READ_ONLY
    return _away(str(error.orig).strip().partition("\n")[0])


def _away(reason: str) -> Trouble:
    return Trouble(status=503, message=f"the index database does not answer ({reason})", remedy=_WAIT)
