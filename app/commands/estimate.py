"""``headroom estimate``: one prediction for people or as JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from app.commands.cpu import with_this_cpu
from app.commands.files import print_json, read_document, table
from estimator.breakdown import MEMORY_KINDS, PHASES
from estimator.estimate import Estimate
from estimator.estimate import estimate as predict
from estimator.scenario import scenario_from_json
from estimator.units import bytes_text, engineering, seconds


def estimate(path: Path, as_json: bool, data: Path | None) -> int:
    """Predict the scenario of a file and print the prediction."""
    document = read_document(path)
    with_this_cpu(document, data)
    found = predict(scenario_from_json(document))
    if as_json:
        print_json(found)
    else:
        print(text(found))
    return 0


def text(found: Estimate) -> str:
    """Write a prediction for a terminal."""
    low_s, high_s = found.interval_s
    memory = found.memory
    fits = "fits" if memory.fits else "DOES NOT FIT"
    lines = [
        f"step time    {seconds(found.step_time_s)}  ({seconds(low_s)} to {seconds(high_s)})",
        f"throughput   {engineering(found.tokens_per_s, 'tokens/s')}, "
        f"{engineering(found.tokens_per_s_per_chip, 'tokens/s')} per chip",
        f"utilisation  MFU {found.mfu:.1%}, HFU {found.hfu:.1%}",
        f"peak memory  {bytes_text(memory.peak_bytes)} of {bytes_text(memory.capacity_bytes)}: {fits}",
        f"limit        {found.limits}",
        "",
        _shares("phase", found.phases_s, PHASES, seconds),
        "",
        _shares("memory", memory.by_kind, MEMORY_KINDS, bytes_text),
    ]
    if found.problems:
        lines += ["", *(f"problem: {problem}" for problem in found.problems)]
    if found.assumptions:
        lines += ["", "assumed:", *(f"  {assumption}" for assumption in found.assumptions)]
    return "\n".join(lines)


def _shares(title: str, values: dict[str, float], names: tuple[str, ...], write: Callable[[float], str]) -> str:
    total = sum(values.values()) or 1.0
    rows = [[name, write(values[name]), f"{values[name] / total:.1%}"] for name in names if values.get(name)]
    return table([title, "", "share"], rows)
