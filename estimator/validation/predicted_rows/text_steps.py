"""Text steps: rows of an imported table of step times, on as many chips as each names, and what they leave out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from estimator.scenario import catalog
from estimator.scenario.breakdown import Phase
from estimator.scenario.hardware import Chip
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.scenario import Scenario
from estimator.validation.csv_row import SHARDINGS
from estimator.validation.predicted_rows.device import TableDevice, whole, word
from estimator.validation.predicted_rows.steps import PARTS, Row, estimated, part_s, scenario_of, variant_plan
from estimator.validation.spellings import precision_of

BATCHES = ("batch", "global_batch", "batch_per_gpu", "micro_batch")
"""Columns that say how many sequences a step has, the surest first."""
DEGREES = ("tp", "pp", "cp")
MATRIX_UNITS = 3.0
"""How many times as fast as fp32 a chip with matrix units computes fp16 at least; Pascal's twice is without."""


def text_row(row: Row, place: TableDevice) -> dict[str, float]:
    """Predict a line of an imported table of step times whose model the catalogue knows."""
    if "catalogue_model" not in row or "seq_len" not in row:
        return {}
    one = estimated(_scenario(row, place), place.calibration)
    parts = {part: part_s(one, part) for part in PARTS}
    return {
        **{f"{part}_s": seconds for part, seconds in parts.items()},
        "forward_backward_s": parts[Phase.FORWARD] + parts[Phase.BACKWARD],
        "step_s": one.step_time_s,
        "peak_bytes": one.memory.peak_bytes,
    }


def text_data_parallel_row(row: Row, place: TableDevice) -> dict[str, float]:
    """Predict a line of an imported table of data parallel steps; forward, backward and optimizer are one rank's.

    What waits for communication is what of it is exposed, all of it where nothing overlaps.
    """
    found = text_row(row, place)
    mode = row.get("ddp_mode", "")
    if not found or mode not in ("naive", "flat", "overlapped", "bucketed"):
        return found
    variant = {"kind": mode, "variant": mode, "ranks": row.get("world_size", place.ranks)}
    one = estimated(_of_one_rank(_known(row, place), place, variant_plan(variant)), place.calibration)
    wait_s = one.phases_s[Phase.EXPOSED_COMMUNICATION]
    return {
        **found,
        "step_s": one.step_time_s,
        "communication_wait_s": wait_s,
        "communication_wait_frac": wait_s / one.step_time_s,
    }


def _scenario(row: Row, place: TableDevice) -> Scenario:
    known, ranks = _known(row, place), whole(row, "gpus", 1)
    if ranks == 1:
        return _of_one_rank(known, place, None)
    plan = _plan(row, ranks, place)
    each = _sequences_of_each(row, ranks, plan["dp"], place)
    choices = list(_shares(row, each, plan["pp"]))
    found = [scenario_of({**known, **choice}, place, plan) for choice in choices]
    fitting = (at for at, one in enumerate(found) if estimated(one, place.calibration).memory.fits)
    at = next(fitting, None)
    if len(found) > 1:
        how = choices[at or 0]
        recomputed = ", each layer computed again in backward," if how.get("recompute") == "full" else ""
        most = (
            f"as many sequences of a GPU at a time as fit{recomputed}"
            if at is not None
            else "a GPU's sequences at once"
        )
        place.assume(f"{most} (columns micro batch, recompute)")
    return found[at or 0]


def _of_one_rank(known: dict[str, Any], place: TableDevice, plan: dict[str, Any] | None) -> Scenario:
    """One rank takes its sequences at once, unless the table says how many at a time."""
    sequences = next(whole(known, name) for name in BATCHES if known.get(name))
    at_once = whole(known, "micro_batch", sequences) if known.get("micro_batch") else sequences
    if sequences % at_once:
        raise _problem("micro_batch", f"{at_once} do not divide the {sequences} sequences of a step")
    shares = {"micro_batch": at_once, "micro_batches": sequences // at_once}
    return scenario_of({**known, **shares}, place, plan)


def _known(row: Row, place: TableDevice) -> dict[str, Any]:
    """What a line leaves out is assumed: one sequence, the chip's usual precision, the attention of its model.

    CS336's assignment trains in fp32 and writes attention out; its fused kernel is a later part.
    """
    model = word(row, "catalogue_model")
    course = model.startswith("cs336")
    usual = {"precision": "fp32" if course else usual_precision(catalog.chip(place.chip))}
    usual["attention"] = "eager" if course else "sdpa"
    known: dict[str, Any] = {**row, "model": model}
    if not any(row.get(name) for name in BATCHES):
        known["batch"] = 1
        place.assume("batch 1, as the table states none")
    for column, value in usual.items():
        if not row.get(column):
            known[column] = value
            hint = "" if course else f" (column {column})"
            place.assume(f"{column} {value}, as the table states none{hint}")
    stated = str(known["precision"])
    known["precision"] = precision_of(stated) or stated
    if known["precision"] != stated:
        place.assume(f"{stated} read as {known['precision']}")
    return known


def usual_precision(chip: Chip) -> str:
    """The precision that people train in on a chip: 16 bits under autocast where it has matrix units of them."""
    if chip.kind == "cpu":
        return "fp32"
    if chip.bf16_flops_per_s:
        return "bf16-amp"
    return "fp16-amp" if (chip.fp16_flops_per_s or 0.0) >= MATRIX_UNITS * chip.fp32_flops_per_s else "fp32"


def _plan(row: Row, ranks: int, place: TableDevice) -> dict[str, Any]:
    """The layout of a line over its chips: the degrees that it states, data parallel over the rest."""
    degrees = {name: whole(row, name) if row.get(name) else 1 for name in DEGREES}
    inner = math.prod(degrees.values())
    if ranks % inner:
        raise _problem("gpus", f"{ranks} GPUs do not divide by tp · pp · cp = {inner}")
    dp = ranks // inner
    plan: dict[str, Any] = {**degrees, "dp": dp}
    stated = str(row.get("sharding") or row.get("strategy") or "").strip().lower()
    if stated and stated not in SHARDINGS:
        raise _problem("sharding", f"{stated[:40]!r} is none that is known; write ddp, zero1, zero2, zero3 or fsdp")
    if stated:
        plan["sharding"] = SHARDINGS[stated]
    elif dp * degrees["cp"] > 1:
        plan["sharding"] = "fsdp" if degrees["pp"] == 1 else "zero1"
        words = "data parallel under FSDP" if inner == 1 else f"{plan['sharding']} over what is left"
        place.assume(f"{words}, as the table states no plan of several GPUs (columns sharding, tp, pp)")
    return plan


def _sequences_of_each(row: Row, ranks: int, dp: int, place: TableDevice) -> int:
    """How many sequences of a step each data-parallel rank takes."""
    if row.get("batch_per_gpu"):
        return whole(row, "batch_per_gpu")
    stated = "global_batch" if row.get("global_batch") else "batch"
    if not row.get(stated):
        return whole(row, "micro_batch") if row.get("micro_batch") else 1
    batch = whole(row, stated)
    if stated == "global_batch" and batch % dp:
        raise _problem("global_batch", f"{batch} sequences do not divide over {dp} data-parallel ranks")
    if batch % dp and batch > dp:
        message = f"{batch} sequences do not divide over {dp} data-parallel ranks; each GPU's go into batch per GPU"
        raise _problem("batch", message)
    if batch % dp:
        place.assume("a batch of fewer sequences than GPUs is that of each GPU (column batch per GPU)")
        return batch
    if stated == "batch" and ranks > 1:
        place.assume("the batch is that of all GPUs together (columns global batch, batch per GPU)")
    return batch // dp


def _shares(row: Row, each: int, pp: int) -> Iterator[dict[str, Any]]:
    """Ways to take a rank's sequences: what is stated, else as many at a time as fit, without recomputation first."""
    if row.get("micro_batch"):
        at_once = whole(row, "micro_batch")
        if each % at_once:
            raise _problem("micro_batch", f"{at_once} do not divide the {each} sequences of a rank")
        sizes = [at_once]
    elif pp > 1:
        sizes = [1]
    else:
        sizes = [each // share for share in range(1, min(each, MOST_SHARES) + 1) if each % share == 0]
    ways: list[dict[str, Any]] = [{}] if row.get("recompute") else [{}, {"recompute": "full"}]
    for way in ways:
        for size in sizes:
            yield {**way, "micro_batch": size, "micro_batches": each // size}


MOST_SHARES = 64
"""Micro-batches of a step up to which one that fits is looked for."""


def _problem(field: str, message: str) -> InputProblems:
    return InputProblems([Problem(field=field, message=message, remedy="Correct the column, and import again.")])
