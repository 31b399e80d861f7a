"""Models by name, for benchmarks that measure several: those of the catalogue, and a tiny one to try things out."""

from __future__ import annotations

from dataclasses import replace

import torch

from estimator import catalog
from estimator.hardware import Chip, Cluster, Link
from estimator.model import Model
from estimator.problems import InputProblems
from runners.environment import device
from runners.options import TINY
from runners.ranks import Ranks

TINY_MODEL = Model(name=TINY, layers=4, hidden=64, heads=4, kv_heads=4, ffn=128, vocab=128)


def model_of(name: str, layers: int = 0) -> Model:
    """Look a model up, cut to its first ``layers`` blocks unless 0; raise InputProblems."""
    model = TINY_MODEL if name == TINY else replace(catalog.model(name), name=name)
    return replace(model, layers=layers) if layers else model


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
