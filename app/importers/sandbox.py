"""Sandbox: an import in a process of its own, with limits on memory, time and output; the caller parses no file."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from app.importers.imported import DEFAULT_LIMITS, Imported, ImportRefused, Limits
from estimator.scenario.codec import decode
from estimator.scenario.problems import InputProblems

_log = logging.getLogger("headroom.importers")
_ROOT = Path(__file__).parents[2]
_FEWER_STEPS = "Profile fewer steps (2 or 3 are enough), or cut the file to the part that matters."
_REPORT = "Please report it, with the tool and version that wrote the file."
_REMEMBERED_BYTES = 4000


def import_sandboxed(path: Path, filename: str, limits: Limits = DEFAULT_LIMITS) -> Imported:
    """Import a file as ``import_file`` does, in a child process; raise ImportRefused for whatever happens to it."""
    with tempfile.TemporaryDirectory(prefix="headroom-import-") as folder:
        result, errors = Path(folder) / "result.json", Path(folder) / "errors"
        command = [
            sys.executable,
            "-m",
            "app.importers",
            f"--path={path.resolve()}",
            f"--filename={_plain(filename)}",
            f"--result={result}",
            f"--limits={msgspec.json.encode(limits).decode()}",
        ]
        with errors.open("wb") as stderr:
            status = _run(command, folder, stderr.fileno(), limits.wall_s)
        if status != 0 or not result.is_file():
            _log.error("import of %r ended with %s: %s", filename, status, _last(errors))
            raise _ended(status)
        if result.stat().st_size > limits.output_bytes:
            raise _refused("what it holds is too much to keep", _FEWER_STEPS)
        return _read(result.read_bytes())


def _run(command: list[str], folder: str, stderr: int, wall_s: float) -> int | None:
    """Run the child in its own session; return its status, or None where it was stopped for taking too long."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        start_new_session=True,
    )
    try:
        return process.wait(timeout=wall_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _environment() -> dict[str, str]:
    """Only what Python needs: no settings, no secrets; one thread for numpy, whose pools would cost address space."""
    return {
        "PATH": os.defpath,
        "PYTHONPATH": str(_ROOT),
        "PYTHONUTF8": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }


def _read(data: bytes) -> Imported:
    """Read the child's answer by the fields that it may have, trusting it no more than the file."""
    try:
        document = msgspec.json.decode(data)
        if "refused" in document:
            format, place, message, remedy = (str(part)[:2000] for part in document["refused"])
            raise ImportRefused(format, place, message, remedy)
        return decode(Imported, document["imported"])
    except InputProblems as error:
        _log.error("import gave impossible values: %s", error.problems[0])
        message = f"it holds impossible numbers ({error.problems[0].field[:100]} {error.problems[0].message[:200]})"
        raise _refused(message, "Export it again; if it still fails, the tool wrote nonsense.") from None
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, RecursionError):
        raise _refused("the reader gave no answer", _REPORT) from None


def _ended(status: int | None) -> ImportRefused:
    if status is None:
        return _refused("reading it took too long and was stopped", _FEWER_STEPS)
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return _refused("reading it took more time or memory than an import may, and was stopped", _FEWER_STEPS)
    if status == -signal.SIGXFSZ:
        return _refused("what it holds is too much to keep", _FEWER_STEPS)
    return _refused("the reader failed on it", _REPORT)


def _refused(message: str, remedy: str) -> ImportRefused:
    return ImportRefused("file", "", message, remedy)


def _plain(filename: str) -> str:
    """Reduce a name to its last part, printable and short: it is only ever a label."""
    last = filename.replace("\\", "/").rsplit("/", 1)[-1]
    return "".join(letter for letter in last if letter.isprintable())[:200] or "upload"


def _last(errors: Path) -> str:
    with errors.open("rb") as file:
        file.seek(max(0, errors.stat().st_size - _REMEMBERED_BYTES))
        return file.read().decode("utf-8", "replace")


__all__ = ["ImportRefused", "Imported", "import_sandboxed"]
