"""Files: read what a command was given, and print what it found."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from app.encoding import encode_json
from estimator.problems import InputProblems, Problem

LARGEST_BYTES = 64 * 1024**2


def read_text(path: Path) -> str:
    """Return the text of a file; raise InputProblems that name it."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise _refused(path, f"is longer than {LARGEST_BYTES} bytes", "Split it.")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(path, f"is not UTF-8 text (byte {error.start})", "Save it as UTF-8.") from None
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        raise _refused(path, message, "Give the path of a file that exists.") from None


def read_document(path: Path) -> Any:
    """Return the JSON document of a file; raise InputProblems that name it."""
    text = read_text(path)
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise _refused(path, "is nested too deeply", "Write one JSON object as the contract names it.") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise _refused(path, f"is not JSON: {error}", "Correct it; numbers like NaN are no JSON.") from None


def print_json(value: Any) -> None:
    """Print one JSON document and a line end."""
    sys.stdout.write(msgspec.json.format(encode_json(value), indent=2).decode() + "\n")


def table(header: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Lay out columns for a terminal: the first one to the left, the others to the right."""
    widths = [max(len(row[index]) for row in (header, *rows)) for index in range(len(header))]
    lines = []
    for row in (header, *rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append(indent + "  ".join(cells).rstrip())
    return "\n".join(lines)


def _refused(path: Path, message: str, remedy: str) -> InputProblems:
    return InputProblems([Problem(field=str(path), message=message, remedy=remedy)])
