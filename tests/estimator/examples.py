"""Scenarios and efficiencies with round numbers, so that a test can compute by hand what a formula must give."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from estimator.cost.efficiency import Efficiencies, efficiencies, ideal
from estimator.estimate.assemble import Lines, Rank, lines_of, parts_in_line, parts_of, rank_of, setting_of
from estimator.scenario.hardware import Chip, Cluster, Link
from estimator.scenario.scenario import Scenario, scenario_from_json
from estimator.schedule.micro_batch import Pass
from estimator.schedule.step import Parts, Setting, Step, stage_passes, step

CHIP: dict[str, Any] = {
    "name": "round chip",
    "fp32_flops_per_s": 1e12,
    "tf32_flops_per_s": 4e12,
    "fp16_flops_per_s": 8e12,
    "bf16_flops_per_s": 8e12,
    "memory_bytes": 1e11,
    "memory_bytes_per_s": 1e11,
    "compute_units": 10,
    "clock_hz": 1e9,
}
LINK = {"bytes_per_s": 1e10, "latency_s": 1e-6}
NETWORK = {"bytes_per_s": 1e9, "latency_s": 1e-5}

LLAMA: dict[str, Any] = {"layers": 4, "hidden": 256, "heads": 8, "kv_heads": 2, "ffn": 704, "vocab": 1024}
GPT: dict[str, Any] = {
    "layers": 4,
    "hidden": 256,
    "heads": 8,
    "ffn": 1024,
    "vocab": 1024,
    "gated_ffn": False,
    "activation": "gelu",
    "norm": "layer",
    "position": "learned",
    "bias": True,
    "tied_embedding": True,
}

MIXTRAL: dict[str, Any] = {**LLAMA, "experts": 8, "top_k": 2, "moe_ffn": 512}


def document(
    model: dict[str, Any] | str = LLAMA, *, plan: dict[str, Any] | None = None, chips_per_node: int = 8, **training: Any
) -> dict[str, Any]:
    """Write a scenario: as many chips as the plan's degrees need, one micro-batch per rank unless told otherwise."""
    plan = plan or {}
    chips = plan.get("dp", 1) * plan.get("tp", 1) * plan.get("pp", 1) * plan.get("cp", 1)
    per_node = min(chips, chips_per_node)
    batch = plan.get("dp", 1) * plan.get("micro_batch", 1)
    return {
        "model": model,
        "cluster": {
            "chip": CHIP,
            "chips_per_node": per_node,
            "nodes": chips // per_node,
            "link": LINK,
            "network": NETWORK,
        },
        "plan": plan,
        "training": {"seq_len": 128, "global_batch": batch, "precision": "bf16", **training},
    }


def scenario(model: dict[str, Any] | str = LLAMA, **rest: Any) -> Scenario:
    """Read what ``document`` writes."""
    return scenario_from_json(document(model, **rest))


def cluster(chips_per_node: int = 8, nodes: int = 1, **chip: Any) -> Cluster:
    """Build a cluster of round chips."""
    return Cluster(
        chip=Chip(**{**CHIP, **chip}),
        chips_per_node=chips_per_node,
        nodes=nodes,
        link=Link(**LINK),
        network=Link(**NETWORK),
    )


ALIKE = {"host_forward_dispatches_per_kernel": 1.0, "host_backward_dispatches_per_kernel": 1.0}
"""An op of the host for each kernel: no views."""


def flawless(**changes: float) -> Efficiencies:
    """Return efficiencies of 1 and overheads of 0, but for what a test changes; waves and sums in line remain."""
    return replace(ideal(efficiencies("default")), lower_bound=False, **changes)


@dataclass(frozen=True, kw_only=True)
class Built:
    """A scenario at every stage of its way to a step."""

    rank: Rank
    setting: Setting
    lines: Lines
    parts: Parts
    passes: list[Pass]
    step: Step


def built(one: Scenario, e: Efficiencies | None = None) -> Built:
    """Price a scenario part by part as ``estimate`` does."""
    e = e or flawless()
    rank = rank_of(one, e)
    setting = setting_of(one, rank)
    lines = lines_of(rank, one.cluster, setting.groups, e)
    parts = parts_in_line(parts_of(rank, one.training, e), lines)
    passes = stage_passes(setting, parts, e)
    return Built(rank=rank, setting=setting, lines=lines, parts=parts, passes=passes, step=step(setting, passes, e))
