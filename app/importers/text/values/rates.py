"""Rates: what a column of throughput counts, and of how many GPUs, whatever words its author chose."""

from __future__ import annotations

import re

_COUNTED = {
    **dict.fromkeys(("token", "tokens", "tok", "toks"), "tokens"),
    **dict.fromkeys(("sample", "samples", "example", "examples", "sequence", "sequences", "seq", "seqs"), "samples"),
    **dict.fromkeys(("step", "steps", "it", "its", "iter", "iters", "iteration", "iterations"), "steps"),
}
_LETTERS = {"t": "tokens", "s": "samples"}
"""Of a throughput, as MosaicML's tables write it."""
_LONGEST = 80
_PER = re.compile(r"[_ ]{0,2}(?:\bper\b|(?<=_)per(?=_)|/)[_ ]{0,2}")
_NAMED = re.compile(r"(?:.{0,20}\b)?through[- ]?put[_ ]{0,2}(?:[(\[](.{1,40})[)\]]|[/_ ](.{1,40}))")
_OF = re.compile(r"(?:(?:avg|mean|train|training|perf)[/_ ])*")
_RATE = re.compile(r"([a-z]{1,12})(/gpu|/device|/chip)?/(?:s|sec|second)s?(/gpu|/device|/chip)?")
_SHORT = re.compile(r"(?:tps|tgs)(/gpu|/device|/chip)")


def rate_of(header: str) -> str:
    """Return the key of a column of rates; "" of any other. Bare ``TPS`` is none: some count a GPU's, some all.

    >>> rate_of("Throughput (T/s/GPU)"), rate_of("tok/s"), rate_of("train_samples_per_second"), rate_of("it/s")
    ('tokens_per_s_per_gpu', 'tokens_per_s', 'samples_per_s', 'steps_per_s')
    >>> rate_of("TPS/GPU"), rate_of("tokens per GPU per second"), rate_of("TPS"), rate_of("s/it")
    ('tokens_per_s_per_gpu', 'tokens_per_s_per_gpu', '', '')
    """
    plain = header.strip().strip("*`_ ").lower()
    if len(plain) > _LONGEST:
        return ""
    named = _NAMED.fullmatch(plain)
    plain = _OF.sub("", _PER.sub("/", (named[1] or named[2]) if named else plain), count=1)
    if _SHORT.fullmatch(plain):
        return "tokens_per_s_per_gpu"
    found = _RATE.fullmatch(plain)
    what = (_COUNTED | _LETTERS if named else _COUNTED).get(found[1], "") if found else ""
    each = bool(found and (found[2] or found[3]))
    if not what or (what == "steps" and each):
        return ""
    return f"{what}_per_s{'_per_gpu' if each else ''}"
