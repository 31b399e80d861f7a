"""``headroom sweep``: all plans for a model on a cluster, for people or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from app.commands.cpu import with_this_cpu
from app.commands.files import print_json, read_document, table
from estimator.sweep import Found, Sweep
from estimator.sweep import sweep as search
from estimator.units import bytes_text, engineering, seconds

_HEADER = ("plan", "step time", "tokens/s", "MFU", "peak memory", "chip-seconds")


def sweep(path: Path, as_json: bool, data: Path | None) -> int:
    """Search the specification of a file and print the best plans and the Pareto front."""
    document = read_document(path)
    with_this_cpu(document, data)
    found = search(document)
    if as_json:
        print_json(found)
    else:
        print(text(found))
    return 0


def text(found: Sweep) -> str:
    """Write a search for a terminal."""
    tried = f"{found.plans_tried} plans tried in {seconds(found.seconds)}"
    lines = [f"{tried} ({engineering(found.plans_per_s, 'plans/s')}), {found.plans_fitting} fit"]
    if not found.best:
        return "\n".join([*lines, "No plan fits: allow more memory or time, or take more chips."])
    lines += ["", f"best by {found.objective}:", _table(found.best)]
    lines += ["", "none is better in time, memory and cost at once:", _table(found.pareto)]
    return "\n".join(lines)


def _table(plans: Sequence[Found]) -> str:
    rows = [
        (
            " ".join(f"{name}={value}" for name, value in found.scenario["plan"].items()),
            seconds(found.step_time_s),
            engineering(found.tokens_per_s, ""),
            f"{found.mfu:.1%}",
            bytes_text(found.peak_bytes),
            f"{found.cost_chip_s:.3g}",
        )
        for found in plans
    ]
    return table(_HEADER, rows, indent="  ")
