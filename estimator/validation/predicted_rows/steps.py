"""Steps: rows that are training steps, or parts of one, of a model and a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from estimator.cost.efficiency import Calibrated, without_autograd
from estimator.estimate.estimate import Estimate, estimate
from estimator.scenario import catalog
from estimator.scenario.breakdown import WORK_PHASES, Phase
from estimator.scenario.codec import encode
from estimator.scenario.scenario import Scenario
from estimator.validation.predicted_rows.device import NEEDED, TableDevice, whole, word

Row = Mapping[str, Any]

MIB = 2**20
MODE_PARTS = {"forward": WORK_PHASES[:1], "forward-backward": WORK_PHASES[:2], "step": WORK_PHASES}


def grid_row(row: Row, place: TableDevice) -> dict[str, float]:
    """Predict a row of ``step --models``: seconds of its parts, waiting for the host included, and the peak.

    A replayed CUDA graph does not wait for the host, and keeps its own memory, which is not predicted. A forward
    alone keeps nothing for a backward, so that autograd does not record it, and its peak is not predicted either.
    """
    graph, mode = bool(row.get("graph")), word(row, "mode")
    if mode not in MODE_PARTS:
        return {}
    scenario, parts = scenario_of(row, place), MODE_PARTS[mode]
    calibration = place.calibration
    if mode == "forward":
        calibration = without_autograd(scenario.cluster.chip, calibration)
    one = estimated(scenario, calibration)
    found = {f"{part}_s": part_s(one, part, wait=not graph) for part in parts}
    found["step_s"] = sum(found.values())
    if not graph and mode != "forward":
        found["peak_bytes"] = _peak_bytes(row, place, mode)
    if mode == "step":
        found[NEEDED] = one.memory.reserved_bytes
    return found


def memory_row(row: Row, place: TableDevice) -> dict[str, float]:
    """Predict the peak of a row of ``memory``; that of a forward alone, which keeps nothing, is not predicted."""
    mode = word(row, "pass")
    return {"peak_bytes": _peak_bytes(row, place, mode)} if mode in MODE_PARTS and mode != "forward" else {}


def variant_row(row: Row, place: TableDevice) -> dict[str, float]:
    """Predict a row of ``ddp``: the step, what of its communication is exposed, the bubble and the fullest rank.

    Seconds in which a profiler saw communication alone are not predicted: waiting for other ranks is in them. Nor is
    the peak where the benchmark's own exchange keeps other buffers than DistributedDataParallel or ZeRO would.
    """
    plan = variant_plan(row)
    if not plan:
        return {}
    one = estimated(scenario_of(row, place, plan), place.calibration)
    found = {
        "step_s": one.step_time_s,
        "exposed_communication_s": one.phases_s[Phase.EXPOSED_COMMUNICATION],
        "bubble_s": one.phases_s[Phase.BUBBLE],
        NEEDED: one.memory.reserved_bytes,
    }
    return found if word(row, "kind") in OWN_BUFFERS else {**found, "peak_bytes": one.memory.peak_bytes}


OWN_BUFFERS = ("flat", "overlapped", "bucketed", "zero1")
"""Kinds of variants that the benchmark exchanges itself, without the buffers that a plan of that name keeps."""


WHOLE_BYTES = 2**40
"""A bucket that all gradients fit into: the benchmark's ZeRO-1 copies them into one tensor, after backward."""


def variant_plan(row: Row) -> dict[str, Any]:
    """Write a variant of ``ddp`` as a plan; empty where the estimator has none of its kind.

    FSDP without resharding gathers once, as zero3 does here. Reductions tensor by tensor beside backward are buckets
    that no two tensors fit into.
    """
    ranks, kind, words = whole(row, "ranks"), word(row, "kind"), word(row, "variant").split(":")[1:]
    if kind == "fsdp" and word(row, "precision", "").endswith("-amp") and "mixed" not in words:
        return {}  # gathers fp32, as no policy says otherwise; the estimator's FSDP gathers what it computes in
    sizes = [int(word) * MIB for word in words if word.isdigit()]
    plans: dict[str, dict[str, Any]] = {
        "single": {"dp": 1},
        "naive": {"dp": ranks, "ddp_mode": "naive", "overlap": False},
        "flat": {"dp": ranks, "ddp_mode": "flat", "overlap": False},
        "overlapped": {"dp": ranks, "bucket_bytes": 1},
        "bucketed": {"dp": ranks, "bucket_bytes": (sizes or [25 * MIB])[0]},
        "torch-ddp": {"dp": ranks, "bucket_bytes": (sizes or [25 * MIB])[0]},
        "zero1": {"dp": ranks, "sharding": "zero1", "overlap": False, "bucket_bytes": WHOLE_BYTES},
        "fsdp": {"dp": ranks, "sharding": "zero3" if "no-reshard" in words else "fsdp"},
        "tp": {"tp": ranks, "sequence_parallel": "sequence" in words},
        "pp": {"pp": ranks, "schedule": row.get("schedule"), "virtual_stages": row.get("virtual_stages")},
    }
    return plans.get(kind, {})


def scenario_of(row: Row, place: TableDevice, plan: dict[str, Any] | None = None) -> Scenario:
    """Return the scenario of a row that says all that one needs, under ``plan``; raise InputProblems."""
    name, sequences = word(row, "model"), whole(row, "micro_batch")
    usual = catalog.model(name).layers
    layers = whole(row, "layers", usual)
    # by its name the model is read already; one with other layers is read anew, as they may be impossible
    model = name if layers == usual else encode(replace(catalog.model(name), layers=layers))
    plan = {"micro_batch": sequences, "recompute": word(row, "recompute", "none"), **(plan or {"dp": 1})}
    training = {
        "seq_len": whole(row, "seq_len"),
        "global_batch": sequences * plan.get("dp", 1) * whole(row, "micro_batches", 1),
        "precision": word(row, "precision"),
        "attention": word(row, "attention"),
        "compile": bool(row.get("compile")),
        "optimizer": word(row, "optimizer", "adamw"),
        "optimizer_kernel": word(row, "optimizer_kernel", "default"),
        "framework": word(row, "framework", "pytorch-eager"),
    }
    return place.scenario(model, plan, training)


def _peak_bytes(row: Row, place: TableDevice, mode: str) -> float:
    """Peak of a step, or of forward and backward alone: SGD without momentum keeps no state beside them."""
    optimizer = "adamw" if mode == "step" else "sgd"
    return estimated(scenario_of({**row, "optimizer": optimizer}, place), place.calibration).memory.peak_bytes


def part_s(one: Estimate, part: str, *, wait: bool = True) -> float:
    """Seconds of a phase, with those in which the chip waits for the host."""
    return one.phases_s[part] + (one.host_wait_by_phase_s[part] if wait else 0.0)


@lru_cache(maxsize=1024)
def estimated(scenario: Scenario, calibration: Calibrated | None) -> Estimate:
    """Estimate without the interval, once for all rows of a scenario."""
    return estimate(scenario, calibration, interval=False, explained=False)
