"""The importing process: ``python -m app.importers --path=… --filename=… --result=… --limits={…}``.

It limits itself before it looks at the file, and writes what it found, or why it refused, as one JSON document.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import sys
from pathlib import Path

import msgspec

from app.importers import import_file
from app.importers.imported import ImportRefused, Limits
from estimator.scenario.codec import decode


def main() -> int:
    """Import one file under limits; the exit status is 0 whenever the document says what happened."""
    parser = argparse.ArgumentParser(prog="python -m app.importers", description=__doc__)
    parser.add_argument("--path", required=True, type=Path)
    parser.add_argument("--filename", required=True)
    parser.add_argument("--result", required=True, type=Path)
    parser.add_argument("--limits", default="{}")
    arguments = parser.parse_args()
    limits = decode(Limits, msgspec.json.decode(arguments.limits))
    restrict(limits)
    try:
        document: object = {"imported": import_file(arguments.path, arguments.filename, limits)}
    except ImportRefused as error:
        document = {"refused": [error.format, error.place, error.message, error.remedy]}
    arguments.result.write_bytes(msgspec.json.encode(document))
    return 0


def restrict(limits: Limits) -> None:
    """Bound this process's memory, processor time and output; the parent bounds its wall time."""
    bounds = (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, limits.output_bytes),
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_AS, limits.memory_bytes),
    )
    for which, most in bounds:
        with contextlib.suppress(ValueError, OSError):  # macOS has no RLIMIT_AS; a lower limit may stand already
            resource.setrlimit(which, (most, most))


if __name__ == "__main__":
    sys.exit(main())
