"""``headroom catalog``: the names of models, chips and links, for people or as JSON."""

from __future__ import annotations

from typing import Any

from app.commands.files import print_json, table
from estimator.scenario.catalog import KINDS, entries
from estimator.scenario.parameters import parameters
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.units import bytes_text, engineering


def catalog(kind: str | None, as_json: bool) -> int:
    """Print the entries of one kind, or of all; raises InputProblems for a kind that there is not."""
    if kind is not None and kind not in KINDS:
        remedy = f"One of: {', '.join(KINDS)}."
        raise InputProblems([Problem(field="KIND", message=f"{kind!r} is not known", remedy=remedy)])
    kinds = [kind] if kind else list(KINDS)
    if as_json:
        print_json({one: entries(one) for one in kinds})
    else:
        print("\n\n".join(_text(one) for one in kinds))
    return 0


def _text(kind: str) -> str:
    found = entries(kind)
    head, *lines = table(_HEADERS[kind], [[entry.key, *_CELLS[kind](entry.value)] for entry in found]).splitlines()
    return "\n".join([head, *(f"{line}  {entry.label}" for line, entry in zip(lines, found, strict=True))])


def _model(value: Any) -> list[str]:
    return [engineering(float(parameters(value, value.max_positions)), ""), str(value.layers), str(value.hidden)]


def _chip(value: Any) -> list[str]:
    # Of the widest unit that it has: bf16, else fp16, else fp32
    peak = value.bf16_flops_per_s or value.fp16_flops_per_s or value.fp32_flops_per_s
    return [
        engineering(peak, "FLOP/s"),
        bytes_text(value.memory_bytes),
        engineering(value.memory_bytes_per_s, "B/s"),
    ]


def _link(value: Any) -> list[str]:
    return [engineering(value.bytes_per_s, "B/s"), f"{value.latency_s * 1e6:.3g} µs"]


_CELLS = {"models": _model, "chips": _chip, "links": _link}
_HEADERS = {
    "models": ("model", "parameters", "layers", "hidden"),
    "chips": ("chip", "dense peak", "memory", "bandwidth"),
    "links": ("link or network", "one direction", "latency"),
}
