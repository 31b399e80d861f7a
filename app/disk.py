"""Disk: the data folder, whose job and upload folders are the truth that the index is rebuilt from."""

from __future__ import annotations

import calendar
import contextlib
import fcntl
import os
import secrets
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from app.encoding import encode_json
from app.storage import trouble_of, unwritable
from estimator.scenario.problems import InputProblems, Problem

_UNFINISHED = ".new-"


class DataFolder:
    """Paths inside the data folder; ``create`` makes them."""

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().resolve()
        self.runs = self.root / "runs"
        self.uploads = self.root / "uploads"
        self.cache = self.root / "cache"
        self.calibrations = self.root / "calibrations"

    def create(self) -> None:
        """Make the folders; raise InputProblems. What is missing on a full or read-only disk has nothing to be read."""
        try:
            for folder in (self.root, self.runs, self.uploads, self.cache, self.calibrations):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            if self.root.is_dir() and unwritable(self.root):
                return
            message = f"{self.root} cannot be used: {error.strerror or error}"
            trouble = trouble_of(error)
            remedy = "Name a folder that you may write, with --data or HEADROOM_DATA."
            if trouble:
                remedy = f"{trouble.remedy} Or name another folder, with --data or HEADROOM_DATA."
            raise InputProblems([Problem(field="data", message=message, remedy=remedy)]) from None

    def remove_unfinished(self) -> None:
        """Delete folders whose writing was interrupted; only the server that holds the lock may do so."""
        for parent in (self.runs, self.uploads):
            for folder in parent.glob(f"{_UNFINISHED}*"):
                shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for one server; raise InputProblems where another one has it."""
        descriptor = self._open_lock()
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                message = f"another Headroom server uses {self.root}"
                remedy = "Stop it, or name another folder with --data."
                raise InputProblems([Problem(field="data", message=message, remedy=remedy)]) from None
            yield
        finally:
            os.close(descriptor)

    def _open_lock(self) -> int:
        """Open the file that is locked; where the disk takes none, the one that is there, or else the folder itself."""
        path = self.root / "lock"
        try:
            return os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError:
            return os.open(path if path.exists() else self.root, os.O_RDONLY)


def new_id() -> str:
    """Return a fresh id that sorts by time, as in ``20261120-101500-042-1f3a9c``."""
    now_ms = time.time_ns() // 1_000_000
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now_ms // 1000))
    return f"{stamp}-{now_ms % 1000:03d}-{secrets.token_hex(3)}"


def time_of_id(found: str) -> float:
    """When an id was made, in seconds since the epoch; 0 for a name that is no id."""
    try:
        return float(calendar.timegm(time.strptime(found[:15], "%Y%m%d-%H%M%S")))
    except ValueError:
        return 0.0


@contextmanager
def whole_folder(parent: Path, name: str) -> Iterator[Path]:
    """Give a temporary folder that becomes ``parent/name`` only when the block ends well, else vanishes."""
    with passing_folder(parent, name) as temporary:
        yield temporary
        temporary.rename(parent / name)


@contextmanager
def passing_folder(parent: Path, name: str) -> Iterator[Path]:
    """Give a folder that vanishes when the block ends."""
    temporary = parent / f"{_UNFINISHED}{name}"
    temporary.mkdir(mode=0o700)
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def leaving(folder: Path) -> Iterator[None]:
    """Take a folder out of sight for the block, and delete it after; where the block fails, it is back.

    What stops half-way, a later server ends.
    """
    gone = folder.with_name(f"{_UNFINISHED}{folder.name}")
    with contextlib.suppress(FileNotFoundError):
        folder.rename(gone)
    try:
        yield
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            gone.rename(folder)
        raise
    shutil.rmtree(gone, ignore_errors=True)


def discard(folder: Path) -> None:
    """Delete a folder that nobody knows of; what is left of it, a later server deletes."""
    with leaving(folder):
        pass


def finished_folders(parent: Path) -> list[Path]:
    """List the complete folders of ``parent``, oldest first; none where a disk did not take even that one."""
    if not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if path.is_dir() and not path.name.startswith("."))


def write_json(path: Path, value: Any) -> None:
    """Write JSON so that a reader finds the old file or the new one, never half of one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(encode_json(value))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:  # what is half-written takes space where there is none
        temporary.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> Any:
    """Read a JSON file; raises OSError or msgspec.DecodeError."""
    return msgspec.json.decode(path.read_bytes())
