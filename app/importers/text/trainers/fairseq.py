"""fairseq: lines of ``train_inner`` (JSON or ``name=value``), and of versions before it, ``epoch 001: 100 / 2121 …``.

wps are the tokens that all GPUs train on in a second, wpb those of an update, so that an update takes wpb / wps
seconds; ups, updates a second, has two digits only (fairseq/trainer.py, metrics.log_speed).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from app.importers.text.trainers.log import Log, Step, memory_of, number, rows_of, without_first
from estimator.scenario.measurement import Warning
from estimator.scenario.units import GIB

_JSON = re.compile(r"\| train_inner \| (\{.{1,4000}\})")
_SIMPLE = re.compile(r"(?:^|\|) ?epoch \d{1,6}:\s{1,6}\d{1,9} / \d{1,9} (.{1,4000})")
_PAIR = re.compile(r"\b([a-z_]\w{0,40})=\s?([-+\d.eE]{1,24})(?=[,\s]|$)")
_WORLD = re.compile(r"training on (\d{1,6}) (?:devices|GPUs)")
_NEEDED = {"num_updates", "wps", "wpb"}
_COLUMNS = {"wps": "tokens_per_s", "wpb": "tokens", "bsz": "sequences", "loss": "loss", "ppl": "perplexity", "lr": "lr",
            "gnorm": "grad_norm"}  # fmt: skip
_GB = {"cuda_gb_allocated": "peak_bytes", "cuda_gb_reserved": "reserved_bytes"}
_LEAST = 2


def read(lines: Sequence[str]) -> Log | None:
    """Read the updates that it logged, None where there are none."""
    steps: list[Step] = []
    world = 1
    for line in lines:
        if hit := _WORLD.search(line):
            world = int(hit[1])
        said = _said(line)
        if not said.keys() >= _NEEDED:
            continue
        update = int(said["num_updates"])
        if steps and steps[-1].number >= update:  # another rank's
            continue
        rate = said["wps"]
        seconds = said["wpb"] / rate if rate > 0 and said["wpb"] > 0 else None
        row: dict[str, Any] = {_COLUMNS[name]: value for name, value in said.items() if name in _COLUMNS}
        row |= {column: said[name] * GIB for name, column in _GB.items() if said.get(name)}
        if seconds:
            row["step_s"] = seconds
        else:
            del row["tokens_per_s"]
        steps.append(Step(number=update, seconds=seconds, row=row))
    if len(steps) < _LEAST:
        return None
    warnings: list[Warning] = []
    # The first line has no time yet; where it has one it holds start-up work.
    steps_s = without_first(steps, warnings)
    rows = rows_of(steps)
    return Log(
        rows=rows,
        steps_s=steps_s,
        world_size=max(1, world),
        memory=memory_of(rows, warnings),
        warnings=tuple(warnings),
    )


def _said(line: str) -> Mapping[str, float]:
    """Names and numbers of a line of progress; {} of any other."""
    if (hit := _JSON.search(line)) is not None:
        try:
            document = json.loads(hit[1])
        except (ValueError, RecursionError):
            return {}
        pairs = document.items() if isinstance(document, dict) else ()
        return {name: number(str(value)) for name, value in pairs if isinstance(value, (str, int, float))}
    simple = _SIMPLE.search(line)
    return {name: number(value) for name, value in _PAIR.findall(simple[1])} if simple else {}
