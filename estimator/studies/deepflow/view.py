"""What the pathfinding page draws of the DeepFlow study: time, memory, roofline, corrections, the power split."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from estimator.cost.cache_roofline import Cost
from estimator.estimate.cache_roofline_table import AtLevel, CacheRow, Hierarchy, Roof
from estimator.scenario.units import Number
from estimator.studies.deepflow import corrected, log, lstm_memory, plans, power
from estimator.studies.deepflow.inputs import Inputs, machine_of, model_of, plan_of, rates_of
from estimator.studies.deepflow.lstm import Lstm
from estimator.studies.deepflow.lstm_plan import LstmPlan
from estimator.studies.deepflow.lstm_price import PricedProduct, Rates
from estimator.studies.deepflow.lstm_step import LstmStep, step
from estimator.studies.deepflow.technology import SHARES, Machine

SHOWN_PLANS = 100


def composition(of: LstmStep) -> tuple[tuple[str, float], ...]:
    """Parts of the step that add up to Time: the reference's sum, recurrent cells as they are scheduled."""
    hidden = _real(of.updates["Hidden"].seconds)
    return (
        ("softmax forward", _real(of.softmax_f.seconds)),
        ("softmax backward", _real(of.softmax_b.seconds)),
        ("cells forward", _real(of.forward_s)),
        ("cells backward", _real(of.backward_s) - hidden),
        ("embedding", _real(of.embedding_f_s) + _real(of.embedding_b_s)),
        ("updates", hidden + _real(of.updates["Softmax"].seconds)),
    )


def view(i: Inputs) -> dict[str, Any]:
    """Everything that follows the sliders; raises InputProblems."""
    m, plan = model_of(i), plan_of(i)
    machine = machine_of(i, plan)
    r = rates_of(i, machine)
    priced = step(m, r, plan)
    roofline = hierarchy(m, machine, r, plan, priced)
    held = lstm_memory.requirement(m, {part: getattr(plan, part) for part in lstm_memory.PARTS}, stages=plan.hlp)
    capacity = _real(machine.memory_bytes)
    needed = _real(lstm_memory.total(held).bytes)
    found = power.sweep(i)
    return {
        "inputs": asdict(i),
        "time_s": _real(priced.seconds),
        "time_per_step_s": log.time_per_step_s(i.target_batch, i.sequence),
        "capacity_bytes": capacity,
        "needed_bytes": needed,
        "overflow": needed / capacity,
        "share_sum": sum(getattr(i, name) for name in SHARES),
        "machine": {name: _real(value) for name, value in asdict(machine).items()},
        "composition": [{"name": name, "seconds": seconds} for name, seconds in composition(priced)],
        "memory": [{"part": part, **{k: _real(v) for k, v in asdict(kept).items()}} for part, kept in held.items()],
        "binds": binding(roofline),
        "hierarchy": roofline,
        "compared": compared(i, plan, m, machine, r, priced),
        "inconsistencies": [asdict(one) for one in corrected.INCONSISTENCIES],
        "sweep": {
            "memory_frac": found.memory_frac.tolist(),
            "seconds": found.seconds.tolist(),
            "overflow": [needed / size for size in found.memory_bytes.tolist()],
            "best": found.best,
            "here_frac": i.dram_power_frac / (i.core_power_frac + i.dram_power_frac),
        },
    }


def plan_table(i: Inputs) -> dict[str, Any]:
    """Plans on ``i.chips`` chips, those that fit first, each from fast to slow; the first is the best."""
    found = plans.best(i)
    rows = [
        {
            "dp": row.plan.dp, "lp": row.plan.lp, "hlp": row.plan.hlp, "hidden": row.plan.hidden.label,
            "softmax": row.plan.softmax.label, "embedding": row.plan.embedding.label, "chips": row.plan.chips,
            "seconds": row.seconds, "bytes": row.bytes, "fits": row.fits, "efficiency_frac": row.efficiency_frac,
        }
        for row in found[:SHOWN_PLANS]
    ]  # fmt: skip
    return {"chips": i.chips, "tried": len(found), "rows": rows}


def search(i: Inputs) -> dict[str, Any]:
    """The fastest split of the power and the way there: the best split of every generation."""
    rates_of(i, machine_of(i, plan_of(i)))  # tiles that do not fit the given split are refused, as everywhere
    found = power.search(i)
    return {
        "names": list(power.SPLIT),
        "shares": [list(each) for each in found.shares],
        "seconds": list(found.seconds),
        "evaluations": found.evaluations,
    }


def hierarchy(m: Lstm, machine: Machine, r: Rates, plan: LstmPlan, of: LstmStep) -> Hierarchy:
    """Products of one processor's step at every level of its machine."""
    cells = float(m.layers // plan.hlp * m.sequence)
    counted = [
        *((priced, cells, "forward") for priced in of.cf.products),
        *((priced, cells, "backward") for priced in of.cb.products),
        *((priced, 1.0, "forward") for priced in of.softmax_f.products),
        *((priced, 1.0, "backward") for priced in of.softmax_b.products),
    ]
    capacities = {
        "memory": machine.memory_bytes, "L2": machine.l2_bytes, "shared memory": machine.shared_bytes,
    }  # fmt: skip
    roofs = tuple(
        Roof(
            name=level.name, bytes_per_s=_real(level.bytes_per_s), capacity_bytes=_real(capacities[level.name]),
            tile=_real(level.tile), source="from the power share and the energy of a bit",
        )
        for level in r.levels
    )  # fmt: skip
    return Hierarchy(
        chip="machine from technology", mode=r.mode, precision=f"{m.element_bytes} B",
        flops_per_s=_real(r.flops_per_s), roofs=roofs,
        rows=tuple(_row(priced, count, phase, r) for priced, count, phase in counted),
    )  # fmt: skip


def binding(of: Hierarchy) -> list[dict[str, Any]]:
    """Seconds of the step's products by what binds each, longest first."""
    seconds: dict[str, float] = {}
    for row in of.rows:
        seconds[row.binds] = seconds.get(row.binds, 0.0) + row.count * row.seconds
    return [{"name": name, "seconds": seconds[name]} for name in sorted(seconds, key=lambda one: -seconds[one])]


def compared(i: Inputs, plan: LstmPlan, m: Lstm, machine: Machine, r: Rates, priced: LstmStep) -> list[dict[str, Any]]:
    """Figures that a contradiction touches, as the reference has them and corrected, with the numbers of it."""
    fixed = {(group, name): value for group, name, value, _ in corrected.lines(i, plan)}
    rows = []
    for group, name, value, unit in log.lines(i, m, machine, r, plan, priced):
        notes = [one.number for one in corrected.INCONSISTENCIES if (group, name) in one.touches]
        if notes or (group, name) in fixed:
            rows.append(
                {"group": group, "name": name, "value": value, "corrected": fixed.get((group, name)), "unit": unit,
                 "notes": notes}
            )  # fmt: skip
    return rows


def _row(priced: PricedProduct, count: float, phase: str, r: Rates) -> CacheRow:
    turned = bool(priced.transposed.seconds < priced.as_is.seconds)
    cost: Cost = priced.transposed if turned else priced.as_is
    times = {"compute": _real(cost.compute_s)} | {
        level.level: _real(seconds) for level, seconds in zip(cost.traffic, cost.level_s, strict=True)
    }
    return CacheRow(
        name=priced.product.name, layer="", phase=phase, count=count, batch=1.0,
        m=_real(priced.product.a), n=_real(priced.product.c), k=_real(priced.product.b), precision="",
        flops=_real(cost.flops), compute_s=times["compute"],
        levels=tuple(
            AtLevel(
                name=moved.level, tile=_real(level.tile), bytes=_real(moved.bytes), seconds=times[moved.level],
                reloads=(_real(moved.reload_ab), _real(moved.reload_bc), _real(moved.reload_ac)),
            )
            for moved, level in zip(cost.traffic, r.levels, strict=True)
        ),
        transposed=turned, binds=max(times, key=lambda name: times[name]), seconds=_real(priced.seconds),
    )  # fmt: skip


def _real(value: Number) -> float:
    return float(value)
