"""Precision: the many spellings of a number format, as the scenario's words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_NAMES = {
    "fp32": "fp32", "f32": "fp32", "float32": "fp32", "float": "fp32", "single": "fp32", "tf32": "tf32",
    "fp16": "fp16", "f16": "fp16", "float16": "fp16", "half": "fp16", "bf16": "bf16", "bfloat16": "bf16",
    "fp8": "fp8", "f8": "fp8", "float8": "fp8", "fp4": "fp4", "f4": "fp4", "float4": "fp4", "nvfp4": "fp4",
    "mxfp4": "fp4",
}  # fmt: skip


_FORMAT = r"(bf16|bfloat16|fp16|float16|fp32|float32|tf32|fp8|fp4)"
_MIXED = r"(?:autocast|amp|mixed)"
_SAID = re.compile(
    rf"\b{_FORMAT}\b(?!\s*(?:is|was)?\s*(?:off|disabled|not))(?:[\s+,/-]{{0,3}}({_MIXED})\b)?"
    rf"|\b({_MIXED})(?:[\s-]precision)?\W{{0,3}}(?:(?:with|in|to|of)\W{{1,2}})?{_FORMAT}\b",
    re.IGNORECASE,
)


def precision_said(lines: Iterable[str]) -> str:
    """The precision that lines of prose, or a header, name, where it is one alone; "" where none or several.

    >>> [precision_said([line]) for line in ("bf16 autocast", "mixed precision with float16", "fp32, then tf32")]
    ['bf16-amp', 'fp16-amp', '']
    """
    found = set()
    for line in lines:
        for hit in _SAID.finditer(line):
            name = from_text(hit[1] or hit[4])
            found.add(f"{name}-amp" if (hit[2] or hit[3]) and name in ("bf16", "fp16") else name)
    return found.pop() if len(found) == 1 else ""


def from_text(text: str) -> str:
    """Return the plain name of a number format (f32, torch.float32 → fp32); unknown text stays as it is."""
    word = text.strip("*` ").lower().removeprefix("torch.")
    return _NAMES.get(word, word)


def from_label(text: str) -> str:
    """Return the plain name where a line is nothing but a number format, else nothing."""
    return _NAMES.get(text.strip("*`: ").lower(), "")


def is_mixed(heading: Sequence[str]) -> bool:
    """Whether the headings speak of mixed precision, so that bf16 means autocast over fp32 parameters."""
    return bool(re.search(r"mixed[_\s-]?precision|autocast|\bamp\b", " ".join(heading), re.IGNORECASE))
