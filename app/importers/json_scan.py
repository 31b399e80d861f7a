"""Where things stand in JSON bytes: top-level keys, the end of an array, single objects; without building values."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|"|[{}\[\]]', re.DOTALL)
"""A whole string, a quote that never closes, or a bracket; possessive, so that hostile input stays linear."""

_OPENING = re.compile(rb'[ \t\r\n]*+(?:({)[ \t\r\n]*+["}]|(\[)[ \t\r\n]*+[{\[\]])')
_SPACE = b" \t\r\n"


def opening(head: bytes) -> str:
    """Return ``{`` or ``[`` where the content opens as a JSON object or a list of objects does, else nothing."""
    found = _OPENING.match(head.removeprefix(b"\xef\xbb\xbf"))
    return (found.group(1) or found.group(2)).decode("ascii") if found else ""


def keys(data: bytes, depth: int = 1) -> Iterator[tuple[str, int]]:
    """Yield each key at ``depth`` open brackets and the offset just after its colon, as far as ``data`` goes."""
    level = 0
    for token in _TOKEN.finditer(data):
        text = token.group()
        if text == b'"':
            return
        if text in (b"{", b"["):
            level += 1
        elif text in (b"}", b"]"):
            level -= 1
            if level < depth and depth > 1:
                return
        elif level == depth:
            end = token.end()
            while end < len(data) and data[end] in _SPACE:
                end += 1
            if data[end : end + 1] == b":":
                yield text[1:-1].decode("utf-8", "replace"), end + 1


def cut_off(data: bytes) -> bool:
    """Say whether ``data``, which opens as JSON does, ends within a string, an object or an array."""
    level = 0
    for token in _TOKEN.finditer(data):
        text = token.group()
        if text == b'"':
            return True
        level += (text in (b"{", b"[")) - (text in (b"}", b"]"))
    return level > 0


def array_end(data: bytes) -> int:
    """Return the offset of the ``]`` that closes the array whose items ``data`` begins with, or -1."""
    level = 0
    for token in _TOKEN.finditer(data):
        text = token.group()
        if text == b'"':
            return -1
        if text in (b"{", b"["):
            level += 1
        elif text in (b"}", b"]"):
            level -= 1
            if level < 0:
                return token.start() if text == b"]" else -1
    return -1


def objects(data: bytes) -> Iterator[bytes]:
    """Yield each complete object among the items of an array; what is cut off at the end is left out."""
    level, start = 0, -1
    for token in _TOKEN.finditer(data):
        text = token.group()
        if text == b'"':
            return
        if text in (b"{", b"["):
            if level == 0 and text == b"{":
                start = token.start()
            level += 1
        elif text in (b"}", b"]"):
            level -= 1
            if level < 0:
                return
            if level == 0 and start >= 0:
                yield data[start : token.end()]
                start = -1
