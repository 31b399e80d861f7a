"""Names: what compilers call kernels, kept short and still told apart; what tools call figures, as columns."""

from __future__ import annotations

import re
from zlib import crc32

_LONGEST = 300
_LONGEST_COLUMN = 60


def short_name(name: str) -> str:
    """Return a name of at most 300 letters; a longer one keeps its beginning and a checksum of all of it.

    Generated kernels have names of thousands of letters that may differ in the last one alone.
    """
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 9]}…{crc32(name.encode(errors='replace')):08x}"


def column_name(name: str) -> str:
    """Return what a tool calls a figure as a column, in letters, digits and underscores; "" where it has none.

    >>> column_name("Train/Loss (avg.)")
    'train_loss_avg'
    """
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:_LONGEST_COLUMN]


def plain_name(filename: str) -> str:
    """Reduce a file's name to its last part, printable and short: it is only ever a label, the disk does not see it."""
    last = filename.replace("\\", "/").rsplit("/", 1)[-1]
    return "".join(letter for letter in last if letter.isprintable())[:200] or "upload"
