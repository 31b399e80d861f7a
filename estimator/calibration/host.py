"""Host: what Python, autograd and dispatcher need for an op on this host, from the probes of launching.

A small model of so many blocks dispatches a counted number of ops, and is launch-bound: what more blocks take more, per
kernel more, views counted as a share of one, is the host's time per kernel, forward and backward. Compiled chains give
the same per compiled kernel, optimizers of small tensors per tensor. What was not probed follows the bare launch,
measured here and where the base was.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from estimator.calibration.fit import Fitted
from estimator.calibration.runtimes import PACED_SPREAD_FRAC, RUNTIMES, Told, of_family, told_by_probes, weighed
from estimator.cost.efficiency import Efficiencies, Range
from estimator.cost.host import kernel_ops, kernel_s
from estimator.cost.slowest_chip import pace_of_ranks, sharing_factor
from estimator.scenario.measurement import Measurement, status_of_row
from estimator.scenario.units import counted

Row = Mapping[str, Any]

SPREAD_FRAC = 0.25
"""Launch-bound steps of one host differ by so much from day to day (H200 hosts: 12 % in the median, −24 to +52 %)."""

COLD_FACTOR = 2.5
"""In a step, whose other parts drive it out of the caches, a runtime's Python takes up to so many times what it takes
in a loop (FSDP2 steps of small layers on two H200 hosts: 1.3 to 2.4). What DTensor takes is read off whole models."""

TINY_DISPATCHES = {"model forward": 305, "model forward and backward": 879}
"""Ops that the small model of four blocks in fp32 dispatches, for probes made before they were counted."""

PROBED_KERNELS = {"fp32": (34 / 70, 65 / 135), "bf16": (38 / 74, 69 / 139), "bf16-amp": (48 / 84, 85 / 155)}
"""Of the ops that a block of the small model dispatches forward and backward, by precision, those that launch a kernel
(dispatched, torch 2.11 and 2.13; ``_unsafe_view``, which is none, counts as one in probes' ``launches``)."""

LAUNCH_SPREAD_FRAC = 0.1
"""Standard deviation of a small model's seconds from one visit to the next, once brought to one pace (46 rows of three
H200 hosts with five visits and more: 0.05 to 0.24, their median 0.105; as they were 0.18)."""

PASS_SPREAD_FRAC = 0.05
"""How far hosts differ in what a kernel takes backward over what it takes forward: what is left of 0.88 to 1.12 on five
hosts with ten visits and more when their rows' own spread is taken off."""

THREADS_SPREAD_FRAC = 0.3
"""The same where paces were not noted, so that autograd's thread may have sat beside a busy neighbour and the program's
not (an H200 host, three precisions: 1.5, 1.7 and 2.0)."""

CHAIN_KERNELS = {"forward": 2.0, "backward": 3.0}
"""Kernels of a compiled chain for each of its products: product and tanh; both gradients and tanh's."""

PACE_SPREAD = 0.15
"""Standard deviation of the logarithm of a host's mean pace from one turn of probes to the next (26 turns of two H200
hosts, tests/reference/h200_drawn and h200_paced: 0.11 of one process, 0.16 of two)."""

LEAST_OF_FAMILY = 0.1
"""Of the family's number, what a runtime takes at least, whatever a difference of scattered rows says."""

LIKELY = 1.28
"""Standard errors on either side of a value that hold eight of ten."""

FEWEST_READINGS = 4
"""Readings of the pace beside a row that say how fast the host was all the while; two say hardly anything."""

PACES = ("host_pace_s", "host_backward_pace_s")
PACES_BY_RANK = ("host_paces_by_rank_s", "host_backward_paces_by_rank_s")
"""Of the program's own thread and of autograd's, as rows of probes (of ranks that meet, each rank's) and calibrations
call them."""

BARE = ("host_fused_forward_s", "host_fused_backward_s", "host_tensor_s", "host_new_product_s", "host_optimizer_s",
        "host_dtensor_op_s", "host_dtensor_value_s", "host_put_off_s", "host_graph_forward_s",
        "host_graph_backward_s")  # fmt: skip
"""Constants that follow the bare launch where they were not probed."""


def host_ranges(measurements: Sequence[Measurement], e: Efficiencies) -> tuple[dict[str, Fitted], dict[str, str]]:
    """Host constants from the ladder ``launch``, and the reasons why others stay inherited."""
    power = ranks_power(measurements, e)
    rows, runtimes = (_ladder(measurements, name, power.range.value) for name in ("launch", "runtime"))
    if not rows and not runtimes:
        reason = "no launches were probed"
        names = (*PACES, "host_launch_s", "host_forward_s", "host_backward_s", *BARE, *RUNTIMES)
        return {}, dict.fromkeys(names, reason)
    found: dict[str, Fitted] = {}
    missing: dict[str, str] = {}

    def keep(name: str, values: list[float], what: str, seen: Sequence[float] = ()) -> None:
        if not values:
            missing[name] = f"no {what} were probed"
            return
        value = statistics.median(values)
        off = max(SPREAD_FRAC, *(abs(one / value - 1) for one in values))
        seen = seen or values
        source = f"probes: {counted(len(seen), 'difference')} of {what}"
        found[name] = Fitted(
            range=Range(
                value=value, low=value / (1 + off), high=value * (1 + off), unit=e.ranges[name].unit, source=source
            ),
            points=len(seen),
            residual_frac=statistics.median(abs(one / value - 1) for one in seen),
        )  # fmt: skip

    if power.points:
        found["host_ranks_power"] = power
    else:
        missing["host_ranks_power"] = "all that say the host's pace were made by as many ranks"
    for name in PACES:
        pace_s = pace_of(measurements, name, power.range.value)
        if pace_s:
            keep(name, [pace_s], "the host's pace")
        else:
            missing[name] = "no pace of the host was noted"
    launches = [float(row["launch_s"]) for row in rows if row["op"] == "op"]
    keep("host_launch_s", launches, "bare launches")
    forward, backward = per_kernel_s(rows, e)
    own = kernel_s("forward", e), kernel_s("backward", e)
    by_thread = all(pace_of(measurements, name) for name in PACES)
    ratio = own[1] / own[0] if own[0] else 1.0
    for name, told, other, times in (
        ("host_forward_s", forward, backward, 1.0 / ratio),
        ("host_backward_s", backward, forward, ratio),
    ):
        ops = kernel_ops(name.split("_")[1], e)
        known = _beside(told, other, times, PASS_SPREAD_FRAC if by_thread else THREADS_SPREAD_FRAC)
        keep(name, [one * ops for one in known], "small models' blocks", [one.value * ops for one in told])
    chain = "compiled chains"
    keep("host_fused_forward_s", _chains(rows, "forward"), chain)
    keep("host_fused_backward_s", _chains(rows, "backward"), chain)
    entered = _graphs(rows, [one.value for one in (*forward, *backward)])
    for name, seconds in zip(("host_graph_forward_s", "host_graph_backward_s"), entered, strict=True):
        keep(name, [seconds] if seconds > 0 else [], chain)
    tensors = _slopes([row for row in rows if row["op"] == "adamw foreach"], "tensors")
    keep("host_tensor_s", tensors, "optimizers of small tensors")
    keep("host_new_product_s", _new_products(rows), "products of new sizes")
    missing["host_optimizer_s"] = "no steps of optimizers among other work are probed"
    missing["host_put_off_s"] = "no stages of pipelines are probed"
    missing["host_dtensor_value_s"] = "no numbers that change from step to step are probed"
    launch_s = statistics.median(launches) if launches else e.host_launch_s
    slower = launch_s / e.host_launch_s
    op_slower = found["host_forward_s"].range.value / e.host_forward_s if "host_forward_s" in found else slower
    for name, told in told_by_probes(runtimes, e, launch_s).items():
        if told:
            found[name] = _of_runtime(name, told, e, op_slower)
        elif name not in BARE and (launches or "host_forward_s" in found):
            found[name] = _scaled(e.ranges[name], op_slower, "an op")
        elif name not in BARE:
            missing[name] = f"no {RUNTIMES[name]} were probed"
    for name in BARE if launches else ():
        if name not in found:
            found[name] = _scaled(e.ranges[name], slower, "the bare launch")
            missing.pop(name, None)
    return found, missing


def _of_runtime(name: str, told: Sequence[Told], e: Efficiencies, slower: float) -> Fitted:
    """What the probes tell of a runtime, held against the family's number at this host's speed."""
    family = of_family(name, e, slower)
    held = weighed([*told, family])
    value = max(held.value, LEAST_OF_FAMILY * family.value)
    off = max(SPREAD_FRAC, LIKELY * held.error / value)
    most = off if name == "host_dtensor_s" else COLD_FACTOR - 1
    said = ", ".join(f"{one.value * 1e6:.0f} ± {one.error * 1e6:.0f}" for one in told)
    source = (
        f"probes of {RUNTIMES[name]}: {said} µs; the family's at {slower:.2f} times its ops' time "
        f"{family.value * 1e6:.0f}"
    )
    made = Range(value=value, low=value / (1 + off), high=value * (1 + most), unit=e.ranges[name].unit, source=source)
    return Fitted(
        range=made,
        points=len(told),
        residual_frac=statistics.median(abs(one.value / value - 1) for one in told),
    )


def per_kernel_s(rows: Sequence[Row], e: Efficiencies) -> tuple[list[Told], list[Told]]:
    """Host seconds of an op that launches a kernel, forward and backward, as each precision that was probed tells them.

    Views count as ``host_view_frac`` of one.
    """
    forward, backward = [], []
    for precision, shares in PROBED_KERNELS.items():
        of = [row for row in rows if row.get("precision") == precision and "layers" in row]
        first = _by("layers", [row for row in of if row["op"] == "model forward"])
        both = [row for row in of if row["op"] == "model forward and backward" and row["layers"] in first]
        # Forward is taken off at the pace that it had, what is left goes at the pace of autograd's thread.
        later = _by("layers", [{**row, "median_s": _backward_s(row, first[row["layers"]]["median_s"])} for row in both])
        layers = sorted(later)
        # Kernels of an op that is dispatched, views counted as what they take of one
        ahead, back = (share + e.host_view_frac * (1.0 - share) for share in shares)
        if len(layers) > 1 and all(_dispatches(one[n]) for one in (first, later) for n in layers):
            ends = layers[0], layers[-1]
            ops, whole = (_dispatches(of[ends[1]]) - _dispatches(of[ends[0]]) for of in (first, later))
            forward.append(_more([first[n] for n in ends], ops * ahead))
            backward.append(_more([later[n] for n in ends], (whole - ops) * back, [first[n] for n in ends]))
        elif layers == [4] and precision == "fp32":
            ops_forward, ops_both = TINY_DISPATCHES["model forward"], TINY_DISPATCHES["model forward and backward"]
            forward.append(_more([first[4]], ops_forward * ahead))
            backward.append(_more([later[4]], (ops_both - ops_forward) * back, [first[4]]))
    return [one for one in forward if one.value > 0], [one for one in backward if one.value > 0]


def _more(rows: Sequence[Row], kernels: float, before: Sequence[Row] = ()) -> Told:
    """What the last row takes more than the one before it, if any, for each of so many kernels.

    Its error is of all that was timed, what was taken off (``before``) with it.
    """
    seconds = rows[-1]["median_s"] - (rows[0]["median_s"] if len(rows) > 1 else 0.0)
    timed = [(row["median_s"] + of["median_s"], row) for row, of in zip(rows, before, strict=True)] if before else []
    timed += [(row["median_s"], row) for row in before or rows]
    variance = math.fsum((timed_s * LAUNCH_SPREAD_FRAC) ** 2 / row["visits"] for timed_s, row in timed)
    return Told(value=seconds / kernels, error=math.sqrt(variance) / kernels)


def _beside(told: Sequence[Told], other: Sequence[Told], times: float, spread_frac: float) -> list[float]:
    """A pass's seconds as its own rows tell them, and as the other pass's do, ``times`` as long but for a spread."""
    if not told:
        return []
    known = list(told)
    if other and times > 0.0:
        one = weighed(other)
        known.append(Told(value=one.value * times, error=times * math.hypot(one.error, spread_frac * one.value)))
    return [weighed(known).value]


def _by(column: str, rows: Sequence[Row]) -> dict[Any, Row]:
    """One row for each value of a column: the mean of its visits, as each met the host as it was."""
    visits: dict[Any, list[Row]] = {}
    for row in rows:
        visits.setdefault(row[column], []).append(row)
    return {
        value: {**alike[-1], "median_s": statistics.fmean(row["median_s"] for row in alike), "visits": len(alike)}
        for value, alike in visits.items()
    }


def _backward_s(row: Row, forward_s: float) -> float:
    return float((row["median_s"] - forward_s * row.get("slower", 1.0)) / row.get("slower_backward", 1.0))


def _ladder(measurements: Sequence[Measurement], name: str, power: float) -> list[Row]:
    """Rows of a ladder as one rank alone on its host would have them, at the pace that it had in the mean."""
    rows: list[tuple[float, Row]] = [
        (_sharing(measurement, power), row)
        for measurement in measurements
        for row in measurement.rows
        if row.get("ladder") == name and status_of_row(row) == "ok"
    ]
    pace_s, backward_pace_s = (pace_of(measurements, name, power) for name in PACES)
    if name == "runtime":
        return [_of_runtimes(row, pace_s, backward_pace_s, sharing) for sharing, row in rows]
    return [_at_pace(row, pace_s, backward_pace_s, sharing) for sharing, row in rows]


def ranks_power(measurements: Sequence[Measurement], e: Efficiencies) -> Fitted:
    """By which power of its ranks a host's times grow, from the paces beside probes of different groups of ranks.

    The slope of log pace over log ranks, weighed against the family's; of no points where all are of one size.
    """
    family = e.ranges["host_ranks_power"]
    of_family = Told(value=family.value, error=(family.high - family.low) / (2 * LIKELY))
    points = []
    for measurement in measurements:
        threads = [_mean_pace(measurement, name) for name in PACES]
        if all(threads):
            points.append((math.log(_sharing(measurement, 1.0)), math.log(statistics.fmean(threads))))
    middle_x, middle_y = (statistics.fmean(axis) for axis in zip(*points, strict=True)) if points else (0.0, 0.0)
    spread = math.fsum((x - middle_x) ** 2 for x, _ in points)
    if not spread or not of_family.error:
        return Fitted(range=family, points=0, residual_frac=0.0)
    slope = math.fsum((x - middle_x) * (y - middle_y) for x, y in points) / spread
    held = weighed([Told(value=slope, error=PACE_SPREAD / math.sqrt(spread)), of_family])
    value, off = max(held.value, 0.0), LIKELY * held.error
    source = f"paces beside {counted(len(points), 'file')} of probes: {slope:.2f}; the family's {family.value:g}"
    made = Range(value=value, low=max(0.0, value - off), high=value + off, unit=family.unit, source=source)
    return Fitted(range=made, points=len(points), residual_frac=held.error)


def _sharing(measurement: Measurement, power: float) -> float:
    return sharing_factor(measurement.world_size, power)


def _paces(measurement: Measurement, column: str) -> list[float]:
    return [float(row[column]) for row in measurement.rows if row.get("ladder") and row.get(column)]


def _mean_pace(measurement: Measurement, column: str) -> float:
    paces = _paces(measurement, column)
    return statistics.fmean(paces) if paces else 0.0


def pace_of(measurements: Sequence[Measurement], column: str = "host_pace_s", power: float = 0.0) -> float:
    """The pace of a host that a rank has for itself, the mean of all rows that say it; 0 where none does.

    No median: a core is fast or, beside a busy neighbour, 1.8 times as slow, and what lasts passes through both.
    """
    paces = [pace_s / _sharing(one, power) for one in measurements for pace_s in _paces(one, column)]
    return statistics.fmean(paces) if paces else 0.0


def _at_pace(row: Row, pace_s: float, backward_pace_s: float, sharing: float) -> Row:
    """The row as it would be, had the host been as fast as it was in the mean: it varies while its probes run.

    What goes backward as well stays as it is, and says how much slower the program's thread and autograd's were; where
    the latter was not noted it is taken for the former. Without a pace of its own, as of one rank's host.
    """
    own_s, own_backward_s = (float(row.get(column) or 0.0) for column in PACES)
    slower = own_s / pace_s if own_s and pace_s else sharing
    if own_s and pace_s and "layers" in row and row["op"] == "model forward and backward":
        return {
            **row,
            "slower": slower,
            "slower_backward": own_backward_s / backward_pace_s if own_backward_s else slower,
        }
    return {**row, **{key: row[key] / slower for key in ("median_s", "launch_s") if key in row}}


def _of_runtimes(row: Row, pace_s: float, backward_pace_s: float, sharing: float) -> Row:
    """A row of runtimes at the mean pace, where its own was read before each sample; else as of one rank's host.

    Forward follows the program's thread, both passes the mean of both; of ranks that meet ``pace_of_ranks``.
    """
    by_thread = [row.get(many) or [row.get(one)] for many, one in zip(PACES_BY_RANK, PACES, strict=True)]
    known = all(all(ranks) for ranks in by_thread) and len({len(ranks) for ranks in by_thread}) == 1
    if row.get("pace_readings", 0) < FEWEST_READINGS or not known or not pace_s or not backward_pace_s:
        return {**row, "median_s": row["median_s"] / sharing}
    over = [[one / mean_s for one in ranks] for ranks, mean_s in zip(by_thread, (pace_s, backward_pace_s), strict=True)]
    of_pass = over[:1] if row.get("direction") == "forward" else over
    ranks = [statistics.fmean(threads) for threads in zip(*of_pass, strict=True)]
    return {**row, "median_s": row["median_s"] / pace_of_ranks(ranks), "spread_frac": PACED_SPREAD_FRAC}


def _dispatches(row: Row) -> float:
    return float(row.get("dispatches", 0))


def _slopes(rows: Sequence[Row], column: str) -> list[float]:
    """Seconds of one more of what a column counts, between the fewest and the most of it."""
    ordered = list(
        _by(column, sorted((row for row in rows if column in row), key=lambda row: float(row[column]))).values()
    )
    if len(ordered) < 2 or ordered[0][column] == ordered[-1][column]:
        return []
    few, many = ordered[0], ordered[-1]
    found = (many["median_s"] - few["median_s"]) / (many[column] - few[column])
    return [float(found)] if found > 0 else []


def _chains(rows: Sequence[Row], direction: str) -> list[float]:
    first = _slopes([row for row in rows if row["op"] == "compiled chain forward"], "products")
    if direction == "forward":
        return [one / CHAIN_KERNELS["forward"] for one in first]
    both = _slopes([row for row in rows if row["op"] == "compiled chain forward and backward"], "products")
    return [(b - f) / CHAIN_KERNELS["backward"] for f, b in zip(first, both, strict=False) if b > f]


def _graphs(rows: Sequence[Row], around_s: Sequence[float]) -> tuple[float, float]:
    """Seconds of entering a compiled graph forward and backward: a chain without its products, and without the sum
    that is differentiated."""
    empty = []
    for op in ("compiled chain forward", "compiled chain forward and backward"):
        found = _by("products", [row for row in rows if row["op"] == op])
        if len(found) < 2:
            return 0.0, 0.0
        few, many = min(found), max(found)
        each = (found[many]["median_s"] - found[few]["median_s"]) / (many - few)
        empty.append(float(found[few]["median_s"] - few * each))
    return empty[0], empty[1] - empty[0] - sum(around_s) / max(len(around_s), 1)


def _new_products(rows: Sequence[Row]) -> list[float]:
    """Seconds that a product of a size that was never multiplied takes more than one of the same again."""
    found = {row["op"]: float(row["launch_s"]) for row in rows if "launch_s" in row}
    more = found.get("product of a new size", 0.0) - found.get("product", 0.0)
    return [more] if more > 0 and "product" in found else []


def _scaled(own: Range, slower: float, what: str) -> Fitted:
    source = f"{own.source}; {slower:.2f} times as long here, as {what} is"
    made = Range(value=own.value * slower, low=own.low * slower, high=own.high * slower, unit=own.unit, source=source)
    return Fitted(range=made, points=0, residual_frac=max(own.high / own.value - 1, 0.0) if own.value else 0.0)
