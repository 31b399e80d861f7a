"""Whether two checkouts predict the same: every number of many estimates, sweeps and studies, to the last bit.

    python benchmarks/same_results.py write BEFORE.json --checkout OLD --rows ROWS.csv ROWS2.csv
    python benchmarks/same_results.py write AFTER.json --checkout NEW --rows ROWS.csv ROWS2.csv
    python benchmarks/same_results.py compare BEFORE.json AFTER.json

``write`` predicts every row of the tables of measured runs, random legal scenarios, sweeps and studies, and keeps each
number as it is in binary. Functions are found by their names, because modules move. ``compare`` prints how many
numbers there are, how many differ at all and by more than ``--relative``, and which texts changed; it exits with 1
where a number differs by more.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import hashlib
import importlib
import json
import pkgutil
import random
import runpy
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

CHIPS = ("v100-32gb", "a100-80gb-sxm", "h100-sxm", "h200-sxm", "b200", "mi300x", "rtx-4090")
MODELS = ("gpt2", "llama3-8b", "llama3-70b", "qwen3-30b-a3b", "mixtral-8x7b", "deepseek-v2", "gpt3-175b", "mpt-1b")
SWEEPS = (
    ("gpt2", "h100-sxm", 1, 1, 64, 1024, {}),
    ("gpt2-xl", "a100-80gb-sxm", 1, 8, 64, 1024, {}),
    ("llama3-8b", "h100-sxm", 1, 8, 64, 4096, {}),
    ("llama3-8b", "h200-sxm", 2, 8, 128, 8192, {"locked": {"placement": "tp-cp-dp-pp"}}),
    ("llama3-70b", "h100-sxm", 4, 8, 256, 4096, {"locked": {"placement": "tp-cp-dp-pp", "cp": 1}}),
    ("mixtral-8x7b", "h100-sxm", 2, 8, 128, 4096, {"locked": {"placement": "tp-cp-dp-pp"}}),
    ("qwen3-30b-a3b", "b200", 1, 8, 64, 4096, {}),
    ("deepseek-v2", "h200-sxm", 2, 8, 64, 4096, {"locked": {"cp": 1, "placement": "tp-cp-dp-pp"}}),
    ("gpt3-175b", "a100-80gb-sxm", 8, 8, 1536, 2048, {"locked": {"cp": 1, "placement": "tp-cp-dp-pp"}}),
    ("megatron-22b", "a100-80gb-sxm", 1, 8, 4, 2048, {}),
    ("cs336-xl", "h200-sxm", 1, 4, 16, 512, {"search": {"offload": "all", "recompute_every": [1, 2, 4]}}),
    ("tinyllama-1.1b", "rtx-4090", 1, 4, 32, 2048, {}),
    ("llama2-7b", "mi300x", 1, 8, 64, 4096, {}),
    ("llama2-13b", "v100-32gb", 2, 8, 64, 2048, {"precision": "fp16-amp"}),
    ("mpt-1b", "a100-40gb-sxm", 1, 8, 64, 2048, {"search": {"overlap": [True, False]}}),
    ("llama3.2-1b", "h100-pcie", 1, 8, 64, 2048, {"objective": "memory"}),
    ("qwen3-0.6b", "h100-sxm", 1, 2, 16, 4096, {"search": {"ddp_mode": "all"}}),
    ("llama3-8b", "b200", 1, 8, 64, 4096, {"precision": "fp8"}),
    ("llama3-8b", "h100-sxm", 1, 8, 64, 4096, {"framework": "megatron", "objective": "cost"}),
    ("llama3-8b", "h100-sxm", 1, 8, 64, 4096, {"framework": "ideal"}),
)
FRAMEWORKS = tuple(runpy.run_path(str(Path(__file__).parents[1] / "estimator/scenario/framework.py"))["FRAMEWORKS"])
"""Those of this script's own checkout, so that it draws the same for all; what an older one lacks is refused there."""
TEXTS = frozenset({"name", "limits", "assumptions", "problems", "moment", "bound", "efficiencies"})


def main() -> int:
    """Write the results of one checkout, or compare those of two."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    write_parser = verbs.add_parser("write")
    write_parser.add_argument("out", type=Path)
    write_parser.add_argument("--checkout", type=Path, default=Path(__file__).parents[1])
    write_parser.add_argument("--rows", type=Path, nargs="*", default=[])
    write_parser.add_argument("--scenarios", type=int, default=2000)
    compare_parser = verbs.add_parser("compare")
    compare_parser.add_argument("before", type=Path)
    compare_parser.add_argument("after", type=Path)
    compare_parser.add_argument("--relative", type=float, default=0.0)
    given = parser.parse_args()
    if given.verb == "compare":
        return compare(json.loads(given.before.read_text()), json.loads(given.after.read_text()), given.relative)
    sys.path.insert(0, str(given.checkout.resolve()))
    given.out.write_text(json.dumps(results(given.rows, given.scenarios)))
    return 0


def results(tables: list[Path], scenarios: int) -> dict[str, dict[str, Any]]:
    """Return leaves by item: floats in hexadecimal, long lists of ops as one digest."""
    named = functions()
    found: dict[str, dict[str, Any]] = {}

    def timed(what: str, start: float) -> None:
        print(f"{what}: {len(found)} items so far, {time.perf_counter() - start:.1f} s", file=sys.stderr)

    start = time.perf_counter()
    for path in tables:
        for number, row in enumerate(csv.DictReader(path.open(newline="")), 1):
            read = named["scenario_of_row"](row)
            key = f"{path.name}:{number}"
            found[key] = {"reason": read.reason} if read.scenario is None else predicted(named, read.scenario)
    timed("rows", start)
    start = time.perf_counter()
    draw, legal = random.Random(336), 0
    while legal < scenarios:
        document = drawn(draw)
        try:
            scenario = named["scenario_from_json"](document)
        except ValueError as error:
            if len(found) > 100 * scenarios + 10_000:
                raise RuntimeError("hardly any scenario is legal") from error
            found[f"refused {hashlib.md5(json.dumps(document).encode()).hexdigest()}"] = {"reason": str(error)}
            continue
        legal += 1
        found[f"scenario {legal}"] = predicted(named, scenario)
    timed("scenarios", start)
    start = time.perf_counter()
    for number, (model, chip, nodes, chips_per_node, batch, seq_len, more) in enumerate(SWEEPS):
        more = dict(more)
        training = {name: more.pop(name) for name in ("precision", "framework") if name in more}
        cluster = {"chip": chip, "nodes": nodes, "chips_per_node": chips_per_node}
        spec = {"model": model, "cluster": cluster, "training": {"seq_len": seq_len, "global_batch": batch, **training}}
        answer = dataclasses.asdict(named["sweep"](spec | more))
        answer = {name: answer[name] for name in ("plans_tried", "plans_fitting", "best", "pareto")}
        found[f"sweep {number} {model}"] = dict(leaves("", answer))
    timed("sweeps", start)
    start = time.perf_counter()
    for name, module in importlib.import_module("estimator.studies").STUDIES.items():
        study = importlib.import_module(module)
        result = dataclasses.asdict(study.run(study.Inputs()))
        found[f"study {name}"] = {key: value for key, value in leaves("", result) if not key.startswith("inputs")}
    timed("studies", start)
    return found


def predicted(named: dict[str, Any], scenario: Any) -> dict[str, Any]:
    """Return the leaves of one estimate; collectives stand in the order of their numbers, their names apart."""
    try:
        answer = dataclasses.asdict(named["estimate"](scenario))
    except ValueError as error:
        return {"reason": str(error)}
    ops = answer.pop("ops")
    found = dict(leaves("", answer))
    numbers = [[value for name, value in leaves("", op) if name not in TEXTS] for op in ops]
    found["ops"] = hashlib.sha256(json.dumps(numbers).encode()).hexdigest()
    found["op names"] = hashlib.sha256(json.dumps([op["name"] for op in ops]).encode()).hexdigest()
    return found


def leaves(where: str, value: Any) -> list[tuple[str, Any]]:
    """Flatten nested objects into (path, leaf) pairs."""
    if isinstance(value, dict):
        return [pair for key, inner in value.items() for pair in leaves(f"{where}.{key}" if where else str(key), inner)]
    if isinstance(value, (list, tuple)):
        return [pair for index, inner in enumerate(value) for pair in leaves(f"{where}[{index}]", inner)]
    return [(where, float(value).hex() if isinstance(value, float) else value)]


def functions() -> dict[str, Any]:
    """Find the functions of a checkout by name, wherever they live."""
    wanted = {"estimate", "sweep", "scenario_from_json", "scenario_of_row"}
    found = {}
    package = importlib.import_module("estimator")
    for info in pkgutil.walk_packages(package.__path__, "estimator."):
        module = importlib.import_module(info.name)
        for name in wanted:
            value = getattr(module, name, None)
            if callable(value) and value.__module__ == info.name and ".studies." not in info.name:
                found[name] = value
    assert set(found) == wanted, f"not found: {wanted - set(found)}"
    return found


def drawn(draw: random.Random) -> dict[str, Any]:
    """Draw a scenario's JSON, often legal."""
    pick = draw.choice
    tp, cp, pp, dp = pick((1, 1, 2, 4, 8)), pick((1, 1, 1, 2, 4)), pick((1, 1, 2, 4, 8)), pick((1, 2, 4, 8, 16))
    grid = pick((False, False, False, True)) and tp in (4, 8)
    kind = {4: "2d", 8: pick(("2.5d", "3d"))}[tp] if grid else "1d"
    schedule = pick(("gpipe", "1f1b", "interleaved", "zero-bubble", "zero-bubble-v")) if pp > 1 else "1f1b"
    chips = tp * (1 if grid else cp) * pp * dp
    per_node = min(chips, pick((1, 2, 4, 8, 8, 8)))
    micro, batches = pick((1, 2, 4)), pick((1, 2, 4, 8)) * pp
    sharding, recompute = pick(("ddp", "zero1", "zero2", "zero3", "fsdp")), pick(("none", "selective", "full"))
    return {
        "model": pick(MODELS),
        "cluster": {"chip": pick(CHIPS), "chips_per_node": per_node, "nodes": max(chips // per_node, 1)},
        "plan": {
            "dp": dp, "tp": tp, "tp_kind": kind, "tp_depth": 2 if kind == "2.5d" else 1, "cp": 1 if grid else cp,
            "cp_kind": pick(("ring", "ulysses", "all-gather")), "pp": pp, "schedule": schedule,
            "virtual_stages": 2 if schedule == "interleaved" else 1, "sharding": sharding, "micro_batch": micro,
            "sequence_parallel": pick((True, False)) and not grid, "recompute": recompute,
            "recompute_every": pick((1, 2)) if recompute == "full" else 1,
            "ddp_mode": pick(("bucketed", "flat", "naive")),
            "overlap": pick((True, True, False)), "ep": pick((1, 1, 2, 4)), "bucket_bytes": pick((10**5, 26_214_400)),
            "placement": pick(("tp-cp-dp-pp", "dp-tp-cp-pp", "pp-tp-cp-dp")),
            "offload": pick(("none", "none", "none", "both")),
        },
        "training": {
            "seq_len": pick((512, 2048, 4096, 8192)), "global_batch": dp * micro * batches,
            "precision": pick(("fp32", "tf32", "fp16-amp", "bf16-amp", "bf16", "fp8")),
            "optimizer": pick(("adamw", "sgd")),
            "attention": pick(("eager", "sdpa", "flash", "flash1")), "dropout": pick((0.0, 0.0, 0.1)),
            "compile": pick((True, False)),
            "framework": pick(FRAMEWORKS),
        },
    }  # fmt: skip


def compare(before: dict[str, Any], after: dict[str, Any], relative: float) -> int:
    """Print what differs; 1 where a number differs by more than ``relative``."""
    numbers = bits = beyond = 0
    worst = 0.0
    texts: Counter[tuple[str, str]] = Counter()
    shown = 0
    for key in sorted(set(before) ^ set(after)):
        print(f"only {'before' if key in before else 'after'}: {key}")
        beyond += 1
    for key in before.keys() & after.keys():
        old, new = before[key], after[key]
        for name in old.keys() | new.keys():
            a, b = old.get(name), new.get(name)
            x, y = number_of(a), number_of(b)
            if x is None or y is None:
                numbers += name == "ops"
                if a != b:
                    texts[str(a)[:110], str(b)[:110]] += 1
                    if name == "ops":
                        beyond += 1
                continue
            numbers += 1
            if x != y:
                bits += 1
                off = abs(x - y) / max(abs(x), abs(y))
                worst = max(worst, off)
                if off > relative:
                    beyond += 1
                    if shown < 20:
                        print(f"{key} {name}: {x!r} before, {y!r} after")
                        shown += 1
    print(f"{len(before)} items, {numbers} numbers: {bits} differ, by {worst:.2g} at most;", end=" ")
    print(f"{beyond} by more than {relative:g}")
    print(f"{sum(texts.values())} texts differ, {len(texts)} kinds")
    for (old, new), count in texts.most_common(40):
        print(f"  {count} × {old!r} → {new!r}")
    return 1 if beyond else 0


def number_of(leaf: Any) -> float | None:
    """Read a leaf back; None where it is a text."""
    if isinstance(leaf, (int, float)):
        return leaf
    try:
        return float.fromhex(leaf)
    except (TypeError, ValueError):
        return None


if __name__ == "__main__":
    sys.exit(main())
