"""Header: what it says about the numbers under it: a plain name, the unit, the statistic."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.importers.text.values.cells import MICRO
from app.importers.text.values.units import PER_STEP, Unit, is_time, unit

_BRACKETS = re.compile(r"[(\[]\s*([^()\[\]]{1,20}?)\s*[)\]]\s*$")
_SUFFIX = re.compile(r"^(.{1,200}?)[_ ]([A-Za-zµμ%/]{1,8}|bytes|frac)$")
_ANY_TIME = re.compile(r"(?:(?:avg|average|mean|median)[ _.]{0,3})?(?:time|speed|latency|duration|runtime)")
_COUNTED_A_SECOND = re.compile(
    r"\b(tokens?|tok|samples?|images?|seqs?|sequences?|it|iters?|iterations?|steps?) */ *(?:s|sec|second)\b", re.I
)
_STATISTICS = {
    "mean": "mean", "avg": "mean", "average": "mean", "std": "std", "stdev": "std", "stddev": "std", "σ": "std",
    "sd": "std", "min": "min", "minimum": "min", "max": "max", "maximum": "max", "median": "median", "p50": "median",
    "p90": "p90", "p95": "p95", "p99": "p99",
}  # fmt: skip
_SUFFIX_UNITS = {
    "s",
    "ms",
    "us",
    "ns",
    "sec",
    "bytes",
    "kb",
    "mb",
    "gb",
    "kib",
    "mib",
    "gib",
    "gbps",
    "mbps",
    "percent",
    "pct",
}


_MEMORY_UNITS = ("gb", "gib")
MEMORY = {"mem", "memory", "vram"}


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column: the header as printed, its words without unit and statistic, and both of those."""

    header: str
    words: tuple[str, ...]
    statistic: str = ""
    unit: Unit | None = None
    printed_unit: str = ""

    @property
    def name(self) -> str:
        """A plain key of lower-case words."""
        return "_".join(self.words)

    @property
    def is_statistic(self) -> bool:
        """Whether it names a statistic and nothing that it would be of."""
        return self.statistic != "" and _STATISTICS.get(self.name) == self.statistic


def column(header: str) -> Column:
    """Read a header such as ``Forward (ms)``, ``avg_forward_time``, ``mem_before(MB)`` or ``peak_gib``.

    A header that is nothing but a unit of time is a time, and ``ms/iter`` that of a step; ``s`` alone stays a name,
    mostly that of the sequence length. GB and GiB alone are memory; in MB messages are counted as well.
    """
    plain = without_marks(header)
    rest, printed = plain, ""
    bracket = _BRACKETS.search(plain)
    counted = _COUNTED_A_SECOND.sub(r"\1 per s", plain)
    if counted != plain:
        rest = counted
    elif bracket and unit(bracket.group(1)) is not None:
        rest, printed = plain[: bracket.start()], bracket.group(1)
        if PER_STEP.search(printed.lower()) and _ANY_TIME.fullmatch(rest.strip().lower()):
            rest = "step"
    else:
        tail = _SUFFIX.match(plain)
        if len(plain) > 1 and is_time(plain):
            rest, printed = ("step" if PER_STEP.search(plain.lower()) else "time"), plain
        elif plain.lower() in _MEMORY_UNITS:
            rest, printed = "memory", plain
        elif tail and tail.group(2).lower() in _SUFFIX_UNITS:
            rest, printed = tail.group(1), tail.group(2)
    words = split_words(rest)
    statistic = next((_STATISTICS[word] for word in words if word in _STATISTICS), "")
    if statistic == "max" and MEMORY.intersection(words):  # which is a peak, of however many steps
        words = tuple("peak" if _STATISTICS.get(word) == "max" else word for word in words)
        statistic = ""
    kept = tuple(word for word in words if word not in _STATISTICS)
    return Column(header=plain, words=kept or words, statistic=statistic, unit=unit(printed), printed_unit=printed)


_MARKS = re.compile(
    r"(?:[\s*`_?†‡§¹²³⁴⁵⁶⁷⁸⁹:]|\[\d{1,3}\]|\^?\[\^\w{1,8}\]"
    r"|[(\[](?:[yt]|yes|true)\s?/\s?(?:[nf]|no|false)\??[)\]])+$",
    re.IGNORECASE,
)
"""Behind a header: emphasis, a question mark, marks of footnotes, that its cells say yes or no."""
_LONGEST = 200


def without_marks(header: str) -> str:
    """A header without emphasis, question marks, marks of footnotes and ``(y/n)``.

    >>> [without_marks(one) for one in ("OOM (y/n)?", "step time (s)?", "**MFU**†", "BW [2]")]
    ['OOM', 'step time (s)', 'MFU', 'BW']
    """
    plain = header[:_LONGEST].strip().strip("*`_ ")
    return _MARKS.sub("", plain) or plain


def split_words(text: str) -> tuple[str, ...]:
    """Cut a name into lower-case words and numbers; ``+`` between words is dropped, ``^2`` stays with its word."""
    plain = "".join(MICRO.get(letter, letter) for letter in text)
    plain = re.sub(r"([a-z0-9])([A-Z][a-z])", r"\1 \2", plain)
    words = (word.rstrip(".") for word in re.findall(r"[a-z0-9.σ^#]+", plain.lower()))
    return tuple(word for word in words if word)
