"""Expected: what a profile measured beside what its own ops should take, without any scenario.

Every call of the profile's op list is priced by itself, on the chip that it ran on: what a good kernel would take.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from estimator.cost.efficiency import Calibrated
from estimator.estimate.estimate import Estimate
from estimator.estimate.layout.lay_out import Laying, Layout, estimate_laid_out, layouts
from estimator.estimate.of_op_list import cluster_for, efficiencies_of, estimate_op_list
from estimator.estimate.recorded import CallWork, Recorded, recorded
from estimator.estimate.what_if import CHANGES, is_compiled
from estimator.operations.aten.products import precision
from estimator.scenario import catalog
from estimator.scenario.breakdown import CATEGORIES, PLAIN, Category, Phase
from estimator.scenario.hardware import Chip, peak_flops_per_s
from estimator.scenario.op_list import Operand, OpList, Signature
from estimator.scenario.op_rows import rows_are
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.units import seconds as seconds_text

ATTENTION_FLOPS = (
    "Attention counts the half of the scores that causality leaves, where its kernel skips the other half."
)
MOST_OPS = 400
OF_A_CPU = "A profile does not say which CPU it ran on: its ops are priced for the only one known here, {}."


@dataclass(kw_only=True)
class Pair:
    """Device seconds of one step, measured and predicted."""

    measured_s: float = 0.0
    predicted_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class ExpectedOp:
    """All calls of an op with the same inputs in one phase, measured beside predicted; totals of a step.

    ``flops`` and ``bytes``: what its kernels execute and move at least; ``known``: whether the table of ops has it or
    its shapes say which product it is; ``as_measured``: it has no price, and what was measured stands as predicted.
    """

    op: str
    inputs: str
    phase: str
    category: str
    count: int
    measured_s: float
    predicted_s: float
    flops: float
    bytes: float
    bound: str
    precision: str
    known: bool
    as_measured: bool


@dataclass(frozen=True, kw_only=True)
class Expected:
    """A profile's own prediction: the step, and its ops, categories and phases, measured beside predicted.

    ``categories`` and ``phases`` add device seconds of all kernels, those that overlap too; ``measured_step_s``: of the
    whole step, None where it is not known. ``rows``: what the throughput of ``estimate`` counts, tokens or samples,
    where it is known. ``unpriced_s``: of ops that are not known, which stand as measured; ``notes`` say so.
    """

    chip: str
    estimate: Estimate
    measured_step_s: float | None
    ops: tuple[ExpectedOp, ...]
    categories: dict[str, Pair]
    phases: dict[str, Pair]
    rows: str = "tokens"
    unpriced_s: float = 0.0
    notes: tuple[str, ...] = ()


def of_a_cpu(found: OpList, chip: str, priced_on: Chip) -> tuple[str, ...]:
    """Say of a profile of a CPU which one it is priced for; nothing where somebody named a ``chip``."""
    if found.source != "profile" or chip or priced_on.name != catalog.THIS_CPU:
        return ()
    return (OF_A_CPU.format(priced_on.label or priced_on.name),)


def expected(found: OpList, chip: str = "", calibration: Calibrated | None = None) -> Expected:
    """Price every call of a profile; raise InputProblems where its chip is not in the catalogue and none is given."""
    cluster = cluster_for(found, chip)
    e = efficiencies_of(found, cluster, calibration)
    priced = recorded(found, cluster, e, interval=False)
    rows: dict[tuple[int, str], list[float]] = {}
    for index, call in enumerate(found.calls):
        at = priced.of_call[index]
        if at >= 0:
            row = rows.setdefault((at, priced.phases[index]), [0.0, 0.0, float(call.signature)])
            row[0] += 1
            row[1] += call.measured_s or 0.0
    ops = sorted((_row(found, priced, key, row) for key, row in rows.items()), key=lambda op: -op.measured_s)
    categories: dict[str, Pair] = {}
    phases: dict[str, Pair] = {}
    for op in ops:
        for table, name in ((categories, op.category), (phases, op.phase)):
            pair = table.setdefault(name, Pair())
            pair.measured_s += op.measured_s
            pair.predicted_s += op.predicted_s
    notes = [ATTENTION_FLOPS] if any(s.arguments.get("is_causal") for s in found.signatures) else []
    one = estimate_op_list(found, cluster, calibration)
    cpu = of_a_cpu(found, chip, cluster.chip)
    notes += cpu
    one = replace(one, assumptions=(*cpu, *one.assumptions))
    unpriced = [op for op in ops if op.as_measured]
    unpriced_s = math.fsum(op.measured_s for op in unpriced)
    if unpriced:
        count = len({op.op for op in unpriced})
        are = "op is not known, and stands" if count == 1 else "ops are not known, and stand"
        notes.append(f"{count} {are} as measured: {seconds_text(unpriced_s)}.")
    return Expected(
        chip=cluster.chip.name,
        estimate=one,
        measured_step_s=found.loop_s,
        ops=tuple(ops[:MOST_OPS]),
        categories={name: categories[name] for name in CATEGORIES if name in categories},
        phases=phases,
        rows=rows_are(found),
        unpriced_s=unpriced_s,
        notes=tuple(notes),
    )


def own_prediction(found: OpList, calibration: Calibrated | None = None) -> Expected | None:
    """As ``expected``, None where the chip that it ran on is not known."""
    try:
        return expected(found, calibration=calibration)
    except InputProblems:
        return None


@dataclass(frozen=True, kw_only=True)
class Offered:
    """A change that would make something else of a list: its name, what people call it, and why it cannot be asked."""

    key: str
    label: str
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """The prediction of a list's ops after some changes, on a chip, laid out by a plan.

    ``before``: of the list as it is on its own chip, by the same catalogue; null where that has no such chip.
    ``offered``: all changes that can be asked for; ``layouts``: ways to spread it, and why some cannot be asked for.
    """

    chip: str
    changes: tuple[str, ...]
    laying: Laying
    before: Estimate | None
    estimate: Estimate
    offered: tuple[Offered, ...]
    layouts: tuple[Layout, ...]


ALONE = Laying()


def what_if(
    found: OpList, changes: Sequence[str], chip: str | Chip = "", laying: Laying = ALONE,
    calibration: Calibrated | None = None,
) -> WhatIf:  # fmt: skip
    """Predict a list after the named changes, in their order, laid out by a plan; ``chip``: by name, or one's own.

    Raises InputProblems for an unknown name or chip, and for a plan that the list cannot be laid out by.
    """
    for name in changes:
        if name not in CHANGES:
            remedy = f"One of: {', '.join(CHANGES)}."
            raise InputProblems([Problem(field="change", message=f"{name[:60]!r} is not known", remedy=remedy)])
    on = cluster_for(found, chip).chip
    lacking = {key: _lacking(on, one.precision) for key, one in CHANGES.items()}
    if refused := [name for name in changes if lacking[name]]:
        remedy = "Leave it out, or choose another chip."
        raise InputProblems([Problem(field="change", message=lacking[refused[0]], remedy=remedy)])
    offered = tuple(
        Offered(key=key, label=_label(found, key), reason=lacking[key]) for key in CHANGES if _differs(found, key)
    )
    after = found
    for name in changes:
        after = CHANGES[name].of(after)
    changed = estimate_laid_out(after, laying, chip, calibration)
    its = catalog.known("chips", found.chip)
    plain = not changes and laying == ALONE and its == on
    return WhatIf(
        chip=on.name,
        changes=tuple(changes),
        laying=laying,
        before=changed if plain else estimate_laid_out(found, ALONE, "", calibration) if its else None,
        estimate=changed,
        offered=offered,
        layouts=layouts(after),
    )


def _lacking(chip: Chip, precision: str) -> str:
    """Why a chip cannot multiply in a precision; "" where it can."""
    if not precision or peak_flops_per_s(chip, precision):
        return ""
    return f"{chip.label or chip.name} has no matrix unit for {precision}"


def _label(found: OpList, change: str) -> str:
    """How a change is called; of a list that is compiled in part, that only the rest is left."""
    partly = change == "compile" and any(call.compiled for call in found.calls)
    return "the rest compiled, too" if partly else CHANGES[change].label


def _differs(found: OpList, change: str) -> bool:
    if change == "compile":
        return not is_compiled(found)
    changed = CHANGES[change].of(found)
    if len(changed.calls) != len(found.calls):
        return True
    return any(_products(a) != _products(b) for a, b in zip(changed.signatures, found.signatures, strict=False))


def _products(s: Signature) -> list[tuple[Operand, str]]:
    """What tells the unit that a product runs on: its operands, each with the precision that it is multiplied in."""
    return [(one, precision(one, s)) for one in s.inputs]


def _row(found: OpList, priced: Recorded, key: tuple[int, str], row: list[float]) -> ExpectedOp:
    at, phase = key
    count, measured_s, signature = row
    work, s = priced.work[at], found.signatures[int(signature)]
    longest = max(work.kernels, key=lambda one: float(one.seconds * one.op.count), default=None)
    return ExpectedOp(
        op=s.op,
        inputs=_inputs(s),
        phase=phase,
        category=Category.OPTIMIZER if phase == Phase.OPTIMIZER and work.category in PLAIN else work.category,
        count=int(count),
        measured_s=measured_s,
        predicted_s=count * work.seconds,
        flops=count * _flops(work),
        bytes=count * math.fsum(float(one.op.bytes * one.op.count) for one in work.kernels),
        bound=longest.bound if longest is not None else "communication" if work.exchange else "",
        precision=(longest.op.precision if longest is not None else "") or _dtype(s),
        known=work.known,
        as_measured=work.as_measured,
    )


def _inputs(s: Signature) -> str:
    """The shapes of the first inputs, and how many more there are."""
    shown = [one for one in s.inputs if one.shape][:2]
    more = len(s.inputs) - len(shown)
    said = ", ".join("×".join(map(str, one.shape)) for one in shown)
    return f"{said} and {more} more" if said and more else said


def _flops(work: CallWork) -> float:
    return math.fsum(float(one.executed_flops * one.op.count) for one in work.kernels)


def _dtype(s: Signature) -> str:
    return s.inputs[0].dtype if s.inputs else ""
