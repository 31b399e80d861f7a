"""How fast one prediction is, how fast a search is, and what importing the estimator costs; one table.

Run ``python benchmarks/estimate.py [SECONDS]``: how long each row is repeated (2 by default). One process, one core.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

SECONDS = 2.0
IMPORTS = 5
CASES: dict[str, dict[str, Any]] = {
    "Llama 3 405B, tp 8 · pp 14 · dp 64": {
        "model": "llama3-405b",
        "cluster": {"chip": "h100-sxm", "nodes": 896},
        "plan": {"dp": 64, "tp": 8, "pp": 14, "sharding": "zero1", "sequence_parallel": True},
        "training": {"seq_len": 8192, "global_batch": 2048, "framework": "megatron", "precision": "bf16"},
    },
    "Llama 3 8B, FSDP, 8 H100": {
        "model": "llama3-8b",
        "cluster": "h100-sxm",
        "plan": {"dp": 8, "sharding": "fsdp"},
        "training": {"seq_len": 4096, "global_batch": 64, "precision": "bf16"},
    },
}
SWEEP: dict[str, Any] = {
    "model": "llama3-8b",
    "cluster": {"chip": "h100-sxm", "nodes": 2},
    "training": {"seq_len": 8192, "global_batch": 64, "precision": "bf16"},
}


def repeated_s(run: Callable[[], object], seconds: float) -> list[float]:
    """Run again and again for ``seconds``, at least three times; return each duration."""
    run()
    found: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(found) < 3:
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return found


def import_s() -> float:
    """Import the estimator in a fresh interpreter; return what the import itself took."""
    code = "import time; s = time.perf_counter(); import estimator.estimate; print(time.perf_counter() - s)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    return float(done.stdout)


def row(what: str, median: float, unit: str, note: str = "") -> None:
    """Print one line of the table."""
    print(f"{what:52} {median:>10,.2f} {unit:9} {note}")


def main() -> None:
    """Measure and print the table."""
    from estimator.axis import axis
    from estimator.codec import encode
    from estimator.estimate import estimate
    from estimator.scenario import scenario_from_json
    from estimator.sweep import sweep

    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    print(f"{'':52} {'median':>10} {'':9} runs, slowest")
    imports = [import_s() for _ in range(IMPORTS)]
    row("import estimator.estimate, fresh process", 1e3 * statistics.median(imports), "ms",
        f"{IMPORTS}, {1e3 * max(imports):.0f} ms")  # fmt: skip
    for name, document in CASES.items():
        scenario = scenario_from_json(document)
        for what, run in (
            (f"estimate: {name}", lambda s=scenario: estimate(s)),
            ("  from JSON to JSON", lambda d=document: encode(estimate(scenario_from_json(d)))),
        ):
            times = repeated_s(run, seconds)
            row(what, 1e3 * statistics.median(times), "ms", f"{len(times)}, {1e3 * max(times):.1f} ms")
    document = CASES["Llama 3 8B, FSDP, 8 H100"]
    times = repeated_s(lambda: axis(document, "training.seq_len"), seconds)
    points = len(axis(document, "training.seq_len").points)
    row(f"axis: Llama 3 8B along training.seq_len, {points} points", 1e3 * statistics.median(times), "ms",
        f"{len(times)}, {1e3 * max(times):.0f} ms")  # fmt: skip
    found = sweep(SWEEP)
    row(
        f"sweep: Llama 3 8B on 16 H100, {found.plans_tried} plans",
        found.plans_per_s,
        "plans/s",
        f"{found.seconds:.2f} s",
    )


if __name__ == "__main__":
    main()
