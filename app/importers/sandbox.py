"""Sandbox: an import in a process of its own, with limits on memory, time and output; the caller parses no file."""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from app.importers.imported import DEFAULT_LIMITS, Headers, Imported, ImportRefused, Limits
from app.importers.names import plain_name
from estimator.scenario.codec import decode
from estimator.scenario.problems import InputProblems

_log = logging.getLogger("headroom.importers")
_ROOT = Path(__file__).parents[2]
_FEWER_STEPS = "Profile fewer steps (2 or 3 are enough), or cut the file to the part that matters."
_REPORT = "Please report it, with the tool and version that wrote the file."
_REMEMBERED_BYTES = 4000
_PIECE_BYTES = 1 << 16


def import_sandboxed(
    path: Path, filename: str, limits: Limits = DEFAULT_LIMITS, headers: Headers | None = None
) -> Imported:
    """Import a file as ``import_file`` does, in a child process; raise ImportRefused for whatever happens to it.

    Nothing of it is left behind, whatever happens to this process: its answer comes through a pipe, and it ends with
    the process that started it.
    """
    command = [
        sys.executable,
        "-m",
        "app.importers",
        f"--path={path.resolve()}",
        f"--filename={plain_name(filename)}",
        f"--limits={msgspec.json.encode(limits).decode()}",
        f"--headers={msgspec.json.encode(headers or {}).decode()}",
    ]
    status, answer, errors = _run(command, limits)
    if status != 0:
        _log.error("import of %r ended with %s: %s", filename, status, errors.decode("utf-8", "replace"))
        raise _ended(status)
    return _read(answer)


def _run(command: list[str], limits: Limits) -> tuple[int | None, bytes, bytes]:
    """Run the child in its own session; return its status, or None where it took too long, its answer and last words.

    Raises ImportRefused where its answer is longer than it may be.
    """
    process = subprocess.Popen(
        command,
        cwd="/",
        env=_environment(),
        stdin=subprocess.PIPE,  # nothing is written: its end tells the child that this process is gone
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        answer, errors = _listen(process, limits)
        return process.wait(), answer, errors
    except TimeoutError:
        return None, b"", b""
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def _listen(process: subprocess.Popen[bytes], limits: Limits) -> tuple[bytes, bytes]:
    """Take in all that the child writes; raise TimeoutError, or ImportRefused where that is too much."""
    assert process.stdout is not None
    assert process.stderr is not None
    answer, errors = bytearray(), bytearray()
    deadline_s = time.monotonic() + limits.wall_s
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, answer)
        selector.register(process.stderr, selectors.EVENT_READ, errors)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline_s - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                piece = os.read(key.fd, _PIECE_BYTES)
                key.data.extend(piece)
                if not piece:
                    selector.unregister(key.fileobj)
            del errors[:-_REMEMBERED_BYTES]
            if len(answer) > limits.output_bytes:
                raise _refused("what it holds is too much to keep", _FEWER_STEPS)
    return bytes(answer), bytes(errors)


def _environment() -> dict[str, str]:
    """Only what Python needs: no settings, no secrets; one thread and heap, whose pools cost address space."""
    return {
        "PATH": os.defpath,
        "PYTHONPATH": str(_ROOT),
        "PYTHONUTF8": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "1",
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
    return _refused("the reader failed on it", _REPORT)


def _refused(message: str, remedy: str) -> ImportRefused:
    return ImportRefused("file", "", message, remedy)


__all__ = ["ImportRefused", "Imported", "import_sandboxed"]
