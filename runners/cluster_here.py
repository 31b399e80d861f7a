"""Cluster here: the device that a benchmark runs on, as a scenario's cluster."""

from __future__ import annotations

import torch

from estimator.scenario import catalog
from estimator.scenario.hardware import Chip, Cluster, Link
from estimator.scenario.problems import InputProblems
from runners.environment import device
from runners.ranks import Ranks


def cluster_here(ranks: Ranks) -> tuple[Cluster, bool]:
    """One node of the device that this process runs on, and whether the catalogue knows its peaks."""
    found = device(ranks.cuda)
    none = Link(bytes_per_s=1.0, latency_s=0.0)
    try:
        chip, known = catalog.chip("cpu" if not ranks.cuda else found["name"]), True
    except InputProblems:
        kind = "gpu" if torch.cuda.is_available() and ranks.cuda else "cpu"
        chip = Chip(
            kind=kind,
            label=found["name"],
            fp32_flops_per_s=1.0,
            tf32_flops_per_s=1.0,
            fp16_flops_per_s=1.0,
            bf16_flops_per_s=1.0,
            memory_bytes=found["memory_bytes"],
            memory_bytes_per_s=1.0,
        )
        known = False
    return Cluster(chip=chip, chips_per_node=ranks.world_size, link=none, network=none), known
