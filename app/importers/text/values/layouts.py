"""Layouts: how a sentence says that a model is spread over GPUs: by which sharding, and over how many along each axis.

``trained with FSDP on 8 A100``, ``DeepSpeed ZeRO stage 2``, ``tensor parallel 4``, ``2-way pipeline parallelism``,
``TP8``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from estimator.validation.spellings import sharding_of

_SENTENCE = re.compile(r"(?<=[.;])\s+")
_SHARDED = re.compile(
    r"(?<![\w/-])(?:"
    r"(?P<wrapper>FSDP[12]?|fully[ -]sharded[ -]data[ -]parallel|FullyShardedDataParallel)"
    r"(?:\W{1,3}(?P<kind>(?:ZeRO[ -]?3|(?:FULL_SHARD|SHARD_GRAD_OP))))?"
    r"|(?P<name>FULL_SHARD|SHARD_GRAD_OP|DDP|DistributedDataParallel|distributed[ -]data[ -]parallel"
    r"|zero[ -]?stage[ -]?[0-3]|zero-?[0-3]|(?-i:ZeRO|ZERO) [0-3]|deepspeed[ -]stage[ -]?[0-3])"
    r")(?![\w/])",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"\b(?:no|not|non|without|instead of|rather than|than|vs\.?|versus|unlike|like|compared (?:to|with)|against|over)"
    r"\W+(?:\w+\W+)?$",
    re.IGNORECASE,
)
"""Before a name, where it is of something else."""
_OFF = re.compile(r"\s*[:=]?\s*(?:(?:is|was|were)\s+)?(?:off|disabled|false|no|none|not)\b", re.IGNORECASE)
_ASIDE = re.compile(
    r"\b(?:slower|faster|tried|try|would|could|should|next|later|oom|out of memory|hybrid|hybrid_shard|hsdp"
    r"|vs|versus)\b|\?",
    re.IGNORECASE,
)
"""In a sentence that compares, speaks of what was not done, or of replicas of shards, whose size it does not say."""

_AXES = {"tensor": "tp", "pipeline": "pp", "context": "cp", "data": "dp"}
_PARALLEL = r"[ -](?:model[ -])?parallel(?:ism)?"
_DEGREES = (
    re.compile(
        rf"(?<![\w-])(tensor|pipeline|context|(?<!sharded )(?<!distributed )data){_PARALLEL}(?:[ -](?:size|degree))?"
        r"\s?(?:=|:|\bof\b|\bis\b|×|\bx\b)?\s?(\d{1,5})\b(?![.,]\d|\s?(?:(?:gpus|nodes|ranks|ms|s|steps?|iters?|iterations?|epochs?|runs?|times|x)\b|[×%]))",
        re.IGNORECASE,
    ),
    re.compile(r"(?<![\w-])(TP|PP|CP|DP|tp(?=\s?[=:])|pp(?=\s?[=:])|cp(?=\s?[=:])|dp(?=\s?[=:]))"
               r"\s?[=:-]?\s?(\d{1,5})\b(?![.,]\d)"),
)  # fmt: skip
_WAY = re.compile(rf"(?<![\w.-])(\d{{1,5}})[ -]?way (tensor|pipeline|context|data){_PARALLEL}", re.IGNORECASE)


def sharding_said(lines: Iterable[str]) -> str:
    """How states are sharded by lines of prose, where they name one way alone; "" where none or several.

    >>> sharding_said(["Trained with FSDP on 8 A100, bf16."]), sharding_said(["DDP; twice as fast as without FSDP."])
    ('fsdp', 'ddp')
    >>> sharding_said(["DDP and FSDP"]), sharding_said(["FSDP was slower."])
    ('', '')
    """
    found = {name for line in lines for name in _shardings(line)}
    return found.pop() if len(found) == 1 else ""


def _shardings(line: str) -> Iterator[str]:
    for sentence in _SENTENCE.split(line):
        if _ASIDE.search(sentence):
            continue
        for hit in _SHARDED.finditer(sentence):
            if not _DENIED.search(sentence[: hit.start()]) and not _OFF.match(sentence, hit.end()):
                kind = hit["kind"] or ""
                yield sharding_of(hit["name"] or (kind if "shard" in kind.lower() else "fsdp"))


def degrees_said(lines: Iterable[str]) -> dict[str, int]:
    """Ranks of tensor, pipeline, context and data parallelism that lines of prose give, each where it is one number.

    >>> degrees_said(["tensor parallel 4, pipeline parallelism of 2"]), degrees_said(["8-way tensor parallel", "PP=2"])
    ({'tp': 4, 'pp': 2}, {'tp': 8, 'pp': 2})
    >>> degrees_said(["TP4", "TP8"])
    {}
    """
    found: dict[str, set[int]] = {}
    for line in lines:
        for pattern in _DEGREES:
            for hit in pattern.finditer(line):
                if not _DENIED.search(line[: hit.start()]):
                    found.setdefault(_AXES.get(hit[1].lower(), hit[1].lower()), set()).add(int(hit[2]))
        for hit in _WAY.finditer(line):
            if not _DENIED.search(line[: hit.start()]):
                found.setdefault(_AXES[hit[2].lower()], set()).add(int(hit[1]))
    return {axis: degrees.pop() for axis, degrees in found.items() if len(degrees) == 1}
