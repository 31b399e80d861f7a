"""Devices: which chips a text's tables may have been measured on, by what the text names and what the tables need."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from estimator.scenario import catalog
from estimator.scenario.catalog import CatalogEntry
from estimator.scenario.hardware import Chip, peak_flops_per_s
from estimator.scenario.parameters import parameters
from estimator.scenario.problems import InputProblems

_KERNELS = (
    (re.compile(r"\b(?:sm_?90|cutlass3x_sm90|hopper_|nvjet_h)", re.IGNORECASE), ("hopper",)),
    (re.compile(r"\b(?:sm_?100|cutlass3x_sm100|nvjet_b)", re.IGNORECASE), ("blackwell", "blackwell-ultra")),
    (re.compile(r"\b(?:ampere_[a-z0-9]|cutlass_8\d_|sm_?8[06]\b)", re.IGNORECASE), ("ampere", "ada")),
    (re.compile(r"\b(?:volta_[a-z0-9]|cutlass_70_|sm_?70\b)", re.IGNORECASE), ("volta",)),
    (re.compile(r"\bCijk_"), ("cdna3",)),
)
"""Kernels that vendors build for an architecture; the catalogue's families that run them. Ada runs Ampere's."""
_ENVIRONMENT = re.compile(
    r"\W{0,8}(?:using |cuda |gpu )?(?:gpus?|devices?|cards?|hardware|accelerator|machine|name)\b[^:=|]{0,30}[:=|]"
    r"|\W{0,8}\d*\W{0,8}(?:nvidia|amd|tesla|geforce)\b",
    re.IGNORECASE,
)
"""A line that begins by saying which device it is."""
_PASS_FLOPS = {"forward_s": 2.0, "backward_s": 4.0, "step_s": 6.0}
"""FLOPs for each parameter and token that a pass takes at least; a step has forward and backward."""
_ADAM_FP32_BYTES = 16.0
"""Of each parameter, with its gradient and two moments."""
_LONGEST_LINE, _MOST_LINES, _MOST_NAMED = 160, 20_000, 4


def candidates(rows: Sequence[dict[str, Any]], lines: Sequence[str]) -> list[dict[str, str]]:
    """Propose chips for rows of one table, the likeliest first: ``{chip, why}``; empty where nothing tells.

    A chip that the text names on a line about hardware comes first, then those of the architecture that its kernels
    were built for, then all that could; never one that has less memory than a row took, or a lower
    peak than it needed.
    """
    accelerators = [entry for entry in catalog.entries("chips") if entry.value.kind != "cpu"]
    possible = [entry for entry in accelerators if _possible(rows, entry.value)]
    text = [line for line in lines[:_MOST_LINES] if 0 < len(line) <= _LONGEST_LINE]
    found = [
        {"chip": entry.key, "why": f"the text names it: {line.strip()[:80]}"}
        for entry in possible
        if (line := _named(entry, text))
    ]
    if found:
        return found[:_MOST_NAMED]
    for pattern, families in _KERNELS:
        hit = next((spoken for line in text if (spoken := pattern.search(line))), None)
        if hit is None:
            continue
        of_family = [entry for entry in possible if entry.value.efficiency in families]
        found += [{"chip": entry.key, "why": f"kernels are named {hit[0]}…"} for entry in of_family]
        break
    if len(possible) < len(accelerators):
        said = {one["chip"] for one in found}
        rest = [entry for entry in possible if entry.key not in said]
        found += [{"chip": entry.key, "why": "fast and large enough for every row"} for entry in rest]
    return found


def _named(entry: CatalogEntry, lines: Sequence[str]) -> str:
    names = [name for name in (entry.label, *entry.aliases, entry.key) if len(name) > 3]
    spoken = re.compile("|".join(rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in names), re.IGNORECASE)
    return next((line for line in lines if _ENVIRONMENT.match(line) and spoken.search(line)), "")


def _possible(rows: Sequence[dict[str, Any]], chip: Chip) -> bool:
    return all(_fits(row, chip) for row in rows)


def _fits(row: dict[str, Any], chip: Chip) -> bool:
    sizes = [value for key, value in row.items() if "memory" in key and key.endswith("_bytes") and _positive(value)]
    if any(size > chip.memory_bytes for size in sizes):
        return False
    name, length, batch = row.get("catalogue_model"), row.get("seq_len"), row.get("batch", 1)
    if not isinstance(name, str) or not isinstance(length, int) or not isinstance(batch, int):
        return True
    precision = str(row.get("precision", "fp32")).removesuffix("-amp")
    try:
        # the batch of a data-parallel benchmark is each rank's
        sharing = 1 if "ddp_mode" in row else max(1, int(row.get("world_size", 1)))
        peak = peak_flops_per_s(chip, precision) * sharing
        count = parameters(catalog.model(name))
    except (InputProblems, KeyError, ValueError, TypeError):
        return True
    if row.get("ddp_mode") and _ADAM_FP32_BYTES * count > chip.memory_bytes:
        return False
    tokens = float(length) * batch
    return not any(
        _positive(row.get(key)) and peak > 0 and flops * count * tokens / row[key] > peak
        for key, flops in _PASS_FLOPS.items()
    )


def _positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
