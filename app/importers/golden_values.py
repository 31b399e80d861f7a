"""Golden values of Megatron-LM's and NeMo's own tests: what a run logged, a metric with its values by step.

``{"iteration-time": {"start_step": 1, "end_step": 50, "step_interval": 1, "values": {"1": 5.61, …}}, …}``
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from app.importers.amounts import amount
from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.names import column_name
from app.importers.source import Source
from app.importers.text.trainers.log import Log, Step, measurement, rows_of, without_first
from estimator.scenario.measurement import MeasuredMemory, Warning

_NAMES = {"iteration-time": "step_s", "iteration_timing": "step_s", "mem-max-allocated-bytes": "peak_bytes",
          "mem-allocated-bytes": "allocated_bytes"}  # fmt: skip
_MOST_STEPS = 100_000


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Read all metrics; raise ImportRefused where there is no step."""
    text = source.read("golden values").decode("utf-8", "replace")
    try:
        document = json.loads(text)  # values may be NaN, which only Python's own reader takes
    except (ValueError, RecursionError) as error:
        raise ImportRefused(
            "golden values", "", f"this is not valid JSON ({error})", "Copy the file again, whole."
        ) from None
    found: dict[int, dict[str, Any]] = defaultdict(dict)
    for metric, said in document.items() if isinstance(document, dict) else ():
        if isinstance(said, dict):
            name = _NAMES.get(metric, column_name(metric))
            for step, value in _values(said).items():
                if name and (known := amount(value)) is not None:
                    found[step][name] = known
    steps = [Step(number=step, seconds=row.get("step_s") or None, row=row) for step, row in sorted(found.items())]
    if not steps:
        raise ImportRefused("golden values", "", "it holds no value of a step", "Upload another of these files.")
    steps = steps[: min(_MOST_STEPS, limits.rows)]
    warnings: list[Warning] = []
    begin = next((at for at, step in enumerate(steps) if step.seconds), 0)  # of the first step it may hold no time
    steps_s = without_first(steps[begin:], warnings)
    if not steps_s:
        message = "It holds no iteration-time, so it gives no step time"
        warnings.append(Warning(code="no-step-time", message=message))
    peaks = [step.row["peak_bytes"] for step in steps if "peak_bytes" in step.row]
    log = Log(rows=rows_of(steps), steps_s=steps_s, memory=MeasuredMemory(peak_bytes=max(peaks, default=None)),
              warnings=tuple(warnings))  # fmt: skip
    one = measurement(log, "Megatron-LM", filename)
    return Imported(measurements=(one,), warnings=one.warnings, skipped=len(found) - len(steps))


def _values(said: Mapping[str, Any]) -> dict[int, Any]:
    """By step; as a list they begin at the first and go on by the interval."""
    values, begin, every = said.get("values"), said.get("start_step"), said.get("step_interval")
    if isinstance(values, dict):
        return {int(step): value for step, value in values.items() if re.fullmatch(r"\d{1,9}", step, re.ASCII)}
    if isinstance(values, list) and isinstance(begin, int) and isinstance(every, int) and every > 0 <= begin < 1 << 30:
        return {begin + at * every: value for at, value in enumerate(values[:_MOST_STEPS])}
    return {}
