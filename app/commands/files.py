"""Files: read what a command was given, and print what it found."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from app.encoding import encode_json
from estimator.scenario.problems import refusal

LARGEST_BYTES = 64 * 1024**2
WIDTH = 100
_NO_NUMBER = re.compile(r"\b(NaN|-?Infinity)\b")


def read_text(path: Path) -> str:
    """Return the text of a file; raise InputProblems that name it."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise refusal(str(path), f"is longer than {LARGEST_BYTES} bytes", "Split it.")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        remedy = f"Save it as UTF-8; a profile or another recording is read by headroom import {path.name}."
        raise refusal(str(path), f"is not UTF-8 text (byte {error.start})", remedy) from None
    except IsADirectoryError:
        raise refusal(str(path), "is a folder", "Give a file, one that lies in it perhaps.") from None
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        raise refusal(str(path), message, "Give the path of a file that exists.") from None


def read_document(path: Path) -> Any:
    """Return the JSON document of a file; raise InputProblems that name it."""
    text = read_text(path)
    if not text.strip():
        raise refusal(str(path), "is empty", "Write one JSON object.")
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise refusal(str(path), "is nested too deeply", "Write one JSON object: {...}.") from None
    except (msgspec.DecodeError, ValueError) as error:
        if path.suffix == ".py":
            raise refusal(
                str(path), "is a program, not JSON", f"Run headroom trace {path}, which predicts it."
            ) from None
        number = " NaN and Infinity are no numbers of JSON." if _NO_NUMBER.search(text) else ""
        raise refusal(str(path), f"is not JSON: {error}", f"Correct it.{number}") from None


def read_object(path: Path, what: str, example: str) -> dict[str, Any]:
    """Return the JSON object of a file; raise InputProblems that name the file and what it should hold."""
    document = read_document(path)
    if isinstance(document, dict):
        return document
    kinds: dict[type, str] = {list: "a list", str: "text", bool: str(document).lower(), type(None): "null"}
    raise refusal(str(path), f"holds {kinds.get(type(document), 'a number')}, not {what}", f"Write {example}.")


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


def wrapped(text: str, indent: str = "", hanging: int = 0) -> list[str]:
    """Break a text into lines of at most WIDTH columns, all but the first set in by ``hanging`` more."""
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + " " * hanging,
                         break_long_words=False, break_on_hyphens=False)  # fmt: skip
