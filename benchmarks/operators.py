"""Efficiencies of a chip from a table of single operators: what its fp32 products and memory-bound kernels reach.

``python benchmarks/operators.py TABLE.csv [--gpu NAME] [--out FOLDER]``. Columns: gpu, op, op_class (linear, bmm, elem,
ln, softmax), batch, m, k, n, rows, columns, measured_s. Only operators that last long enough to be device time count.
Steps are never looked at.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from estimator.calibration.fit import fit, fit_tiles, median_frac, ratio_logs, split, spread_frac, with_constants
from estimator.calibration.points import Point
from estimator.cost.efficiency import Range, efficiencies, tiles
from estimator.operations.op import gemm
from estimator.operations.torch_kernels import LAYER_NORM_ROWS, WARP_ROW, norm_rows
from estimator.scenario import catalog
from estimator.scenario.hardware import Chip
from estimator.scenario.units import counted
from estimator.validation.spellings import chip_of

LEAST_S = 1e-4
"""Shorter operators measure how they are launched."""
CACHES = 4.0
"""Kernels count that move this many times the last-level cache: others may find their operands there."""
FEWEST = 4
TILES = ((256, 128, 1.0), (128, 128, 0.95), (128, 64, 0.85), (64, 64, 0.7), (64, 32, 0.4))
"""Tiles of fp32 products on vector units, narrower than those of 16 bits, and where their rates start from."""
START_FRAC = 0.8
TURNS = 4
"""Rate and tiles are fitted in turns, until no tile moves."""
ROW = (WARP_ROW + 1, 8192)
"""Lengths of the rows of a softmax that attention has and a block goes over more than once."""
WHOLE_ROW = 4
"""Elements that a block fetches at once, of rows that are multiples of them. Others run in a kernel of their own, 0.65
to 0.75 as fast: few of the right kind say more than many of those."""


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
    frac, table_of_tiles, (residual, spread), count = fit_products(chip, rows, memory[0] if memory else 0.85)
    source = f"{table}, {gpu}, fp32"
    lines = [
        f"# {chip.label}: from {len(rows)} single operators (benchmarks/operators.py), no step among them.",
        "",
        "schema_version = 1", f'base = "{BASES.get(chip.name, "default")}"', f'device = "{gpu}"', "", "[ranges]",
        entry("gemm_vector_frac", frac, (frac / (1 + spread), min(frac * (1 + spread), 1.0)), "of fp32 peak",
              f"{source}: {count} products, median error {residual:.0%}"),
    ]  # fmt: skip
    if memory:
        lines.append(
            entry("memory_frac", memory[0], memory[1:3], "of memory bandwidth", f"{source}: {memory[3]} kernels")
        )
        for name, kind in (("norm_frac", "ln"), ("softmax_frac", "softmax")):
            found = rate(chip, rows, kind, accesses=lambda op: 2, besides=rows_s if kind == "ln" else None,
                         fewest=1 if kind == "softmax" else FEWEST)  # fmt: skip
            if found:
                each = [min(share / memory[0], 1.0) for share in found[:3]]
                family = efficiencies(BASES.get(chip.name, "default")).ranges[name]
                if found[3] < FEWEST:
                    each = as_wide_as(family, each[0])
                lines.append(entry(name, each[0], each[1:3], family.unit, f"{source}: {counted(found[3], 'kernel')}"))
    lines += ["", "[tables.gemm_vector_tiles]"]
    for name, column in zip(("rows", "columns", "rate"), zip(*table_of_tiles, strict=True), strict=True):
        lines.append(f"{name} = [{', '.join(f'{one:.3g}' for one in column)}]")
    lines.append(f'source = "{source}: {count} products"')
    return "\n".join(lines) + "\n"


def as_wide_as(family: Range, value: float) -> list[float]:
    """A value that few kernels give, and ends as far from it as the lower one of its family's range is."""
    reach = family.low / family.value
    return [value, value * reach, min(value / reach, 1.0)]


UNARY = ("gelu", "relu", "tanh")
BASES = {"h100-sxm": "h100", "a100-40gb-pcie": "ampere", "a100-80gb-pcie": "ampere", "l4": "ada",
         "v100-32gb-pcie": "volta", "mi100": "cdna3", "mi210": "cdna3", "mi250": "cdna3"}  # fmt: skip


def entry(name: str, value: float, ends: Sequence[float], unit: str, source: str) -> str:
    """Write one efficiency."""
    low, high = min(ends[0], value), max(ends[1], value)
    return (
        f'{name} = {{ value = {value:.3g}, low = {low:.3g}, high = {high:.3g}, unit = "{unit}", source = "{source}" }}'
    )


def rows_s(chip: Chip, rows: float, columns: float) -> float:
    """What a layer norm takes for its rows beside their bytes."""
    cycles = efficiencies(BASES.get(chip.name, "default")).norm_row_cycles
    return float(norm_rows(rows, columns, LAYER_NORM_ROWS)) * cycles / (chip.compute_units * chip.clock_hz)


def rate(
    chip: Chip,
    rows: Sequence[dict[str, str]],
    kind: str,
    accesses: Callable[[str], int],
    besides: Callable[[Chip, float, float], float] | None = None,
    fewest: int = FEWEST,
) -> tuple[float, float, float, int] | None:
    """Share of the bandwidth that kernels of a class reach: median, the tenth part from below and above, how many.

    ``besides``: seconds of what they do beside moving their bytes.
    """
    shares = []
    for row in rows:
        if row["op_class"] != kind or not row["rows"]:
            continue
        columns = float(row["columns"])
        moved = accesses(row["op"]) * 4 * float(row["rows"]) * columns
        seconds = float(row["measured_s"])
        if seconds < LEAST_S or moved < CACHES * chip.l2_bytes:
            continue
        if kind == "softmax" and (not ROW[0] <= columns <= ROW[1] or columns % WHOLE_ROW):
            continue
        if besides:
            seconds -= besides(chip, float(row["rows"]), columns)
        shares.append(moved / max(seconds, 1e-30) / chip.memory_bytes_per_s)
    # More than the bandwidth is a cache's
    shares = [share for share in shares if share <= 1.0]
    if len(shares) < fewest:
        return None
    low, middle, high = np.quantile(shares, (0.1, 0.5, 0.9))
    return float(middle), float(low), float(high), len(shares)


def fit_products(
    chip: Chip, rows: Sequence[dict[str, str]], memory_frac: float
) -> tuple[float, tuple[tuple[int, int, float], ...], tuple[float, float], int]:
    """Rate and tiles of fp32 products, by the fit of ``headroom calibrate``, with their errors and how many they are.

    Errors: the median one, and the one that 80 % stay below, which is how far the rate may be off in a model.

    How k is split and how compute and memory overlap stays as the base has it: products of 16 bits share it.
    """
    points = [
        product(*(float(row[name] or 1) for name in ("batch", "m", "n", "k")), float(row["measured_s"]))
        for row in rows
        if row["op_class"] in ("linear", "bmm") and float(row["measured_s"]) >= LEAST_S
    ]
    start = with_constants(
        efficiencies(BASES.get(chip.name, "default")), {"memory_frac": memory_frac, "gemm_vector_frac": START_FRAC}
    )
    e = replace(start, gemm_vector_tiles=tiles(TILES, ""))
    kept, held = split(points)
    for _ in range(TURNS):
        e, _ = fit(("gemm_vector_frac",), points, chip, e)
        table = fit_tiles("gemm_vector_tiles", kept, held, chip, e)
        if table is None:
            break
        e = replace(e, gemm_vector_tiles=table)
    # The best tile's rate is 1 by definition.
    best = max(one for *_, one in e.gemm_vector_tiles.tiles)
    relative = tuple((r, c, one / best) for r, c, one in e.gemm_vector_tiles.tiles)
    logs = ratio_logs(points, chip, e)
    return e.gemm_vector_frac * best, relative, (median_frac(logs), spread_frac(logs)), len(points)


def product(batch: float, m: float, n: float, k: float, seconds: float) -> Point:
    """A product of fp32 that ran alone."""
    op = gemm("product", "", "forward", m=m, n=n, k=k, batch=batch, element_bytes=4, precision="fp32")
    return Point(group="fp32 products", ops=(op,), seconds=seconds, what="")


if __name__ == "__main__":
    sys.exit(main())
