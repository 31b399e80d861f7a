"""Draw: a series of steps that nobody chose, to predict before it runs.

``python -m benchmarks.draw RANKS COUNT SEED FOLDER [--chip CHIP]``: draws steps of dense models of the catalogue at
random, over what the runners measure, leaves out what is impossible, does not fit or takes longer than is worth
measuring, and writes FOLDER/series.json, which ``python -m runners series`` reads, and FOLDER/predictions.json, of a
host that nobody has probed. Ways to spread a step take turns; everything else is drawn.
"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from estimator.estimate.estimate import Estimate, estimate
from estimator.scenario import catalog
from estimator.scenario.model import Model
from estimator.scenario.parameters import parameters
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import scenario_from_json, scenario_problems
from runners.reference.plans import said
from runners.refusals import refusals

PRECISIONS = ("bf16", "bf16", "bf16-amp", "bf16-amp", "bf16-amp", "tf32", "fp32")
SEQUENCES = (512, 1024, 2048, 4096, 8192)
MICRO_BATCHES = (1, 2, 4, 8)
RECOMPUTES = ("none", "none", "none", "selective", "full")
ATTENTIONS = ("sdpa", "sdpa", "sdpa", "eager")
KERNELS = ("default", "fused")
SHORTEST_S, LONGEST_S = 0.015, 1.2
"""Predicted seconds between which a step is worth measuring."""
FULLEST_FRAC = 0.8
"""Of the device's memory, predicted, that a step takes at most."""
MOST_PARAMETERS = 8e9
"""Of a model: each rank builds it whole before it is spread."""

Way = tuple[str, dict[str, Any]]


def ways(ranks: int) -> tuple[Way, ...]:
    """How a step may be spread over so many ranks: replicas, shards, tensors, sequences, pipelines, two at once."""
    if ranks == 1:
        return (("one", {}),)
    pipelines = [
        (f"pp-{schedule}", {"pp": ranks, "schedule": schedule} | ({"virtual_stages": 2} if chunks else {}))
        for schedule, chunks in (("gpipe", 0), ("1f1b", 0), ("interleaved", 2), ("zero-bubble", 0))
    ]
    found: list[Way] = [
        ("ddp", {"dp": ranks}),
        *((kind, {"dp": ranks, "sharding": kind}) for kind in ("zero1", "zero2", "zero3", "fsdp")),
        ("tp", {"tp": ranks}),
        ("tp-sequence", {"tp": ranks, "sequence_parallel": True}),
        *((kind, {"cp": ranks, "cp_kind": kind}) for kind in ("ulysses", "ring", "all-gather")),
        *pipelines,
    ]
    if ranks >= 4:
        half = ranks // 2
        found += [
            ("hybrid", {"dp": ranks, "sharding": "fsdp", "shard_ranks": half}),
            ("tp-ddp", {"tp": half, "dp": 2}),
            ("tp-fsdp", {"tp": 2, "dp": half, "sharding": "fsdp"}),
            ("pp-ddp", {"pp": half, "dp": 2, "schedule": "1f1b"}),
            ("ulysses-fsdp", {"cp": half, "dp": 2, "cp_kind": "ulysses", "sharding": "fsdp"}),
        ]
    return tuple(found)


def models() -> list[tuple[str, Model]]:
    """The catalogue's dense transformers, by name."""
    found = ((entry.key, entry.value) for entry in catalog.entries("models"))
    return [(key, model) for key, model in found if not model.experts and not model.kv_lora_rank]


def drawn(ranks: int, count: int, seed: int, chip: str) -> list[tuple[dict[str, Any], Estimate]]:
    """Entries of a series beside their predictions; the same ones for the same numbers."""
    dice = random.Random(seed)
    kinds, known, seen = ways(ranks), models(), set[str]()
    found: list[tuple[dict[str, Any], Estimate]] = []
    while len(found) < count:
        way, spread = kinds[len(found) % len(kinds)]
        entry = _entry(dice, way, spread, ranks, known, chip)
        if entry["name"] in seen:
            continue
        one = _worth_measuring(entry, ranks)
        if one is not None:
            seen.add(entry["name"])
            found.append((entry, one))
    return found


def _entry(
    dice: random.Random, way: str, spread: dict[str, Any], ranks: int, known: list[tuple[str, Model]], chip: str
) -> dict[str, Any]:
    """One step, drawn; how it is spread is given."""
    key, model = dice.choice(known)
    # Models that are too large for one GPU or two are cut to blocks of theirs
    blocks = dice.choice((model.layers, max(1, model.layers // 2), max(1, model.layers // 4)))
    model = replace(model, name=key if blocks == model.layers else f"{key}, {blocks} blocks", layers=blocks)
    precision, seq_len = dice.choice(PRECISIONS), dice.choice(SEQUENCES)
    micro_batch, recompute = dice.choice(MICRO_BATCHES), dice.choice(RECOMPUTES)
    attention, kernel = dice.choice(ATTENTIONS), dice.choice(KERNELS)
    batches = dice.choice((2, 4)) * spread["pp"] if "pp" in spread else dice.choice((1, 1, 1, 2))
    plan = {**spread, "micro_batch": micro_batch, "recompute": recompute}
    sequences = micro_batch * spread.get("dp", 1) * batches
    kernel = kernel if ranks == 1 else "default"
    words = (way, key, blocks, precision, seq_len, micro_batch, batches, recompute, attention, kernel)
    training = {
        "seq_len": seq_len, "global_batch": sequences, "precision": precision, "attention": attention,
        **({"optimizer_kernel": kernel} if kernel != "default" else {}),
    }  # fmt: skip
    return {
        "name": "-".join(str(word) for word in words if word not in ("none", "default")),
        "scenario": {
            "model": said(model),
            "cluster": {"chip": chip, "chips_per_node": ranks, "nodes": 1},
            "plan": plan,
            "training": training,
        },
        "options": {},
    }


def _worth_measuring(entry: dict[str, Any], ranks: int) -> Estimate | None:
    """The prediction of a step that can be measured and is worth it; None of others."""
    try:
        scenario = scenario_from_json(entry["scenario"])
        if scenario_problems(scenario) or refusals(scenario, world_size=ranks, cuda=True):
            return None
        if parameters(scenario.model, scenario.training.seq_len) > MOST_PARAMETERS:
            return None
        one = estimate(scenario)
    except InputProblems:
        return None
    room = FULLEST_FRAC * scenario.cluster.chip.memory_bytes
    worth = SHORTEST_S <= one.step_time_s <= LONGEST_S and one.memory.peak_bytes <= room
    return one if worth else None


def main() -> int:
    """Draw a series and write it with its predictions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ranks", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chip", default="h200-sxm")
    given = parser.parse_args()
    found = drawn(given.ranks, given.count, given.seed, given.chip)
    given.folder.mkdir(parents=True, exist_ok=True)
    entries = [{**entry, "warmup": 3, "steps": steps_of(one.step_time_s)} for entry, one in found]
    predictions = {
        entry["name"]: {
            "step_s": one.step_time_s, "low_s": one.interval_s[0], "high_s": one.interval_s[1],
            "peak_bytes": one.memory.peak_bytes, "memory_low_bytes": one.memory.interval_bytes[0],
            "memory_high_bytes": one.memory.interval_bytes[1],
            "host_frac": sum(one.host_wait_by_phase_s.values()) / one.step_time_s,
        }
        for entry, one in found
    }  # fmt: skip
    for name, document in (("series", entries), ("predictions", predictions)):
        (given.folder / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    total_s = sum((entry["warmup"] + entry["steps"]) * predictions[entry["name"]]["step_s"] for entry in entries)
    print(f"{len(found)} steps, {total_s:.0f} s")
    return 0


def steps_of(step_s: float) -> int:
    """Steps that are timed of one: about four seconds, as a shared host's speed changes from step to step."""
    return max(8, min(60, round(4 / step_s)))


if __name__ == "__main__":
    raise SystemExit(main())
