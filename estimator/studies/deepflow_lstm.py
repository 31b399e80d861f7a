"""DeepFlow's LSTM language model on a machine from technology: every figure of its log, corrected beside as printed.

The reference is one evaluation of the June 2019 revision of DeepFlow (Ardalani 2022, arXiv 2211.03309): an LSTM
language model, a processor derived from a power budget and energies, and a cache-level roofline.
"""

from __future__ import annotations

from collections.abc import Iterator

from estimator.scenario.units import GIB
from estimator.studies.deepflow import corrected, log, lstm_memory, plans, power, view
from estimator.studies.deepflow.inputs import Inputs, is_reference, machine_of, model_of, plan_of, rates_of
from estimator.studies.deepflow.lstm import Lstm
from estimator.studies.deepflow.lstm_step import LstmStep, step
from estimator.studies.study import Figure, Result, Series, printed, printed_figures

TITLE = "LSTM language model on a machine from technology"
SUMMARY = (
    "DeepFlow's LSTM language model, a processor derived from power shares and energies, a cache-level roofline, "
    "and the plans and power splits around it."
)
TABLE_ROWS = 24
"""Plans that the table shows."""


def run(inputs: Inputs) -> Result:
    """Reproduce the log for these inputs; raises InputProblems for tiles, degrees, shares and links that cannot be."""
    model, plan = model_of(inputs), plan_of(inputs)
    machine = machine_of(inputs, plan)
    rates = rates_of(inputs, machine)
    priced = step(model, rates, plan)
    shown = printed_figures("deepflow-lstm") if is_reference(inputs) else {}
    figures = [
        _figure(line, shown.get((line[0], line[1]))) for line in log.lines(inputs, model, machine, rates, plan, priced)
    ]
    figures += [
        Figure(group=f"corrected: {group}", name=name, value=value, unit=unit)
        for group, name, value, unit in corrected.lines(inputs, plan)
    ]
    figures += [
        Figure(group="Time, one correction after the other", name=name, value=seconds, unit="s")
        for name, seconds in corrected.one_by_one(inputs, plan)
    ]
    found = plans.best(inputs)
    figures += [
        Figure(group=f"plans on {inputs.chips} chips", name=("best: " if place == 0 else "") + row.label,
               value=row.seconds, unit="s")
        for place, row in enumerate(found[:TABLE_ROWS])
    ]  # fmt: skip
    sweep = power.sweep(inputs)
    curves = [*_composition(priced), *_memory(model), *_sweep(sweep)]
    return Result(
        study="deepflow-lstm", inputs=inputs, figures=tuple(figures), series=tuple(curves), notes=corrected.notes()
    )


def _figure(line: log.Line, text: str | None) -> Figure:
    group, name, value, unit = line
    reference, decimals = printed(text) if text is not None else (None, None)
    return Figure(group=group, name=name, value=value, unit=unit, printed=reference, decimals=decimals)


def _composition(of: LstmStep) -> Iterator[Series]:
    parts = view.composition(of)
    yield Series(
        group="time composition", name="seconds of the step", x_label="component", y_label="s", kind="bar",
        x=tuple(name for name, _ in parts), y=tuple(seconds for _, seconds in parts),
    )  # fmt: skip


def _memory(m: Lstm) -> Iterator[Series]:
    held = lstm_memory.requirement(m)
    for kind in ("weights", "activations", "pointwise"):
        yield Series(
            group="memory per data shard", name=kind, x_label="part", y_label="GiB", kind="bar", stacked=True,
            x=tuple(held), y=tuple(float(getattr(part, f"{kind}_bytes")) / GIB for part in held.values()),
        )  # fmt: skip


def _sweep(found: power.PowerSweep) -> Iterator[Series]:
    yield Series(
        group="power split", name="Time", x_label="memory's share of the power of compute and memory", y_label="s",
        x=tuple(map(float, found.memory_frac)), y=tuple(map(float, found.seconds)), y_log=True,
    )  # fmt: skip
