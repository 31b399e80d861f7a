"""The importing process: ``python -m app.importers --path=… --filename=… --limits={…}``.

It limits itself before it looks at the file, and writes what it found, or why it refused, as one JSON document to its
output. It writes no file, and ends when its input does: whoever started it is gone then.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import sys
import threading
from pathlib import Path

import msgspec

from app.importers import import_file
from app.importers.imported import Headers, ImportRefused, Limits
from estimator.scenario.codec import decode
from runners import parent


def main() -> int:
    """Import one file under limits; the exit status is 0 whenever the document says what happened."""
    parser = argparse.ArgumentParser(prog="python -m app.importers", description=__doc__)
    parser.add_argument("--path", required=True, type=Path)
    parser.add_argument("--filename", required=True)
    parser.add_argument("--limits", default="{}")
    parser.add_argument("--headers", default="{}")
    arguments = parser.parse_args()
    end_with_parent()
    limits = decode(Limits, msgspec.json.decode(arguments.limits))
    headers = msgspec.json.decode(arguments.headers, type=Headers)
    restrict(limits)
    answer = os.dup(1)
    os.dup2(2, 1)  # what a library prints is no answer
    try:
        document: object = {"imported": import_file(arguments.path, arguments.filename, limits, headers)}
    except ImportRefused as error:
        document = {"refused": [error.format, error.place, error.message, error.remedy]}
    with open(answer, "wb") as file:
        file.write(msgspec.json.encode(document))
    return 0


def end_with_parent() -> None:
    """End this process when its input ends, and on Linux also where code in C keeps a thread from seeing that."""
    parent.end_with_parent()
    threading.Thread(target=_wait_for_the_end, daemon=True).start()


def _wait_for_the_end() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)


def restrict(limits: Limits, file_bytes: int = 0) -> None:
    """Bound this process's memory, processor time and what it writes to a file; the parent bounds time and output."""
    bounds = (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_AS, limits.memory_bytes),
    )
    for which, most in bounds:
        with contextlib.suppress(ValueError, OSError):  # macOS has no RLIMIT_AS; a lower limit may stand already
            resource.setrlimit(which, (most, most))


if __name__ == "__main__":
    sys.exit(main())
