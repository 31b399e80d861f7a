"""Efficiencies of a chip from a table of single operators: what its fp32 products and memory-bound kernels reach.

``python benchmarks/operators.py TABLE.csv [--gpu NAME] [--out FOLDER]``. Columns: gpu, op, op_class (linear, bmm, elem,
ln, softmax), batch, m, k, n, rows, columns, measured_s. Only operators that last long enough to be device time count.
Steps are never looked at.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from estimator.cost.efficiency import efficiencies, tiles
from estimator.cost.gemm import gemm_s
from estimator.scenario import catalog
from estimator.scenario.hardware import Chip, peak_flops_per_s
from estimator.validation.spellings import chip_of

Floats = NDArray[np.float64]

LEAST_S = 1e-4
"""Shorter operators measure how they are launched."""
CACHES = 4.0
"""Kernels count that move this many times the last-level cache: others may find their operands there."""
FEWEST = 4
SHAPES = ((256, 128), (128, 128), (128, 64), (64, 64), (64, 32))
START = {"frac": 0.8, "256x128": 1.0, "128x128": 0.97, "128x64": 0.85, "64x64": 0.7, "64x32": 0.4}
LEAST = {"frac": 0.05}
ROW = (256, 8192)
"""Lengths of the rows of a softmax that attention has."""
ERROR_LEAST = 0.7
"""Errors beyond this factor (as a logarithm) are another kernel, or a chip that throttles; they pull no harder."""


@dataclass(frozen=True, kw_only=True)
class Operators:
    """Operators of one class on one chip, an array per column; ``bytes`` as fp32."""

    batch: Floats
    m: Floats
    n: Floats
    k: Floats
    bytes: Floats
    measured_s: Floats


def main() -> int:
    """Print, or write, a calibration for every GPU of the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--gpu", default="", help="only GPUs whose name has this")
    parser.add_argument("--source", default="", help="what to name as the source; the table's name by default")
    parser.add_argument("--out", type=Path, help="folder for a TOML per chip")
    given = parser.parse_args()
    # What a chip's file has of other sources stays in its family's, never in the one that is written here.
    with given.table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for gpu in dict.fromkeys(row["gpu"] for row in rows if given.gpu in row["gpu"]):
        chip = catalog.chip(chip_of(gpu))
        text = calibration(gpu, chip, [row for row in rows if row["gpu"] == gpu], given.source or given.table.name)
        if given.out:
            (given.out / f"{chip.name}.toml").write_text(text, encoding="utf-8")
        else:
            print(f"# {chip.name}\n{text}")
    return 0


def calibration(gpu: str, chip: Chip, rows: Sequence[dict[str, str]], table: str) -> str:
    """Fit a chip's efficiencies and write them as a calibration on the base of its family."""
    memory = rate(chip, rows, "elem", accesses=lambda op: {"add": 3}.get(op, 2 if op in UNARY else 0))
    fitted, residual, count = fit_products(chip, rows, memory[0] if memory else 0.85)
    frac, source = fitted["frac"], f"{table}, {gpu}, fp32"
    lines = [
        f"# {chip.label}: from {len(rows)} single operators (benchmarks/operators.py), no step among them.",
        "",
        "schema_version = 1", f'base = "{BASES.get(chip.name, "default")}"', f'device = "{gpu}"', "", "[ranges]",
        entry("gemm_vector_frac", frac, (frac * (1 - residual), min(frac * (1 + residual), 1.0)), "of fp32 peak",
              f"{source}: {count} products, median error {residual:.0%}"),
    ]  # fmt: skip
    if memory:
        lines.append(
            entry("memory_frac", memory[0], memory[1:3], "of memory bandwidth", f"{source}: {memory[3]} kernels")
        )
        for name, kind in (("norm_frac", "ln"), ("softmax_frac", "softmax")):
            found = rate(chip, rows, kind, accesses=lambda op: 2)
            if found:
                each = [min(share / memory[0], 1.0) for share in found[:3]]
                lines.append(entry(name, each[0], each[1:3], "of the rate of element-wise kernels",
                                   f"{source}: {found[3]} kernels"))  # fmt: skip
    rates = ", ".join(f"{fitted[f'{r}x{c}']:.2f}" for r, c in SHAPES)
    lines += ["", "[tables.gemm_vector_tiles]"]
    lines += [f"rows = {[r for r, _ in SHAPES]}", f"columns = {[c for _, c in SHAPES]}",
              f"rate = [{rates}]", f'source = "{source}: {count} products"']  # fmt: skip
    return "\n".join(lines) + "\n"


UNARY = ("gelu", "relu", "tanh")
BASES = {"h100-sxm": "h100", "a100-40gb-pcie": "ampere", "a100-80gb-pcie": "ampere", "l4": "ada",
         "v100-32gb-pcie": "volta", "mi100": "cdna3", "mi210": "cdna3", "mi250": "cdna3"}  # fmt: skip


def entry(name: str, value: float, ends: Sequence[float], unit: str, source: str) -> str:
    """Write one efficiency."""
    low, high = min(ends[0], value), max(ends[1], value)
    return (
        f'{name} = {{ value = {value:.3g}, low = {low:.3g}, high = {high:.3g}, unit = "{unit}", source = "{source}" }}'
    )


def rate(
    chip: Chip, rows: Sequence[dict[str, str]], kind: str, accesses: Callable[[str], int]
) -> tuple[float, float, float, int] | None:
    """Share of the bandwidth that kernels of a class reach: median, the tenth part from below and above, how many."""
    shares = []
    for row in rows:
        if row["op_class"] != kind or not row["rows"]:
            continue
        columns = float(row["columns"])
        moved = accesses(row["op"]) * 4 * float(row["rows"]) * columns
        seconds = float(row["measured_s"])
        if (
            seconds < LEAST_S
            or moved < CACHES * chip.l2_bytes
            or (kind == "softmax" and not ROW[0] <= columns <= ROW[1])
        ):
            continue
        shares.append(moved / seconds / chip.memory_bytes_per_s)
    # More than the bandwidth is a cache's
    shares = [share for share in shares if share <= 1.0]
    if len(shares) < FEWEST:
        return None
    low, middle, high = np.quantile(shares, (0.1, 0.5, 0.9))
    return float(middle), float(low), float(high), len(shares)


def fit_products(chip: Chip, rows: Sequence[dict[str, str]], memory_frac: float) -> tuple[dict[str, float], float, int]:
    """Fit rate and tiles of fp32 products; return them with the median error and how many there were.

    How k is split and how compute and memory overlap stays as the base has it: products of 16 bits share it.
    """
    some = [row for row in rows if row["op_class"] in ("linear", "bmm") and float(row["measured_s"]) >= LEAST_S]
    batch, m, n, k, measured = (
        np.array([float(row[name] or 1) for row in some]) for name in ("batch", "m", "n", "k", "measured_s")
    )
    ops = Operators(
        batch=batch, m=m, n=n, k=k, bytes=4 * batch * (m * k + k * n + m * n), measured_s=measured
    )  # fmt: skip

    def loss(given: dict[str, float]) -> float:
        error = np.abs(np.log(product_s(chip, ops, given, memory_frac) / ops.measured_s))
        return float(np.mean(np.minimum(error, ERROR_LEAST)))

    best = descend(loss, dict(START))
    error = np.abs(np.log(product_s(chip, ops, best, memory_frac) / ops.measured_s))
    return best, float(np.median(error)), len(some)


def product_s(chip: Chip, ops: Operators, given: dict[str, float], memory_frac: float) -> Floats:
    """Seconds of products under these constants, by the estimator's own formula."""
    base = efficiencies(BASES.get(chip.name, "default"))
    table = tiles(tuple((r, c, given[f"{r}x{c}"]) for r, c in SHAPES), "")
    seconds = gemm_s(
        batch=ops.batch, m=ops.m, n=ops.n, k=ops.k, bytes=ops.bytes,
        flops_per_s=peak_flops_per_s(chip, "fp32") * given["frac"], compute_units=chip.compute_units,
        memory_bytes_per_s=chip.memory_bytes_per_s * memory_frac, start_s=base.gemm_vector_start_s, tiles=table,
        split_factor=base.gemm_split_factor, overlap_power=base.gemm_overlap_power,
    )  # fmt: skip
    return np.asarray(seconds)


def descend(loss: Callable[[dict[str, float]], float], start: dict[str, float]) -> dict[str, float]:
    """Move one constant at a time, by ever smaller steps, as long as that helps."""
    best, least = start, loss(start)
    for step in (0.3, 0.15, 0.08, 0.04, 0.02, 0.01):
        for _ in range(8):
            before = least
            for name, factor in itertools.product(start, (1 + step, 1 / (1 + step))):
                tried = within({**best, name: best[name] * factor})
                found = loss(tried)
                if found < least:
                    best, least = tried, found
            if least > before * 0.999:
                break
    return best


def within(given: dict[str, float]) -> dict[str, float]:
    """Bound the constants; the best tile's rate is 1 by definition."""
    best = max(given[f"{r}x{c}"] for r, c in SHAPES)
    each = {name: value / best if "x" in name else value for name, value in given.items()}
    return {name: min(max(value, LEAST.get(name, 0.1)), 1.0) for name, value in each.items()}


if __name__ == "__main__":
    sys.exit(main())
