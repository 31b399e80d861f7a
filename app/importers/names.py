"""Names: what compilers call kernels, kept short and still told apart."""

from __future__ import annotations

from zlib import crc32

_LONGEST = 300


def short_name(name: str) -> str:
    """Return a name of at most 300 letters; a longer one keeps its beginning and a checksum of all of it.

    Generated kernels have names of thousands of letters that may differ in the last one alone.
    """
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 9]}…{crc32(name.encode(errors='replace')):08x}"
