"""Throughput: the rates that a measured step achieves, and their share of the chip's peak."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from estimator.scenario.hardware import peak_flops_per_s
from estimator.scenario.measurement import Kernel
from estimator.scenario.parameters import model_flops_per_token
from runners.environment import device, other_chip
from runners.trainee import Trainee


def throughput(trainee: Trainee, steps_s: list[float], kernels: Sequence[Kernel]) -> dict[str, float | None]:
    """Achieved rates at the median step: model FLOPs as PaLM counts them, and those of the kernels that tell theirs.

    MFU is of the peak of the scenario's chip at the scenario's precision; null where the run is on another device.
    """
    scenario, step_s = trainee.scenario, statistics.median(steps_s)
    share = {"forward": 1 / 3}.get(trainee.mode, 1.0)
    flops = share * model_flops_per_token(scenario.model, scenario.training.seq_len) * scenario.tokens
    known = [kernel.flops for kernel in kernels if kernel.flops is not None]
    found = device(trainee.ranks.cuda)
    chip = scenario.cluster.chip
    here = found["kind"] == chip.kind.replace("gpu", "cuda") and not other_chip(chip, found["kind"], found["name"])
    peak = peak_flops_per_s(chip, scenario.training.precision) * trainee.ranks.world_size
    return {
        "tokens_per_s": scenario.tokens / step_s,
        "model_flops": flops,
        "model_flops_per_s": flops / step_s,
        "kernel_flops_per_rank": sum(known) if known else None,
        "mfu_frac": flops / step_s / peak if here and peak > 0 else None,
    }
