"""Efficiencies: by how much real kernels, links and hosts stay below their peaks; a range and a source for each.

One calibration per chip family under catalog/efficiencies; what a file leaves out comes from its ``base``, a family.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

from estimator.scenario.hardware import Chip

SCHEMA_VERSION = 1
ROOT = Path(__file__).parents[1] / "catalog" / "efficiencies"


@dataclass(frozen=True, kw_only=True)
class Range:
    """One number with the interval in which it was seen (about 80 % of cases) and where it comes from."""

    value: float
    low: float
    high: float
    unit: str
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Tiles:
    """Output tiles that a library of products chooses from: (rows, columns, rate of one unit relative to the best).

    Smaller tiles re-read their operands more often. One object for equal tables (``tiles``), so that it is a cheap key.
    """

    tiles: tuple[tuple[int, int, float], ...]
    source: str

    @cached_property
    def sides(self) -> frozenset[int]:
        """How many rows or columns any of them has."""
        return frozenset(side for rows, columns, _ in self.tiles for side in (rows, columns))


@cache
def tiles(rows: tuple[tuple[int, int, float], ...], source: str) -> Tiles:
    """The table of these tiles; the same object each time."""
    return Tiles(tiles=rows, source=source)


@dataclass(frozen=True, kw_only=True)
class Efficiencies:
    """Everything between a datasheet and a measured step, as plain numbers; ``ranges`` has bounds and sources.

    ``device``: chip that they were measured on and are for, "" for any; ``about``: how they came about, for people.
    ``lower_bound``: what no software can undercut: an op takes as long as the roof that binds it, and what is sent
    while a micro-batch is computed shows only where it takes longer than computing. ``host_paced``: the host's are at a
    pace that was noted beside the step.
    """

    name: str
    gemm_matrix_frac: float
    gemm_tf32_frac: float
    gemm_tf32_outer_frac: float
    gemm_tf32_input_frac: float
    gemm_vector_frac: float
    gemm_unaligned_frac: float
    gemm_pairs_frac: float
    gemm_fours_frac: float
    gemm_start_s: float
    gemm_tf32_start_s: float
    gemm_vector_start_s: float
    gemm_split_factor: float
    gemm_split_depth: float
    gemm_vector_split_depth: float
    gemm_tf32_split_depth: float
    gemm_fill_depth: float
    gemm_vector_fill_depth: float
    gemm_vector_outer_factor: float
    gemm_overlap_power: float
    gemm_batched_overlap_power: float
    gemm_operands_frac: float
    gemm_result_bytes_per_unit_cycle: float
    gemm_grouped_tile_s: float
    gemm_grouped_switch_s: float
    gemm_in_step_factor: float
    clocked_frac: float
    attention_frac: float
    attention_start_s: float
    attention_flash_frac: float
    attention_flash1_frac: float
    attention_vector_frac: float
    attention_half_length: float
    attention_backward_half_length: float
    attention_vector_half_length: float
    attention_vector_half_width: float
    attention_vector_backward_half_width: float
    attention_vector_backward_frac: float
    attention_vector_tail_blocks: float
    attention_vector_row_cycles: float
    attention_vector_backward_row_cycles: float
    attention_half_width: float
    attention_flash_half_width: float
    attention_flash_backward_half_width: float
    attention_flash_backward_frac: float
    attention_flash_width_power: float
    attention_backward_half_width: float
    attention_backward_frac: float
    attention_tile: float
    attention_tail_blocks: float
    attention_row_cycles: float
    attention_backward_row_cycles: float
    attention_mask_frac: float
    attention_mask_backward_frac: float
    attention_dropout_frac: float
    attention_dropout_backward_frac: float
    memory_frac: float
    cache_kept_frac: float
    cache_bytes_per_unit_cycle: float
    norm_frac: float
    softmax_frac: float
    strided_elements_per_unit_cycle: float
    mixed_elements_per_unit_cycle: float
    looped_softmax_elements_per_unit_cycle: float
    column_bytes_per_unit_cycle: float
    column_start_s: float
    walk_load_s: float
    walk_load_plane_s: float
    walk_load_cudnn_s: float
    norm_row_cycles: float
    norm_tile_s: float
    gelu_elements_per_unit_cycle: float
    kernel_tail_s: float
    kernel_gap_s: float
    optimizer_tail_s: float
    optimizer_wave_s: float
    optimizer_chunk_s: float
    host_pace_s: float
    host_backward_pace_s: float
    host_launch_s: float
    host_forward_s: float
    host_backward_s: float
    host_fused_forward_s: float
    host_fused_backward_s: float
    host_megatron_forward_s: float
    host_megatron_backward_s: float
    host_library_factor: float
    host_library_backward_factor: float
    host_module_ops: float
    host_saved_ops: float
    host_saved_backward_ops: float
    host_region_ops: float
    host_region_backward_ops: float
    host_packed_ops: float
    host_packed_backward_ops: float
    host_unrecorded_frac: float
    host_gradient_kernels: float
    host_optimizer_s: float
    host_tensor_s: float
    host_sharded_tensor_s: float
    host_fsdp_forward_s: float
    host_fsdp_backward_s: float
    host_fsdp_kept_factor: float
    host_dtensor_s: float
    host_dtensor_op_s: float
    host_dtensor_value_s: float
    host_graph_forward_s: float
    host_graph_backward_s: float
    host_put_off_s: float
    host_new_product_s: float
    new_products_steps: float
    host_spread: float
    host_ranks_power: float
    chip_spread: float
    whole_node_factor: float
    power_limit_w: float
    idle_w: float
    matrix_flop_j: float
    tf32_flop_j: float
    fp32_flop_j: float
    attention_flop_j: float
    gelu_j: float
    byte_j: float
    host_forward_dispatches_per_kernel: float
    host_backward_dispatches_per_kernel: float
    host_view_frac: float
    host_step_s: float
    host_start_kernels: float
    host_pass_forward_kernels: float
    host_pass_backward_kernels: float
    host_collective_s: float
    link_frac: float
    network_frac: float
    collective_start_s: float
    collective_rank_s: float
    collective_ramp_s: float
    collective_full_bytes: float
    contention_frac: float
    contention_megatron_frac: float
    host_link_frac: float
    host_pageable_bytes_per_s: float
    host_memory_bytes_per_s: float
    workspace_bytes: float
    allocator_frac: float
    allocator_scores_frac: float
    gemm_matrix_tiles: Tiles
    gemm_tf32_tiles: Tiles
    gemm_vector_tiles: Tiles
    lower_bound: bool = False
    host_paced: bool = False
    device: str = ""
    about: str = ""
    ranges: dict[str, Range] = field(default_factory=dict, hash=False)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # A key of every cache of prices: forty numbers are hashed once.
        return hash(tuple(getattr(self, name) for name in ("name", "lower_bound", "host_paced", *NAMES, *TABLES)))


Calibrated = Efficiencies | tuple[Efficiencies, ...]
"""Measured efficiencies, of one device or of several."""

TABLES = ("gemm_matrix_tiles", "gemm_tf32_tiles", "gemm_vector_tiles")
NAMES = tuple(
    f.name
    for f in fields(Efficiencies)
    if f.name not in ("name", "lower_bound", "host_paced", "device", "about", "ranges", *TABLES)
)


@dataclass(frozen=True, kw_only=True)
class TileColumns:
    """A table of tiles as a calibration writes it, by column."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    rate: tuple[float, ...]
    source: str


def efficiencies(name: str) -> Efficiencies:
    """Return the efficiencies of a chip family; an unknown one has those of ``default``."""
    # A chip of one's own names its family: what it names is looked up, and never a path
    return _family(name if name in families() else "default")


@cache
def families() -> frozenset[str]:
    """Chip families that have a file."""
    return frozenset(path.stem for path in ROOT.glob("*.toml"))


@cache
def _family(name: str) -> Efficiencies:
    document = tomllib.loads((ROOT / f"{name}.toml").read_text(encoding="utf-8"))
    unknown = set(document) - {"schema_version", "base", "device", "ranges", "tables"}
    unknown |= set(document.get("ranges", {})) - set(NAMES) | set(document.get("tables", {})) - set(TABLES)
    assert not unknown, f"{name}.toml: unknown {sorted(unknown)}"
    assert document["schema_version"] == SCHEMA_VERSION, name
    base = efficiencies(document["base"]) if "base" in document else None
    own = {key: Range(**value) for key, value in document.get("ranges", {}).items()}
    tables = {key: from_columns(TileColumns(**value)) for key, value in document.get("tables", {}).items()}
    return from_ranges(name, own, tables, base)


def efficiencies_for(chip: Chip, calibrated: Calibrated | None) -> Efficiencies:
    """The calibration of this chip, else one that is for any, else the efficiencies of the chip's family."""
    given = (calibrated,) if isinstance(calibrated, Efficiencies) else calibrated or ()
    for device in (chip.name, ""):
        for one in given:
            if one.device == device:
                return under_power_limit(one, chip.power_limit_frac)
    return under_power_limit(efficiencies(chip.efficiency), chip.power_limit_frac)


def passed_over(chip: Chip, calibrated: Calibrated | None) -> tuple[Efficiencies, ...]:
    """The calibrations that were given, where none of them is of this chip or for any."""
    given = (calibrated,) if isinstance(calibrated, Efficiencies) else calibrated or ()
    return () if any(one.device in (chip.name, "") for one in given) else tuple(given)


def probes_host(e: Efficiencies, chip: Chip) -> bool:
    """Whether it is a calibration that has timed launches of its own host, not of its device alone."""
    shipped = efficiencies(chip.efficiency).ranges["host_launch_s"]
    return bool(e.device) and e.ranges["host_launch_s"].source != shipped.source


def without_autograd(chip: Chip, calibrated: Calibrated | None) -> Efficiencies:
    """Those of this chip for a forward that autograd does not record: each op takes the host less.

    A calibration for any chip, without the power limit, which whoever takes it puts upon it.
    """
    e = efficiencies_for(replace(chip, power_limit_frac=1.0), calibrated)
    return replace(at_rates(e, e.host_unrecorded_frac, names=("host_forward_s",)), device="")


COMPUTE = ("gemm_matrix_frac", "gemm_tf32_frac", "gemm_unaligned_frac", "gemm_pairs_frac",
           "gemm_fours_frac", "attention_frac", "attention_flash_frac", "attention_flash1_frac")  # fmt: skip
"""Rates of matrix units, whose power sets a chip's clock; those of vector units (0.4 % among four H200 hosts' probes)
and of memory do not follow it."""

PRODUCTS = tuple(name for name in COMPUTE if name.startswith("gemm_"))
"""Those of them that are rates of products: attention, which draws as much a FLOP, reaches half of theirs."""

OF_HOST = tuple(name for name in NAMES if name.startswith("host_") and name.endswith("_s") and "_per_s" not in name)
"""What a host that is slower takes longer for."""

DRAWN_AT_ANY_CLOCK = ("power_limit_w", "idle_w", "byte_j", "fp32_flop_j", "gelu_j")
DRAWN_AT_ITS_CLOCK = ("matrix_flop_j", "tf32_flop_j", "attention_flop_j")
"""What a chip draws beside matrix units, with its limit, and what a FLOP of theirs takes, at their clock's voltage."""

CLOCK_EXPONENT, LEAST_CLOCK_EXPONENT, LARGEST_CLOCK_EXPONENT = 1 / 3, 1 / 5, 1 / 2
"""Clock over power limit, as a power. Switching takes C·V²·f, and V rises with f (Mudge 2001, Power: a first-class
architectural design constraint, IEEE Computer 34(4)): f³. Largest: a third of the power does not fall with the clock.
Least: not all products of a step draw what the limit is."""


@lru_cache(maxsize=64)
def under_power_limit(e: Efficiencies, limit_frac: float) -> Efficiencies:
    """Rates of matrix units at the clock that a power limit leaves: times limit^(1/3); all others are as they were.

    Where it is known what a chip draws, work that the full limit slows down keeps that factor beside: a FLOP of matrix
    units takes J·clock², and idle and byte fall with the limit (assumed), so that P over the limit is as it was.
    """
    if limit_frac == 1.0:
        return e
    clock = limit_frac**CLOCK_EXPONENT
    drawn = {name: getattr(e, name) * limit_frac for name in DRAWN_AT_ANY_CLOCK}
    drawn |= {name: getattr(e, name) * clock**2 for name in DRAWN_AT_ITS_CLOCK}
    e = replace(e, **drawn)
    return at_rates(e, clock, low=limit_frac**LARGEST_CLOCK_EXPONENT, high=limit_frac**LEAST_CLOCK_EXPONENT)


def at_rates(
    e: Efficiencies, factor: float, *, names: tuple[str, ...] = COMPUTE, low: float | None = None,
    high: float | None = None,
) -> Efficiencies:  # fmt: skip
    """The same with the rates in ``names`` times ``factor``, their ranges times ``low`` and ``high`` where given."""
    low, high = factor if low is None else low, factor if high is None else high
    ranges = {
        name: replace(one, value=one.value * factor, low=one.low * low, high=one.high * high)
        for name in names
        for one in [e.ranges[name]]
    }
    changed: dict[str, Any] = {name: getattr(e, name) * factor for name in names}
    return replace(e, ranges={**e.ranges, **ranges}, **changed)


def from_columns(given: TileColumns) -> Tiles:
    """The table of these columns."""
    rows = zip(map(int, given.rows), map(int, given.columns), map(float, given.rate), strict=True)
    return tiles(tuple(rows), given.source)


OF_CHECKPOINTS = (
    "host_saved_ops", "host_saved_backward_ops", "host_region_ops", "host_region_backward_ops", "host_packed_ops",
    "host_packed_backward_ops",
)  # fmt: skip
"""What running forward again in backward takes the host beside the ops."""


OF_PASSES = ("host_start_kernels", "host_pass_forward_kernels", "host_pass_backward_kernels")
"""What a step and its passes take the host beside the ops."""


def ideal(e: Efficiencies) -> Efficiencies:
    """Return the datasheet's own efficiencies, a lower bound: shares 1, overheads 0, nothing but the roofs."""
    changed: dict[str, Any] = {name: getattr(e, name) for name in NAMES}
    changed |= {name: 1.0 for name in NAMES if name.endswith(("_frac", "_cycle"))}
    changed |= {
        name: 0.0 for name in NAMES if name.endswith(("_s", "_bytes", "_length")) and not name.endswith("_per_s")
    }
    changed |= {
        "contention_frac": 0.0,
        "contention_megatron_frac": 0.0,
        "host_spread": 0.0,
        "host_ranks_power": 0.0,
        "chip_spread": 0.0,
        "whole_node_factor": 1.0,
        "power_limit_w": 0.0,
        "gemm_in_step_factor": 1.0,
        "gemm_fill_depth": 0.0,
        "gemm_vector_fill_depth": 0.0,
        "gemm_vector_outer_factor": 1.0,
        # Attention computes what is visible, at one rate
        "attention_tile": 1.0,
        "attention_tail_blocks": 0.0,
        "attention_row_cycles": 0.0,
        "attention_backward_row_cycles": 0.0,
        "attention_backward_half_width": e.attention_half_width,
        "attention_vector_half_width": e.attention_half_width,
        "attention_vector_backward_half_width": e.attention_half_width,
        "attention_vector_tail_blocks": 0.0,
        "attention_vector_row_cycles": 0.0,
        "attention_vector_backward_row_cycles": 0.0,
        "cache_bytes_per_unit_cycle": 1e6,
        "gemm_result_bytes_per_unit_cycle": 0.0,
        "strided_elements_per_unit_cycle": 1e6,
        "mixed_elements_per_unit_cycle": 1e6,
        "looped_softmax_elements_per_unit_cycle": 1e6,
        "column_bytes_per_unit_cycle": 1e6,
        **dict.fromkeys((*OF_CHECKPOINTS, *OF_PASSES), 0.0),
        "collective_full_bytes": e.collective_full_bytes,
        # The link bounds every copy
        "host_pageable_bytes_per_s": 1e12,
    }
    exact = {name: replace(e.ranges[name], value=value, low=value, high=value) for name, value in changed.items()}
    return replace(e, name="ideal", lower_bound=True, ranges=exact, **changed)


def from_ranges(
    name: str, ranges: Mapping[str, Range], tables: Mapping[str, Tiles], base: Efficiencies | None,
    *, device: str = "", about: str = "",
) -> Efficiencies:  # fmt: skip
    """Build the plain numbers from their ranges; what is not given comes from ``base``; every name must be there."""
    every = {**(base.ranges if base else {}), **ranges}
    missing = [key for key in NAMES if key not in every]
    assert not missing, f"efficiencies {name}: missing {missing}"
    numbers: dict[str, Any] = {key: every[key].value for key in NAMES}
    for key in TABLES:
        numbers[key] = tables[key] if key in tables else getattr(base, key)
    return Efficiencies(name=name, ranges=every, device=device, about=about, **numbers)
