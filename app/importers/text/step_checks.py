"""Checks on step times: columns that hold something else than their header says, and rows that repeat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from estimator.scenario.measurement import Measurement, Warning

_SAME = 1e-6
_SUM = 0.01
_TIMES = ("forward", "backward", "forward_backward", "step", "optimizer")


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
        f"In {changed} rows the forward time equals the total time although there is a backward time: it is forward "
        "and backward together. It was stored as such, and forward as total minus backward"
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


def mark_repeats(measurements: Sequence[Measurement]) -> list[Warning]:
    """Mark rows whose figures stood in an earlier table already: same model, length, precision, times and spreads."""
    seen: dict[tuple[Any, ...], str] = {}
    repeats, figures, where = 0, 0, ""
    for measurement in measurements:
        for row in measurement.rows:
            times = tuple((key, row[key]) for key in sorted(row) if _is_time(key) and row[key] is not None)
            if not times:
                continue
            key = (row.get("model"), row.get("seq_len"), row.get("precision"), row.get("compile"), times)
            if key in seen:
                row["duplicate_of"] = seen[key]
                repeats += 1
                where = where or measurement.label
                figures += sum(not name.endswith("_std_s") for name, _ in times)
            else:
                seen[key] = measurement.label
    if not repeats:
        return []
    message = (
        f"{repeats} rows ({figures} timings) repeat rows of an earlier table to the last digit; they are kept, marked "
        "duplicate_of, and must not be counted twice"
    )
    return [Warning(code="duplicate-rows", message=message, where=where)]


def _is_time(key: str) -> bool:
    return key.endswith("_s") and any(key.startswith(name) for name in _TIMES)
