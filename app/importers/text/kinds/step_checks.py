"""Step checks: what a table of steps means by its own time, rate and batch together.

Whose batch and whose rate they are, and what its forward and its total hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from app.importers.text.values.figures import count, scaled
from estimator.scenario.measurement import Warning
from estimator.scenario.units import counted

_CLOSE = 0.05
"""By how much a printed rate may be off what batch and time make."""
_LEAST = 20.0
"""Smaller rates are rounded too coarsely to tell."""
_OTHERS = ("global_batch", "batch_per_gpu", "micro_batch")
_RATES = ("tokens_per_s", "samples_per_s")
_SAME = 1e-6
_SUM = 0.01


def batch_of_tokens(rows: list[dict[str, Any]], where: str) -> list[Warning]:
    """The batch of a step that is said in tokens, as sequences; 4M is 4·2²⁰ where only so whole ones come out."""
    changed = 0
    for row in rows:
        printed, tokens, length = row.pop("_batch_tokens", ""), row.get("batch_tokens"), row.get("seq_len")
        if (
            not tokens
            or not isinstance(length, int)
            or length < 1
            or any(row.get(name) for name in ("batch", *_OTHERS))
        ):
            continue
        readings = [value for thousand in (1e3, 1024.0) if (value := count(printed, thousand)) and value >= length]
        even = next((value for value in readings if value % length == 0), None)
        if even is None:
            continue
        row["batch_tokens"], row["global_batch"] = int(even), int(even) // length
        changed += 1
    if not changed:
        return []
    message = f"The batch of {counted(changed, 'row')} is said in tokens; it is taken as that many sequences of seq_len"
    return [Warning(code="batch-in-tokens", message=message, where=where)]


def milliseconds(rows: Sequence[dict[str, Any]], warnings: Sequence[Warning], where: str) -> list[Warning]:
    """Read times of a table that names no unit as milliseconds where all rows that tell fit so: 1000 · rate · time."""
    assumed = [warning for warning in warnings if warning.code == "unit-assumed" and warning.where == where]
    told = [(row, found) for row in rows if (found := _told(row)) is not None]
    if not assumed or not told or not all(_fits(found / 1e3, _sequences(row)) for row, found in told):
        return list(warnings)
    for row in rows:
        for key in [key for key in row if key.endswith("_s") and not key.endswith("_per_s")]:
            if isinstance(row[key], float):
                row[key] = scaled(row[key], 1e-3)
    message = "The time columns name no unit; they are milliseconds: only so do rate and step time fit the batch"
    kept = [warning for warning in warnings if warning not in assumed]
    return [*kept, Warning(code="unit-inferred", message=message, where=where)]


def settle(rows: Sequence[dict[str, Any]], where: str) -> list[Warning]:
    """Move what all rows of a table show to be a GPU's own, a batch or a rate; say so, or that rows fit neither way.

    sequences of a step = rate · step time / sequence length, of all GPUs together.
    """
    told = [(row, found) for row in rows if (found := _told(row)) is not None]
    if not told:
        return []
    plain = all(_fits(found, _sequences(row)) for row, found in told)
    if plain:
        return []
    if all("batch" in row and _fits(found, row["batch"] * _ranks(row)) for row, found in told):
        for row in rows:
            if isinstance(row.get("batch"), int) and not any(name in row for name in _OTHERS):
                row["batch_per_gpu"] = row.pop("batch")
        message = "The batch is that of each GPU: only so do rate and step time fit it"
        return [Warning(code="batch-of-each-gpu", message=message, where=where)]
    if all(_fits(found * _gpus(row), _sequences(row)) for row, found in told) and not any(
        f"{name}_per_gpu" in row for row in rows for name in _RATES
    ):
        for row in rows:
            for name in _RATES:
                if name in row:
                    row[f"{name}_per_gpu"] = row.pop(name)
        message = "The rate is that of one GPU: only so do batch and step time fit it"
        return [Warning(code="rate-of-one-gpu", message=message, where=where)]
    off = [(row, found) for row, found in told if not _fits(found, _sequences(row))]
    row, found = off[0]
    message = (
        f"Rate, step time and batch of {counted(len(off), 'row')} do not fit: by rate and time a step has"
        f" {found:.4g} sequences, by its columns {_sequences(row):.4g}. Look at the batch (of all GPUs or of each)"
        " and at the units"
    )
    return [Warning(code="rate-and-batch", message=message, where=where)]


def _fits(one: float, other: float) -> bool:
    return other > 0 and math.isclose(one, other, rel_tol=_CLOSE)


def _gpus(row: dict[str, Any]) -> int:
    return int(_count(row, "gpus"))


def _ranks(row: dict[str, Any]) -> float:
    """Data parallel ranks."""
    return _count(row, "gpus") / math.prod(_count(row, axis) for axis in ("tp", "pp", "cp"))


def _count(row: dict[str, Any], name: str) -> float:
    value = row.get(name)
    return float(value) if isinstance(value, int) and value > 0 else 1.0


def _sequences(row: dict[str, Any]) -> float:
    """Sequences of a step as its columns are read where nothing else tells; 0 where none says."""
    passes = _count(row, "gradient_accumulation")
    if "batch_per_gpu" in row:
        return _count(row, "batch_per_gpu") * passes * _ranks(row)
    if "global_batch" in row:
        return _count(row, "global_batch")
    if "batch" in row:
        each = passes > 1 and "micro_batch" not in row
        return _count(row, "batch") * (passes * _ranks(row) if each else 1.0)
    return _count(row, "micro_batch") * passes * _ranks(row) if "micro_batch" in row else 0.0


def _told(row: dict[str, Any]) -> float | None:
    """Sequences of a step by its rate and time; None where these do not say."""
    step_s, length = row.get("step_s"), row.get("seq_len")
    counts = [row[name] for name in ("gpus", "batch", *_OTHERS) if name in row]
    if not isinstance(step_s, float) or step_s <= 0 or not _sequences(row):
        return None
    if any(not isinstance(value, int) or value < 1 for value in counts):
        return None
    tokens, samples = row.get("tokens_per_s"), row.get("samples_per_s")
    if isinstance(tokens, float) and tokens >= _LEAST and isinstance(length, int) and length > 0:
        return tokens * step_s / length
    return samples * step_s if isinstance(samples, float) and samples >= _LEAST else None


def contained_backward(rows: list[dict[str, Any]], where: str) -> list[Warning]:
    """Where 'forward' equals the total although there is a backward time, it is forward and backward together."""
    changed = 0
    for row in rows:
        forward, backward = row.get("forward_s"), row.get("backward_s")
        total = row.get("step_s") if row.get("step_s") is not None else row.get("forward_backward_s")
        if not forward or not backward or not total or backward >= total:
            continue
        if math.isclose(forward, total, rel_tol=_SAME):
            row.pop("step_s", None)
            row["forward_backward_s"] = forward
            if "forward_total_s" in row:
                row["forward_backward_total_s"] = row.pop("forward_total_s")
            row["forward_s"] = forward - backward
            changed += 1
    if not changed:
        return []
    message = (
        f"In {counted(changed, 'row')} the forward time equals the total time although there is a backward time: it is "
        "forward and backward together. It was stored as such, and forward as total minus backward"
    )
    return [Warning(code="forward-contains-backward", message=message, where=where)]


def total_is_sum(rows: list[dict[str, Any]]) -> None:
    """Where a total is just forward plus backward, call it that: it holds no optimizer step."""
    for row in rows:
        forward, backward, total = row.get("forward_s"), row.get("backward_s"), row.get("step_s")
        if not forward or not backward or not total or "optimizer_s" in row:
            continue
        if math.isclose(total, forward + backward, rel_tol=_SUM):
            row["forward_backward_s"] = row.pop("step_s")
