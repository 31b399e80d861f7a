"""Marks: which lines of a loop's log mark a step, and what they say of it.

``iter 3: …``, ``Epoch: [0][ 10/37] …``, ``Train: [1/300][100/1251] …``, ``[batch=1/40]:`` with lines beneath it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from app.importers.text.trainers.log import number

_MARK = re.compile(
    r"(?<![A-Za-z])(?:(?:step|iter(?:ation)?|batch|it)s?\s{0,8}[:=#]?\s{0,8}\[?"
    r"|(?:epoch|train(?:ing)?)(?:\([a-z]{1,12}\))?:?\s{0,4}\[?\d{1,6}(?:/\d{1,6})?\]?\s{0,4}\[)"
    r"\s{0,8}(\d{1,9})(?:\s{0,4}/\s{0,4}\d{1,9})?\b(?!%)",
    re.IGNORECASE,
)
_ALONE = re.compile(r"[\W_]{0,600}(?:epoch\s?[:=]\s?\d{1,9}[\W_]{0,600})?", re.IGNORECASE)
"""Behind a mark with its figures beneath: nothing, or the epoch, as in OLMo's ``[step=10/739328,epoch=0]``."""
_NUMBERED = re.compile(
    r"\s{0,8}(\d{1,9})(?:\s{0,4}[,|:]\s{0,4}(?=(?:train_)?loss\b)|\s{1,4}(?=[\d.]{1,12} m?s run,))", re.IGNORECASE
)
"""A line that begins with the number of its step: ``536, loss: 3.34, dt: 0.391s``, ``1410 | loss 5.14 | 23.4ms``, and
tinygrad's ``4 4.32 s run, 11.8750 loss, …``.
"""
_PAIR = re.compile(r"[A-Za-z][\w ./-]{0,60}: {0,4}[-+]?[\d.]{1,30}(?:e[-+]?\d{1,3})?\s{0,8}")
"""A line of one figure under a mark alone, as fms-fsdp prints them."""
_PROGRESS = re.compile(
    r"Progress on:.{0,60}?\b([\d.]{1,12})(k?)it/[\d.]{1,12}k?it\s+rate:\s?([\d.]{1,20})\s?(it/s|s/it)(.{0,300})"
)
"""Levanter: ``Progress on:train 1.20kit/10.0kit rate:1.1it/s remaining:2:13:20 elapsed:18:10 postfix:loss=3.4``."""
_OF_A_GPU = re.compile(r"\btgs \(tokens/gpu/second\)=", re.IGNORECASE)
"""InternLM's: ``tflops=189.8,step=1,loss=11.6,tgs (tokens/gpu/second)=4274.45,lr=6e-07``."""
_ROUNDED = re.compile(r"\bglobal_step=\d(?:\.\d{1,9})?e\+\d{1,2},")
_BAR_AT = re.compile(r"\|\s{0,4}(\d{1,9})/\d{1,9} \[")
"""NeMo's bar rounds the number of its step (``global_step=9e+3``), which the bar itself counts."""
LONGEST_LINE, MOST_FIELDS, _HEAD = 600, 24, 160


def place_of(line: str) -> int:
    """Where the number of a line's mark begins, the line being in words."""
    found = mark_of(line)
    return found.start(1) if found else 0


def mark_of(line: str) -> re.Match[str] | None:
    """The mark of a line, whose first group is the number of its step; None where it has none."""
    return _MARK.search(line[:_HEAD]) or _NUMBERED.match(line[:_HEAD])


def marked(lines: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Each step that is marked, what is said of it, and the line of the mark in words (``in_words``).

    It is said behind the mark; where that is all of a line, or says no time, on indented lines beneath it as well, and
    under a mark alone on lines of one figure each.
    """
    held: tuple[int, list[str], str] | None = None
    alone = False
    for line in map(in_words, lines):
        found = mark_of(line) if len(line) <= LONGEST_LINE else None
        beneath = line[:1].isspace() and bool(line.strip())
        if held and found is None and (beneath or (alone and _PAIR.fullmatch(line[:_HEAD]))):
            if len(held[1]) < MOST_FIELDS:
                held[1].append(line[:LONGEST_LINE])
            continue
        if held:
            yield held[0], "\n".join(held[1]), held[2]
            held = None
        if found:
            alone = bool(_ALONE.fullmatch(line[found.end() :]))
            held = (int(found[1]), ["" if alone else line[found.end() :]], line)
    if held:
        yield held[0], "\n".join(held[1]), held[2]


def in_words(line: str) -> str:
    """The line with its step and its rate in the words of most loops, where its program has others."""
    line = _OF_A_GPU.sub("tokens_per_s_per_gpu=", line)
    if (rounded := _ROUNDED.search(line[:LONGEST_LINE])) and (bar := _BAR_AT.search(line[:LONGEST_LINE])):
        return f"step {bar[1]} | {line[rounded.start() :]}"
    found = _PROGRESS.search(line) if line.startswith("Progress on:") or " Progress on:" in line[:_HEAD] else None
    if found is None:
        return line
    step = round(number(found[1]) * (1000 if found[2] else 1))
    return f"{line[: found.start()]}step {step} | rate: {found[3]}{found[4]} | {found[5].partition('postfix:')[2]}"
