"""What ``nvidia-smi`` prints into a job's log: of how busy devices were, their names and how many had work matter."""

from __future__ import annotations

import re

_BEGIN = re.compile(r"\s{0,200}(?:.{0,60}\n)?(?:\+-+\+\r?\n\| NVIDIA-SMI \d|# gpu +(?:pwr|sm)\b)")
_TABLE = re.compile(
    r"^\+-+\+\r?\n\| NVIDIA-SMI .*\n(?:[+|].*\n?)*(?:(?:[ \t\r]*\n){1,3}\+-.*\n?(?:[+|].*\n?)*)*", re.MULTILINE
)
"""Its parts begin with a rule; what else begins with a pipe is a table of somebody else."""
_OF_SAMPLES = re.compile(r"^# gpu +(?:pwr|sm)\b", re.MULTILINE)
_SAMPLES = re.compile(r"^(?:# (?:gpu|Idx) .*|[ \t]*\d+(?:[ \t]+[\d.-]+){2,}[ \t\r]*)$\n?", re.MULTILINE)
"""``nvidia-smi dmon``: columns of numbers under lines that name them; without such a line they are somebody else's."""
_NAME = re.compile(r"^\|\s{1,8}\d{1,3}\s{1,4}((?!N/A)\S.{0,60}?)\s{2,60}(?:On|Off|N/A)\b", re.MULTILINE)
_PROCESS = re.compile(r"^\|\s{1,8}(\d{1,3})\s{1,8}\S{1,4}\s{1,8}\S{1,4}\s{1,12}\d{1,9}\s{1,8}C(?:\+G)?\s", re.MULTILINE)
"""A row of its processes that computes, by its GPU."""
_HEAD_LETTERS = 2000
WORKED = "nvidia-smi: devices with work: "
"""How the line begins that says how many had work."""


def begins(text: str) -> bool:
    """Whether a text begins with it, after at most a line such as a date."""
    return _BEGIN.match(text[:_HEAD_LETTERS]) is not None


def holds(text: str) -> bool:
    """Whether its table stands anywhere in a text."""
    return "\n| NVIDIA-SMI " in text


def without(text: str) -> str:
    """The text with a line for each kind of device in place of its tables, and one of how many had work."""
    text = _TABLE.sub(_named, text)
    return _SAMPLES.sub("", text) if _OF_SAMPLES.search(text) else text


def _named(table: re.Match[str]) -> str:
    named = "".join(f"GPU: {name}\n" for name in dict.fromkeys(_NAME.findall(table[0])))
    busy = len(set(_PROCESS.findall(table[0])))
    return f"{named}{WORKED}{busy}\n" if busy else named
