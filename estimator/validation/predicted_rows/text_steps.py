"""Text steps: rows of an imported table of step times, on as many chips as each names, and what they leave out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from estimator.cost.efficiency import Calibrated
from estimator.scenario.breakdown import WORK_PHASES, Phase
from estimator.scenario.framework import FRAMEWORKS
from estimator.scenario.hardware import Chip
from estimator.scenario.measurement import OOM, status_of_row
from estimator.scenario.problems import InputProblems, Problem, either
from estimator.scenario.scenario import Scenario
from estimator.scenario.training import ATTENTIONS, OPTIMIZER_KERNELS
from estimator.validation.at_a_time import AS_MANY_AS_FIT, sizes_at_a_time
from estimator.validation.csv_plan import ATTENTIONS as SPELT_ATTENTIONS
from estimator.validation.csv_plan import NOT_COMPILED
from estimator.validation.predicted_rows.device import NEEDED, TableDevice, whole, word
from estimator.validation.predicted_rows.steps import Row, estimated, part_s, scenario_of, variant_plan
from estimator.validation.spellings import optimizer_kernel_of, optimizer_of, precision_of, sharding_of

BATCHES = ("batch_per_gpu", "global_batch", "batch", "micro_batch")
"""Columns that say how many sequences a step has, the surest first."""
DEGREES = ("tp", "pp", "cp")
NOT_OFFLOADED = ("none", "no", "false", "off", "0", "✗")
"""How tables say that nothing is kept in the host's memory."""
MATRIX_UNITS = 3.0
"""How many times as fast as fp32 a chip with matrix units computes fp16 at least; Pascal's twice is without."""


def text_row(row: Row, place: TableDevice) -> dict[str, float]:
    """Predict a line of an imported table of step times whose model the catalogue knows."""
    if "catalogue_model" not in row or "seq_len" not in row:
        return {}
    scenario = scenario_of_text_row(row, place)
    one = estimated(scenario, place.calibration)
    parts = {part: part_s(one, part) for part in WORK_PHASES}
    return {
        **{f"{part}_s": seconds for part, seconds in parts.items()},
        "forward_backward_s": parts[Phase.FORWARD] + parts[Phase.BACKWARD],
        "step_s": one.step_time_s,
        "peak_bytes": one.memory.peak_bytes,
        "peak_memory_bytes": one.memory.peak_bytes,
        NEEDED: one.memory.reserved_bytes,
        **rates(scenario, one.step_time_s),
    }


OPTIMIZERS: dict[object, dict[str, str]] = {"step": {}, "forward-backward": {"optimizer": "sgd"}}
"""What keeps states, by what ran."""


def text_memory_row(row: Row, place: TableDevice) -> dict[str, float]:
    """Predict the peak of a step, or of forward and backward; that of a forward alone, which keeps nothing, is not.

    Without an optimizer SGD without momentum stands in its place, which keeps no state.
    """
    if "catalogue_model" not in row or "seq_len" not in row or row.get("pass") not in OPTIMIZERS:
        return {}
    optimizer = OPTIMIZERS[row["pass"]]
    one = estimated(scenario_of_text_row({**row, **optimizer}, place), place.calibration)
    return {"peak_bytes": one.memory.peak_bytes, NEEDED: one.memory.reserved_bytes}


def rates(scenario: Scenario, step_s: float) -> dict[str, float]:
    """Tokens and sequences a second, of all GPUs and of one."""
    each = {"tokens_per_s": scenario.tokens / step_s, "samples_per_s": scenario.training.global_batch / step_s}
    return {**each, **{f"{name}_per_gpu": rate / scenario.plan.chips for name, rate in each.items()}}


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


def scenario_of_text_row(row: Row, place: TableDevice) -> Scenario:
    """Return the scenario of a line, what it leaves out assumed; raise InputProblems."""
    known, ranks = _known(row, place), _ranks(row, place)
    if ranks == 1:
        return _of_one_rank(known, place, None)
    plan = _plan(known, ranks, place)
    each, at_once = _sequences_of_each(row, plan["dp"], place)
    choices = list(_shares(row, each, at_once, plan["pp"]))
    if len(choices) > 1 and status_of_row(row) == OOM:
        choices = choices[:1]
        place.assume("what ran out of memory took a GPU's sequences at once (columns micro batch, recompute)")
    found = [scenario_of({**known, **choice}, place, plan) for choice in choices]
    at = first_fitting(found, place.calibration)
    if len(found) > 1:
        how = choices[at or 0]
        again = how.get("recompute") == "full"
        if at_once:
            words = (
                "each layer computed again in backward, as it needs" if again else "no layer computed again in backward"
            )
            place.assume(f"{words} (column recompute)")
        elif at is None:
            place.assume("a GPU's sequences at once (columns micro batch, recompute)")
        else:
            recomputed = ", each layer computed again in backward," if again else ""
            place.assume(f"{AS_MANY_AS_FIT}{recomputed} (columns micro batch, recompute)")
    return found[at or 0]


def _of_one_rank(known: dict[str, Any], place: TableDevice, plan: dict[str, Any] | None) -> Scenario:
    """One rank takes its sequences at once, or as many as fit where it ran, unless the table says how many."""
    sequences, at_once = _sequences_of_each(known, 1, place)
    known = {**known, "recompute": known.get("recompute") or "none"}
    if status_of_row(known) != "ok":
        at_once = at_once or sequences
    whole, *cut = _shares(known, sequences, at_once, 1)
    first = scenario_of({**known, **whole}, place, plan)
    if not cut or first_fitting([first], place.calibration) is not None:
        return first
    found = [scenario_of({**known, **shares}, place, plan) for shares in cut]
    at = first_fitting(found, place.calibration)
    if at is None:
        return first
    place.assume(f"{AS_MANY_AS_FIT} (column micro batch)")
    return found[at]


def _known(row: Row, place: TableDevice) -> dict[str, Any]:
    """What a line leaves out is assumed: one sequence, the chip's usual precision, the attention of its model.

    CS336's assignment trains in fp32 and writes attention out; its fused kernel is a later part.
    """
    model = word(row, "catalogue_model")
    course = model.startswith("cs336")
    usual = {"precision": "fp32" if course else usual_precision(place.hardware)}
    usual["attention"] = "eager" if course else "sdpa"
    known: dict[str, Any] = {**row, "model": model}
    if all(row.get(name) is None for name in BATCHES):
        if row.get("batch_tokens"):
            raise _problem("batch_tokens", f"{str(row['batch_tokens'])[:40]} tokens are no whole number of sequences")
        known["batch"] = 1
        place.assume("batch 1, as the table states none")
    for column, value in usual.items():
        if not row.get(column):
            known[column] = value
            hint = "" if course else f" (column {column})"
            of_chip = f" on {place.label}, where" if column == "precision" and not course else ", as"
            place.assume(f"{column} {value}{of_chip} the table states none{hint}")
    offload = str(row.get("offload") or "none").lower()
    if offload not in NOT_OFFLOADED:
        raise _problem("offload", f"{offload[:40]!r} is not predicted, as a table says not what is offloaded")
    stated = str(known["precision"])
    known["precision"] = precision_of(stated) or stated
    if known["precision"] != stated:
        place.assume(f"{stated} read as {known['precision']}")
    if isinstance(attention := known["attention"], str) and attention not in ATTENTIONS:
        plain = attention.lower().strip()
        known["attention"] = plain if plain in ATTENTIONS else SPELT_ATTENTIONS.get(plain, attention)
    if isinstance(compiled := known.get("compile"), str):
        known["compile"] = compiled.lower().strip() not in NOT_COMPILED
    return known | _software(row, place)


def _software(row: Row, place: TableDevice) -> dict[str, str]:
    """Optimizer, its kernels and framework in a scenario's words, as ``headroom validate`` reads them.

    A framework that is none of those known says nothing of a step; kernels that are none would be a wrong time.
    """
    optimizer, kernel, framework = (
        str(row.get(name) or "").strip() for name in ("optimizer", "optimizer_kernel", "framework")
    )
    stated = optimizer_kernel_of(kernel)
    if kernel and not stated and kernel.lower() != "default":
        words = f"{kernel[:40]!r} is none that is known; write {either(OPTIMIZER_KERNELS)}"
        raise _problem("optimizer_kernel", words)
    known = framework.lower() in FRAMEWORKS
    if framework and not known:
        place.assume(f"framework {framework[:40]!r}, none that is known, taken for plain PyTorch")
    return {
        "optimizer": optimizer_of(optimizer) or "adamw",
        "optimizer_kernel": stated or ("" if kernel else optimizer_kernel_of(optimizer)) or "default",
        "framework": framework.lower() if known else "pytorch-eager",
    }


def usual_precision(chip: Chip) -> str:
    """The precision that people train in on a chip: 16 bits under autocast where it has matrix units of them."""
    if chip.kind == "cpu":
        return "fp32"
    if chip.bf16_flops_per_s:
        return "bf16-amp"
    return "fp16-amp" if (chip.fp16_flops_per_s or 0.0) >= MATRIX_UNITS * chip.fp32_flops_per_s else "fp32"


def usual_sharding(stages: int) -> str:
    """How data parallel ranks share states where nobody says it: whole layers where no pipeline runs them often."""
    return "fsdp" if stages == 1 else "zero1"


def first_fitting(found: Sequence[Scenario], calibration: Calibrated | None) -> int | None:
    """Which of several ways to cut a step is the first that its chip has the memory for; None where none is."""
    return next((at for at, one in enumerate(found) if estimated(one, calibration).memory.fits), None)


def _plan(row: Row, ranks: int, place: TableDevice) -> dict[str, Any]:
    """The layout of a line over its chips: the degrees that it states, data parallel over the rest."""
    degrees = _degrees(row)
    inner = math.prod(degrees.values())
    if ranks % inner:
        raise _problem("gpus", f"{ranks} GPUs do not divide by tp · pp · cp = {inner}")
    dp = ranks // inner
    if row.get("dp") is not None and whole(row, "dp") != dp:
        raise _problem("dp", f"{row['dp']} is not {ranks} GPUs over tp · pp · cp = {inner}")
    plan: dict[str, Any] = {**degrees, "dp": dp}
    software = FRAMEWORKS[row["framework"]]
    recipes = software.published.recipes
    stated = str(row.get("sharding") or row.get("strategy") or "").strip()
    sharding = sharding_of(stated)
    if stated and not sharding:
        raise _problem("sharding", f"{stated[:40]!r} is none that is known; write ddp, zero1, zero2, zero3 or fsdp")
    if stated:
        plan["sharding"] = sharding
    elif dp * degrees["cp"] > 1:
        plan["sharding"] = "zero1" if recipes else usual_sharding(degrees["pp"])
        words = "data parallel under FSDP" if inner == 1 and not recipes else f"{plan['sharding']} over what is left"
        place.assume(f"{words}, as the table states no plan of several GPUs (columns sharding, tp, pp)")
    if recipes and degrees["tp"] > 1:
        plan |= {"sequence_parallel": True, "tp_overlap": True}
        place.assume(f"sequence parallel, its exchange overlapped, as {software.label}'s published recipes set it")
    return plan


def _degrees(row: Row) -> dict[str, int]:
    return {name: whole(row, name) if row.get(name) is not None else 1 for name in DEGREES}


def _ranks(row: Row, place: TableDevice) -> int:
    """How many GPUs a line is of: as it says, else as its nodes or its degrees have, else one."""
    if row.get("gpus") is not None:
        return whole(row, "gpus")
    if row.get("nodes") is not None:
        of_node = whole(row, "gpus_per_node") if row.get("gpus_per_node") is not None else 0
        if not of_node:
            of_node = place.hardware.chips_per_node
            place.assume(f"{of_node} GPUs in a node, as the table states none (column gpus)")
        return whole(row, "nodes") * of_node
    ranks = math.prod(_degrees(row).values()) * (whole(row, "dp") if row.get("dp") is not None else 1)
    if ranks > 1:
        place.assume("as many GPUs as dp · tp · pp · cp, as the table states none (column gpus)")
    return ranks


def _sequences_of_each(row: Row, dp: int, place: TableDevice) -> tuple[int, int]:
    """Sequences of a step that each data-parallel rank takes, and how many of them at a time, 0 where nothing says.

    Passes that add up their gradients take a rank's batch each, or that share of all ranks' batch.
    """
    stated = next((name for name in BATCHES if row.get(name) is not None), "")
    at_once = whole(row, "micro_batch") if row.get("micro_batch") is not None else 0
    passes = whole(row, "gradient_accumulation") if row.get("gradient_accumulation") is not None else 0
    if not stated:
        return max(passes, 1), at_once
    batch = whole(row, stated)
    if stated in ("batch_per_gpu", "micro_batch") or (stated == "batch" and passes > 1 and not at_once):
        if stated == "batch":
            place.assume(
                "the batch is what a GPU takes in each pass of its gradient accumulation (column global batch)"
            )
        each = batch * max(passes, 1) if at_once in (0, batch) else batch
        return each, at_once or (batch if passes else 0)
    if stated == "batch" and dp > 1 and passes > 1 and batch == passes * at_once:
        place.assume("the batch is that of each GPU, as its passes make it (columns global batch, batch per GPU)")
        return batch, at_once
    if batch % dp and (stated == "global_batch" or batch > dp):
        further = "" if stated == "global_batch" else "; each GPU's go into batch per GPU"
        raise _problem(stated, f"{batch} sequences do not divide over {dp} data-parallel ranks{further}")
    if batch % dp:
        place.assume("a batch of fewer sequences than GPUs is that of each GPU (column batch per GPU)")
        return batch, at_once
    if stated == "batch" and dp > 1:
        place.assume("the batch is that of all GPUs together (columns global batch, batch per GPU)")
    each = batch // dp
    if passes and not at_once and each % passes:
        raise _problem("gradient_accumulation", f"{passes} passes do not divide the {each} sequences of a rank")
    if passes > 1 and at_once and passes * at_once != each:
        message = f"{passes} passes of {at_once} sequences are not the {each} sequences of a rank"
        raise _problem("gradient_accumulation", message)
    return each, at_once or (each // passes if passes else 0)


def _shares(row: Row, each: int, at_once: int, pp: int) -> Iterator[dict[str, Any]]:
    """Ways to take a rank's sequences: what is stated, else as many at a time as fit, without recomputation first."""
    if at_once:
        if each % at_once:
            raise _problem("micro_batch", f"{at_once} do not divide the {each} sequences of a rank")
        sizes = [at_once]
    else:
        sizes = sizes_at_a_time(each, pp)
    ways: list[dict[str, Any]] = [{}] if row.get("recompute") else [{}, {"recompute": "full"}]
    for way in ways:
        for size in sizes:
            yield {**way, "micro_batch": size, "micro_batches": each // size}


def _problem(field: str, message: str) -> InputProblems:
    return InputProblems([Problem(field=field, message=message, remedy="Correct the column, and import again.")])
