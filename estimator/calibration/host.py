"""Host: what Python, autograd and dispatcher need for an op on this host, from the probes of launching.

A small model of so many blocks dispatches a counted number of ops, and is launch-bound: what more blocks take more, per
op more, is the host's time per op, forward and backward. Compiled chains give the same per compiled kernel, optimizers
of small tensors per tensor. What was not probed follows the bare launch, measured here and where the base was.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from estimator.calibration.fit import Fitted
from estimator.cost.efficiency import Efficiencies, Range
from estimator.cost.host import slowest_of
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

CHAIN_KERNELS = {"forward": 2.0, "backward": 3.0}
"""Kernels of a compiled chain for each of its products: product and tanh; both gradients and tanh's."""

RUNTIMES = {
    "host_fsdp_forward_s": "modules under FSDP2",
    "host_fsdp_backward_s": "modules under FSDP2",
    "host_sharded_tensor_s": "optimizers of DTensors",
    "host_dtensor_s": "products under DTensor",
    "host_dtensor_op_s": "ops of DTensors' optimizers",
}
"""Constants of the runtimes, and what they are probed with."""

PACES = ("host_pace_s", "host_backward_pace_s")
"""Of the program's own thread and of autograd's, as rows of probes and calibrations call them."""

BLOCK_PRODUCTS, BLOCK_TENSORS = 7, 9
"""Products and parameter tensors of a block of the small model: q, k, v, o, gate, up, down; and two norms."""

MODEL_FACTOR = 1.25
"""By what DTensor takes longer for a product of a model than of linears alone (geometric mean of 23 hosts' probes)."""

BARE = ("host_fused_forward_s", "host_fused_backward_s", "host_tensor_s", "host_new_product_s", "host_optimizer_s",
        "host_dtensor_op_s", "host_dtensor_value_s", "host_put_off_s", "host_graph_forward_s",
        "host_graph_backward_s")  # fmt: skip
"""Constants that follow the bare launch where they were not probed."""


def host_ranges(measurements: Sequence[Measurement], e: Efficiencies) -> tuple[dict[str, Fitted], dict[str, str]]:
    """Host constants from the ladder ``launch``, and the reasons why others stay inherited."""
    rows, runtimes = (_ladder(measurements, name) for name in ("launch", "runtime"))
    if not rows and not runtimes:
        reason = "no launches were probed"
        names = (*PACES, "host_launch_s", "host_forward_s", "host_backward_s", *BARE, *RUNTIMES)
        return {}, dict.fromkeys(names, reason)
    found: dict[str, Fitted] = {}
    missing: dict[str, str] = {}

    def keep(name: str, values: list[float], what: str) -> None:
        if not values:
            missing[name] = f"no {what} were probed"
            return
        value = statistics.median(values)
        off = max(SPREAD_FRAC, *(abs(one / value - 1) for one in values))
        most = COLD_FACTOR - 1 if name in RUNTIMES and name != "host_dtensor_s" else off
        source = f"probes: {counted(len(values), 'difference')} of {what}"
        found[name] = Fitted(
            range=Range(
                value=value, low=value / (1 + off), high=value * (1 + most), unit=e.ranges[name].unit, source=source
            ),
            points=len(values),
            residual_frac=statistics.median(abs(one / value - 1) for one in values),
        )  # fmt: skip

    for name in PACES:
        pace_s = pace_of(measurements, name)
        if pace_s:
            keep(name, [pace_s], "the host's pace")
        else:
            missing[name] = "no pace of the host was noted"
    launches = [float(row["launch_s"]) for row in rows if row["op"] == "op"]
    keep("host_launch_s", launches, "bare launches")
    forward, backward = per_op_s(rows)
    keep("host_forward_s", [one * e.host_forward_dispatches_per_kernel for one in forward], "small models' blocks")
    keep("host_backward_s", [one * e.host_backward_dispatches_per_kernel for one in backward], "small models' blocks")
    chain = "compiled chains"
    keep("host_fused_forward_s", _chains(rows, "forward"), chain)
    keep("host_fused_backward_s", _chains(rows, "backward"), chain)
    entered = _graphs(rows, forward + backward)
    for name, seconds in zip(("host_graph_forward_s", "host_graph_backward_s"), entered, strict=True):
        keep(name, [seconds] if seconds > 0 else [], chain)
    tensors = _slopes([row for row in rows if row["op"] == "adamw foreach"], "tensors")
    keep("host_tensor_s", tensors, "optimizers of small tensors")
    keep("host_new_product_s", _new_products(rows), "products of new sizes")
    missing["host_optimizer_s"] = "no steps of optimizers among other work are probed"
    missing["host_put_off_s"] = "no stages of pipelines are probed"
    missing["host_dtensor_value_s"] = "no numbers that change from step to step are probed"
    for name, values in per_runtime_s(runtimes, e).items():
        keep(name, values, RUNTIMES[name])
    if launches:
        slower = statistics.median(launches) / e.host_launch_s
        for name in BARE:
            if name in missing:
                found[name] = _scaled(e.ranges[name], slower)
                del missing[name]
    return found, missing


def per_op_s(rows: Sequence[Row]) -> tuple[list[float], list[float]]:
    """Host seconds of each dispatched op, forward and backward, one for each precision that was probed."""
    forward, backward = [], []
    for precision in sorted({str(row.get("precision")) for row in rows}):
        of = [row for row in rows if row.get("precision") == precision and "layers" in row]
        first = _by("layers", [row for row in of if row["op"] == "model forward"])
        both = [row for row in of if row["op"] == "model forward and backward" and row["layers"] in first]
        # Forward is taken off at the pace that it had, what is left goes at the pace of autograd's thread.
        later = _by("layers", [{**row, "median_s": _backward_s(row, first[row["layers"]]["median_s"])} for row in both])
        layers = sorted(later)
        if len(layers) > 1 and all(_dispatches(one[n]) for one in (first, later) for n in layers):
            few, many = layers[0], layers[-1]
            forward.append(_slope(first[few], first[many]))
            ops = [_dispatches(later[n]) - _dispatches(first[n]) for n in (few, many)]
            backward.append((later[many]["median_s"] - later[few]["median_s"]) / (ops[1] - ops[0]))
        elif layers == [4] and precision == "fp32":
            ops_forward, ops_both = TINY_DISPATCHES["model forward"], TINY_DISPATCHES["model forward and backward"]
            forward.append(first[4]["median_s"] / ops_forward)
            backward.append(later[4]["median_s"] / (ops_both - ops_forward))
    return [one for one in forward if one > 0], [one for one in backward if one > 0]


def per_runtime_s(rows: Sequence[Row], e: Efficiencies) -> dict[str, list[float]]:
    """Host seconds that FSDP2 adds to a gathered module and DTensor to a split product and to a parameter tensor.

    Each from the same model, or blocks, plain and under the runtime: what one more block adds more; of blocks, which
    have little around them, what they add. The mean of their visits, as steps meet a shared host at either of its
    speeds too; of one visit its fastest sample, as others only add. Whole models, whose steps run everything in turn,
    go before blocks that repeat one pass, and models that ranks ran together, less what the slowest of them takes
    longer (``slowest_of``), before those of one process, which exchanges nothing.
    """
    found: dict[str, list[float]] = {name: [] for name in RUNTIMES}
    table: dict[tuple[str, str, int, int], list[Row]] = {}
    for row in rows:
        if "layers" in row:
            key = (row["op"], row.get("direction", ""), row["layers"], row.get("tensors", 0))
            table.setdefault(key, []).append(row)

    def seconds(op: str, direction: str, layers: int, tensors: int) -> float:
        visits = table[op, direction, layers, tensors]
        together = [row for row in visits if row.get("ranks", 1) > 1]
        if together:
            return statistics.fmean(row["median_s"] / float(slowest_of(row["ranks"], e)) for row in together)
        return statistics.fmean(row["median_s"] for row in visits) if len(visits) > 1 else float(visits[0]["minimum_s"])

    models = sorted({layers for op, _, layers, _ in table if op == "model plain"})
    for name in ("fsdp", "dtensor") if len(models) > 1 else ():

        def each(direction: str, name: str = name) -> float:
            few, many = models[0], models[-1]
            more = [
                seconds(f"model {name}", direction, layers, 0) - seconds("model plain", direction, layers, 0)
                for layers in (few, many)
            ]
            return float((more[1] - more[0]) / (many - few))

        try:
            forward, both, step = (each(direction) for direction in ("forward", "forward-backward", "step"))
        except KeyError:
            continue
        if name == "fsdp":
            found["host_fsdp_forward_s"].append(forward)
            found["host_fsdp_backward_s"].append(both - forward)
            found["host_sharded_tensor_s"].append((step - both) / BLOCK_TENSORS)
        else:
            found["host_dtensor_s"].append(both / 2 / BLOCK_PRODUCTS)
    for _, _, layers, tensors in [key for key in table if key[0] == "plain" and key[1] == "forward"]:
        for name in ("fsdp", "dtensor"):
            try:
                forward, both, update = (
                    seconds(name, direction, layers, tensors) - seconds("plain", direction, layers, tensors)
                    for direction in ("forward", "forward-backward", "optimizer")
                )
            except KeyError:
                continue
            if name == "fsdp" and not models:
                found["host_fsdp_forward_s"].append(forward / layers)
                found["host_fsdp_backward_s"].append((both - forward) / layers)
            elif name == "dtensor" and not models:
                found["host_dtensor_s"].append(MODEL_FACTOR * both / 2 / tensors)
            if not models:
                found["host_sharded_tensor_s"].append(update / tensors)
    for op, direction, layers, tensors in table:
        if (op, direction) == ("plain", "optimizer for-loop") and ("dtensor", direction, layers, tensors) in table:
            more_s = seconds("dtensor", direction, layers, tensors) - seconds(op, direction, layers, tensors)
            found["host_dtensor_op_s"].append(more_s / _dispatches(table[op, direction, layers, tensors][0]))
    return {name: [one for one in values if one > 0] for name, values in found.items()}


def _by(column: str, rows: Sequence[Row]) -> dict[Any, Row]:
    """One row for each value of a column: the mean of its visits, as each met the host as it was."""
    visits: dict[Any, list[Row]] = {}
    for row in rows:
        visits.setdefault(row[column], []).append(row)
    return {
        value: {**alike[-1], "median_s": statistics.fmean(row["median_s"] for row in alike)}
        for value, alike in visits.items()
    }


def _backward_s(row: Row, forward_s: float) -> float:
    return float((row["median_s"] - forward_s * row.get("slower", 1.0)) / row.get("slower_backward", 1.0))


def _ladder(measurements: Sequence[Measurement], name: str) -> list[Row]:
    rows: list[Row] = [
        row
        for measurement in measurements
        for row in measurement.rows
        if row.get("ladder") == name and status_of_row(row) == "ok"
    ]
    if name == "runtime":  # what its rows differ by is not of one pace
        return rows
    pace_s, backward_pace_s = (pace_of(measurements, name) for name in PACES)
    return [_at_pace(row, pace_s, backward_pace_s) for row in rows]


def pace_of(measurements: Sequence[Measurement], column: str = "host_pace_s") -> float:
    """The host's pace while it was probed, the mean of all rows that say it; 0 where none does.

    No median: a core is fast or, beside a busy neighbour, 1.8 times as slow, and what lasts passes through both.
    """
    paces = [float(row[column]) for measurement in measurements for row in measurement.rows if row.get(column)]
    return statistics.fmean(paces) if paces else 0.0


def _at_pace(row: Row, pace_s: float, backward_pace_s: float) -> Row:
    """The row as it would be, had the host been as fast as it was in the mean: it varies while its probes run.

    What goes backward as well stays as it is, and says how much slower the program's thread and autograd's were; where
    the latter was not noted it is taken for the former.
    """
    own_s, own_backward_s = (float(row.get(column) or 0.0) for column in PACES)
    if not own_s or not pace_s:
        return row
    slower = own_s / pace_s
    if "layers" in row and row["op"] == "model forward and backward":
        return {
            **row,
            "slower": slower,
            "slower_backward": own_backward_s / backward_pace_s if own_backward_s else slower,
        }
    return {**row, **{key: row[key] / slower for key in ("median_s", "launch_s") if key in row}}


def _dispatches(row: Row) -> float:
    return float(row.get("dispatches", 0))


def _slope(few: Row, many: Row) -> float:
    return float((many["median_s"] - few["median_s"]) / (_dispatches(many) - _dispatches(few)))


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


def _scaled(own: Range, slower: float) -> Fitted:
    source = f"{own.source}; {slower:.2f} times as long here, as the bare launch is"
    made = Range(value=own.value * slower, low=own.low * slower, high=own.high * slower, unit=own.unit, source=source)
    return Fitted(range=made, points=1, residual_frac=max(own.high / own.value - 1, 0.0) if own.value else 0.0)
