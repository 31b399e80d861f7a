"""Lines: what one line of a report is, before it belongs to any table."""

from __future__ import annotations

import re

LONGEST = 20_000
"""Longer lines are cut out before anything looks at them."""

_HEADING = re.compile(r"(#{1,6})\s+(\S.{0,300})$")
_PART = re.compile(r"\(?([a-z]|[ivx]{1,4})\)$")
_RULE = re.compile(r"[\s\-=_+|:*\u2500-\u257f]*$")
_PROMPT = re.compile(r"\S{1,100}[@:]\S{0,200}[#$%>]\s|[$>]\s")
_PROGRAM = re.compile(r"import \w|from \S{1,100} import |(?:def|class) \w{1,100}[(:]")
_STATEMENT = re.compile(
    rf"(?:{_PROGRAM.pattern})|(?:if|elif|else|for|while|with|try)\b.{{0,300}}:$|(?:return|assert)\b"
    r"|(?:print|\w{1,60}(?:\.\w{1,60}){1,9})\(|[A-Za-z_][\w.]{0,100}(?:\[[^\]]{0,100}\])?\s*[-+*/]?=\s*[^=\s]"
)
_NOTICE = re.compile(r"\[(?:warning|error|info|debug|note)\]|(?:warning|error|info|debug|note):", re.IGNORECASE)
PART_LEVEL = 7


def heading(line: str) -> tuple[int, str] | None:
    """Return level and text of a heading: ``## Title``, or a part such as ``(a)`` alone on its line."""
    text = line.strip()
    found = _HEADING.match(text)
    if found:
        return len(found[1]), found[2].strip(" #*")
    if _PART.match(text) and text.endswith(")"):
        return PART_LEVEL, text if text.startswith("(") else f"({text}"
    return None


def is_program(line: str) -> bool:
    """Whether a line is of a program's text, in Python: it imports or defines something."""
    return _PROGRAM.match(line) is not None


def is_comment(line: str, following: str) -> bool:
    """Whether what looks like a heading is, in the text of a program, a comment on the statement below it."""
    return line.startswith((" ", "\t")) or _STATEMENT.match(following) is not None


def is_rule(line: str) -> bool:
    """Whether a line only draws: dashes, equals signs, box lines."""
    text = line.strip()
    return len(text) >= 3 and _RULE.match(text) is not None and any(mark in text for mark in "-=_─━═")


def is_fence(line: str) -> bool:
    """Whether a line opens or closes a fenced block."""
    return line.lstrip().startswith(("```", "~~~"))


def is_noise(line: str) -> bool:
    """Whether a line is a shell prompt with its command, or a notice of some tool."""
    text = line.strip()
    return bool(_PROMPT.match(text) or _NOTICE.match(text))


def is_label(line: str) -> bool:
    """Whether a line is a short name standing alone, such as ``compiled`` or ``BF16``."""
    text = line.strip()
    return 0 < len(text) <= 40 and len(text.split()) <= 3 and not text.endswith((".", ",", ";", ":", "?"))
