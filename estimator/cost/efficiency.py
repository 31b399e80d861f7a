"""Efficiencies: by how much real kernels, links and hosts stay below their peaks; a range and a source for each.

One TOML file per chip family under catalog/efficiencies; what a file leaves out comes from default.toml.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1] / "catalog" / "efficiencies"


@dataclass(frozen=True, kw_only=True)
class Range:
    """One number with the interval in which it was seen (about 80 % of cases) and where it comes from."""

    value: float
    low: float
    high: float
    unit: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Efficiencies:
    """Everything between a datasheet and a measured step, as plain numbers; ``ranges`` has bounds and sources.

    ``lower_bound``: what no software can undercut: an op takes as long as the roof that binds it, and what is sent
    while a micro-batch is computed shows only where it takes longer than computing.
    """

    name: str
    gemm_matrix_frac: float
    gemm_tf32_frac: float
    gemm_vector_frac: float
    gemm_unaligned_frac: float
    gemm_start_s: float
    attention_frac: float
    attention_flash_frac: float
    attention_flash1_frac: float
    attention_vector_frac: float
    attention_half_length: float
    attention_backward_frac: float
    memory_frac: float
    strided_elements_per_unit_cycle: float
    mixed_elements_per_unit_cycle: float
    kernel_tail_s: float
    kernel_gap_s: float
    optimizer_tail_s: float
    host_forward_s: float
    host_backward_s: float
    host_fused_forward_s: float
    host_fused_backward_s: float
    host_megatron_forward_s: float
    host_megatron_backward_s: float
    host_tensor_s: float
    host_step_s: float
    host_collective_s: float
    link_frac: float
    network_frac: float
    collective_start_s: float
    collective_rank_s: float
    contention_frac: float
    host_link_frac: float
    host_memory_bytes_per_s: float
    workspace_bytes: float
    allocator_frac: float
    lower_bound: bool = False
    ranges: dict[str, Range] = field(default_factory=dict, hash=False)


NAMES = tuple(f.name for f in fields(Efficiencies) if f.name not in ("name", "lower_bound", "ranges"))


@cache
def efficiencies(name: str) -> Efficiencies:
    """Return the efficiencies of a chip family; numbers that its file lacks come from ``default``."""
    path = ROOT / f"{name}.toml"
    found = _read(ROOT / "default.toml")
    if name != "default" and path.exists():
        found |= _read(path)
    return from_ranges(name if path.exists() else "default", found)


def ideal(e: Efficiencies) -> Efficiencies:
    """Return the datasheet's own efficiencies, a lower bound: shares 1, overheads 0, nothing but the roofs."""
    ones = {name: 1.0 for name in NAMES if name.endswith(("_frac", "_cycle"))}
    zeros = {name: 0.0 for name in NAMES if name.endswith(("_s", "_bytes", "_length"))}
    changed = {**ones, **zeros, "contention_frac": 0.0, "strided_elements_per_unit_cycle": 1e6}
    changed["mixed_elements_per_unit_cycle"] = 1e6
    changed["host_memory_bytes_per_s"] = e.host_memory_bytes_per_s
    exact = {name: replace(e.ranges[name], value=value, low=value, high=value) for name, value in changed.items()}
    return replace(e, name="ideal", lower_bound=True, ranges=exact, **changed)


def from_ranges(name: str, ranges: dict[str, Range]) -> Efficiencies:
    """Build the plain numbers from their ranges; every name must be there."""
    missing = [key for key in NAMES if key not in ranges]
    assert not missing, f"efficiencies {name}: missing {missing}"
    numbers: dict[str, Any] = {key: ranges[key].value for key in NAMES}
    return Efficiencies(name=name, ranges=ranges, **numbers)


def _read(path: Path) -> dict[str, Range]:
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    unknown = set(document) - set(NAMES)
    assert not unknown, f"{path.name}: unknown efficiencies {sorted(unknown)}"
    return {key: Range(**value) for key, value in document.items()}
