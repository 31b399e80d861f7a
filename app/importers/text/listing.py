"""Listing: a program's source, which some print into their own log between rules, and which says nothing of a run."""

from __future__ import annotations

import re

_RULE = re.compile(r"^[=#*-]{20,400}[ \t\r]*$\n?", re.MULTILINE)
_IMPORT = re.compile(r"^(?:import \w|from \w[\w.]{0,100} import )", re.MULTILINE)
_DEFINED = re.compile(r"^(?:def|class) \w", re.MULTILINE)
_FEWEST = 2


def without(text: str) -> str:
    """The text without the Python that stands before, between or behind lines that part it; as it is without any."""
    if not _IMPORT.search(text) or not _RULE.search(text):
        return text
    begins = [0, *(rule.end() for rule in _RULE.finditer(text))]
    parts = [text[begin:end] for begin, end in zip(begins, [*begins[1:], len(text)], strict=True)]
    return "".join(part for part in parts if not _is_python(part))


def _is_python(part: str) -> bool:
    return len(_IMPORT.findall(part)) >= _FEWEST and bool(_DEFINED.search(part))
