"""How fast one prediction is, how fast a search is, and what importing the estimator costs; one table.

Run ``python benchmarks/estimate.py [SECONDS]``: how long each row is repeated (2 by default). Searches over all axes
run in fresh processes, so that their peak memory is their own; beside one's rate stands that of ``estimate`` in a loop.
"""

from __future__ import annotations

import itertools
import json
import resource
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
IMPORTS = 7
CASES: dict[str, dict[str, Any]] = {
    "Llama 3 405B, dp 8 · tp 8 · cp 16 · pp 16": {
        "model": "llama3-405b",
        "cluster": {"chip": "h100-sxm", "nodes": 2048},
        "plan": {"dp": 8, "tp": 8, "cp": 16, "pp": 16, "cp_kind": "all-gather", "sharding": "zero2",
                 "sequence_parallel": True},
        "training": {"seq_len": 131072, "global_batch": 128, "framework": "megatron", "precision": "bf16"},
    },
    "Llama 3 8B, FSDP, 8 H100": {
        "model": "llama3-8b",
        "cluster": "h100-sxm",
        "plan": {"dp": 8, "sharding": "fsdp"},
        "training": {"seq_len": 4096, "global_batch": 64, "precision": "bf16"},
    },
}  # fmt: skip
"""The first has the degrees of Llama 3's long-context stage (arXiv 2407.21783, table 4)."""
README_TABLE = (("8b", 1, 64), ("8b", 8, 512), ("8b", 128, 2048), ("70b", 128, 2048))
"""Searches whose speed README.md tells: Llama 3 of that size, nodes of 8 H100, sequences of 4096 tokens per step."""
SWEEPS: dict[str, dict[str, Any]] = {
    **{
        f"Llama 3 {size.upper()} on {8 * nodes} H100": {
            "model": f"llama3-{size}",
            "cluster": {"chip": "h100-sxm", "nodes": nodes},
            "training": {"seq_len": 4096, "global_batch": batch},
        }
        for size, nodes, batch in README_TABLE
    },
    "Llama 3 70B on 1024 H200": {
        "model": "llama3-70b",
        "cluster": {"chip": "h200-sxm", "nodes": 128},
        "training": {"seq_len": 8192, "global_batch": 2048, "precision": "bf16", "framework": "megatron"},
    },
    "DeepSeek-V3 on 256 H200": {
        "model": "deepseek-v3",
        "cluster": {"chip": "h200-sxm", "nodes": 32},
        "training": {"seq_len": 4096, "global_batch": 1024, "precision": "bf16", "framework": "megatron"},
    },
}
LLAMA = "Llama 3 70B on 1024 H200"
LOOPED = 300
"""Plans of the search that the loop estimates one by one."""


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


def of_other_lengths(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return more scenarios than the estimator keeps ranks of, so that every one is built anew."""
    training = document["training"]
    length = training["seq_len"]
    return [document | {"training": training | {"seq_len": length - length // 512 * i}} for i in range(256)]


def import_s() -> float:
    """Import the estimator in a fresh interpreter; return what the import itself took."""
    code = "import time; s = time.perf_counter(); import estimator.estimate.estimate; print(time.perf_counter() - s)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    return float(done.stdout)


def search(name: str = LLAMA) -> dict[str, float]:
    """Search all plans of a case; return counts, seconds and this process's peak memory."""
    from estimator.search.sweep import sweep

    start, cpu = time.perf_counter(), time.process_time()
    found = sweep(SWEEPS[name])
    return {
        "plans": found.plans_tried,
        "fitting": found.plans_fitting,
        "wall_s": time.perf_counter() - start,
        "cpu_s": time.process_time() - cpu,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def search_apart(name: str) -> dict[str, float]:
    """Search in a fresh process."""
    command = [sys.executable, str(Path(__file__)), "--search", name]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def loop_plans_per_s() -> float:
    """Estimate plans of the same search one at a time."""
    from dataclasses import replace

    from estimator.estimate.assemble import efficiencies_of
    from estimator.estimate.estimate import estimate
    from estimator.scenario.plan import Plan
    from estimator.scenario.scenario import Scenario, cluster_from_json, model_from_json, training_from_json
    from estimator.search.evaluate import evaluated
    from estimator.search.space import Space

    spec = SWEEPS[LLAMA]
    base = Scenario(
        model=model_from_json(spec["model"]),
        cluster=cluster_from_json(spec["cluster"]),
        plan=Plan(),
        training=training_from_json(spec["training"]),
    )
    space = Space(base, {"tp_kind": "1d", "micro_batch": 1})
    plans = []
    for block in evaluated(space, efficiencies_of(base, None), capacity_bytes=float("inf")):
        plans += [block.plan(i) for i in range(0, len(block.step_s), 97)]
        if len(plans) >= LOOPED:
            break
    start = time.perf_counter()
    for plan in plans:
        estimate(replace(base, plan=plan), interval=False)
    return len(plans) / (time.perf_counter() - start)


def row(what: str, value: float, unit: str, note: str = "") -> None:
    """Print one line of the table."""
    print(f"{what:58} {value:>12,.2f} {unit:9} {note}")


def main() -> None:
    """Measure and print the table."""
    from app.api.body import decode_json
    from app.encoding import encode_json
    from estimator.estimate.estimate import estimate
    from estimator.scenario.scenario import scenario_from_json
    from estimator.search.axis import axis

    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    print(f"{'':58} {'':>12} {'':9} runs, slowest")
    imports = [import_s() for _ in range(IMPORTS)]
    row("import estimator.estimate.estimate, fresh process, best", 1e3 * min(imports), "ms",
        f"{IMPORTS}, {1e3 * max(imports):.0f} ms")  # fmt: skip
    for name, document in CASES.items():
        scenario = scenario_from_json(document)
        body = json.dumps(document).encode()
        unlike = itertools.cycle(scenario_from_json(one) for one in of_other_lengths(document))
        for what, run in (
            (f"estimate: {name}", lambda s=scenario: estimate(s)),
            ("  of another sequence length each time", lambda s=unlike: estimate(next(s))),
            ("  without interval", lambda s=scenario: estimate(s, interval=False)),
            (
                "  from JSON to JSON, as served",
                lambda b=body: encode_json(estimate(scenario_from_json(decode_json(b)))),
            ),
        ):
            times = repeated_s(run, seconds)
            row(what, 1e3 * statistics.median(times), "ms", f"{len(times)}, {1e3 * max(times):.1f} ms")
    document = CASES["Llama 3 8B, FSDP, 8 H100"]
    times = repeated_s(lambda: axis(document, "training.seq_len"), seconds)
    points = len(axis(document, "training.seq_len").points)
    row(f"axis: Llama 3 8B along training.seq_len, {points} points", 1e3 * statistics.median(times), "ms",
        f"{len(times)}, {1e3 * max(times):.0f} ms")  # fmt: skip
    for name in SWEEPS:
        found = search_apart(name)
        rate = found["plans"] / found["wall_s"]
        note = (
            f"{found['plans']:,.0f} plans, {found['fitting']:,.0f} fit; {found['wall_s']:.2f} s, CPU"
            f" {found['cpu_s']:.2f} s"
        )
        row(f"sweep: {name}, all axes", rate, "plans/s", note)
        row("  peak resident memory of its process", found["peak_bytes"] / 2**20, "MiB")
        if name == LLAMA:
            alone = loop_plans_per_s()
            row("  estimate without interval in a loop", alone, "plans/s",
                f"the search is {rate / alone:,.0f} times faster")  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == ["--search"]:
        print(json.dumps(search(*sys.argv[2:])))
    else:
        main()
