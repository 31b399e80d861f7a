"""How fast the cache-level roofline is: a Llama scenario, products of 100 layers that differ, the pathfinding page.

Run ``python benchmarks/hierarchy.py [SECONDS]``: how long each row is repeated (1 by default). One process, one core.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

SECONDS = 1.0
LLAMA: dict[str, Any] = {
    "model": "llama3-8b",
    "cluster": {"chip": "h200-sxm", "chips_per_node": 1},
    "training": {"seq_len": 4096, "global_batch": 1, "precision": "bf16"},
}
MANY: dict[str, Any] = {"chips": 3360, "batch": 6720, "hidden": 100_800, "vocab": 4_032_000, "layers": 3360}
"""6708 plans."""


def main(seconds: float) -> None:
    """Print milliseconds of each case: median and fastest."""
    from estimator.cost.cache_roofline import levels
    from estimator.estimate import cache_roofline_table
    from estimator.scenario import catalog
    from estimator.scenario.scenario import scenario_from_json
    from estimator.studies.deepflow.inputs import Inputs
    from estimator.studies.deepflow.view import plan_table, view

    llama = scenario_from_json(LLAMA)
    own = levels(catalog.chip("h200-sxm"), 2).levels
    ops = [(op, count / 32) for op, count in cache_roofline_table.products(llama) if op.layer == "layer"]
    hundred = tuple(
        (float(op.batch), float(op.m), float(op.n) + layer, float(op.k)) for layer in range(100) for op, _ in ops
    )
    cases: list[tuple[str, Callable[[], Any]]] = [
        ("Llama 3 8B, rows per kind of layer", lambda: cache_roofline_table.hierarchy(llama)),
        (f"{len(hundred)} products of 100 layers, anew", lambda: _anew(cache_roofline_table, hundred, own)),
        (
            f"{len(hundred)} products of 100 layers, again",
            lambda: cache_roofline_table.price(hundred, own, 9.894e14, 2, "bound"),
        ),
        ("pathfinding view, one slider step", lambda: view(Inputs())),
        ("plans on 512 chips", lambda: plan_table(Inputs())),
        (f"plans on {MANY['chips']} chips of sizes with many divisors", lambda: plan_table(Inputs(**MANY))),
    ]
    print(f"{'case':48} {'median ms':>10} {'fastest ms':>11} {'runs':>6}")
    for name, run in cases:
        times = _times(run, seconds)
        print(f"{name:48} {1e3 * statistics.median(times):10.3f} {1e3 * min(times):11.3f} {len(times):6}")


def _anew(table: Any, shapes: tuple[Any, ...], levels: tuple[Any, ...]) -> Any:
    table.price.cache_clear()
    return table.price(shapes, levels, 9.894e14, 2, "bound")


def _times(run: Callable[[], Any], seconds: float) -> list[float]:
    run()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return times


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
