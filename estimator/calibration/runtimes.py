"""Runtimes: what FSDP2 and DTensor add on this host, from small models and blocks, plain and under them.

Each is a difference of rows that a shared host scatters, so that one or two visits hardly tell it, while all of them
are Python, dispatcher and autograd, as an op is, and keep their distance to it from host to host (linears under DTensor
took 21 to 26 times as long as a kernel of a plain model, on ten hosts whose kernels took 16 to 31 µs). What the probes
say, each weighed by what the spread of its rows leaves open, is therefore held against the family's number on a host
of this speed: x = Σ(xᵢ/σᵢ²) / Σ(1/σᵢ²).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from estimator.cost.efficiency import Efficiencies
from estimator.cost.host import slowest_of

Row = Mapping[str, Any]

VISIT_SPREAD_FRAC = 0.2
"""Standard deviation of a row's seconds from one visit of a host to the next (58 rows with four visits and more of two
H200 hosts, tests/reference/h200_drawn and h200_paced: 0.02 to 0.44, their median 0.19)."""

FAMILY_SPREAD_FRAC = 0.15
"""Standard deviation of a runtime's number between hosts, beside what an op of a plain model differs by (FSDP2 over a
plain block, hosts with three visits and more: 0.74 to 0.98; what single visits differ by has their spread in it)."""

BLOCK_PRODUCTS, BLOCK_TENSORS = 7, 9
"""Products and parameter tensors of a block of the small model: q, k, v, o, gate, up, down; and two norms."""

MODEL_FACTOR, MODEL_SPREAD_FRAC = 1.25, 0.1
"""By what DTensor takes longer for a product of a model than of linears alone (geometric mean of 23 hosts' probes), and
how far that is known."""

RUNTIMES = {
    "host_fsdp_forward_s": "modules under FSDP2",
    "host_fsdp_backward_s": "modules under FSDP2",
    "host_sharded_tensor_s": "optimizers of DTensors",
    "host_dtensor_s": "products under DTensor",
    "host_dtensor_op_s": "ops of DTensors' optimizers",
}
"""Constants of the runtimes, and what they are probed with."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """A constant as one kind of rows tells it, and its standard error."""

    value: float
    error: float


def weighed(told: Sequence[Told]) -> Told:
    """The mean of what several say, each weighed by 1/σ²."""
    weights = [1.0 / one.error**2 for one in told]
    value_s = math.fsum(weight * one.value for weight, one in zip(weights, told, strict=True)) / math.fsum(weights)
    return Told(value=value_s, error=1.0 / math.sqrt(math.fsum(weights)))


def of_family(name: str, e: Efficiencies, slower: float) -> Told:
    """The family's number on a host whose ops take ``slower`` times as long."""
    value_s = getattr(e, name) * slower
    return Told(value=value_s, error=FAMILY_SPREAD_FRAC * value_s)


def told_by_probes(rows: Sequence[Row], e: Efficiencies) -> dict[str, list[Told]]:
    """Host seconds that FSDP2 adds to a gathered module and DTensor to a split product and to a parameter tensor.

    Each from the same model, or blocks, plain and under the runtime: what one more block adds more; of blocks, which
    have little around them, what they add. The mean of their visits, as steps meet a shared host at either of its
    speeds too. Models that ranks ran together, less what the slowest of them takes longer (``slowest_of``), go before
    those of one process, which exchanges nothing; what FSDP2 adds to blocks that repeat one pass, whose Python stays in
    the caches, says something only where no models were probed.
    """
    table: dict[tuple[str, str, int, int], list[float]] = {}
    for row in _together_first(rows):
        key = (row["op"], row.get("direction", ""), row["layers"], row.get("tensors", 0))
        table.setdefault(key, []).append(row["median_s"] / float(slowest_of(row.get("ranks", 1), e)))
    found: dict[str, list[Told]] = {name: [] for name in RUNTIMES}
    models = sorted({layers for op, _, layers, _ in table if op == "model plain"})
    forward, both, step = ("forward", "forward-backward", "step")

    def of_models(name: str, later: str, earlier: str = "") -> Told | None:
        parts = [
            (sign * side * at, (f"model {op}", direction, layers, 0))
            for layers, at in ((models[-1], 1.0), (models[0], -1.0))
            for op, side in ((name, 1.0), ("plain", -1.0))
            for direction, sign in ((later, 1.0), (earlier, -1.0))
            if direction
        ]
        return _difference(table, parts, models[-1] - models[0])

    def keep(name: str, told: Told | None, per: float = 1.0) -> None:
        if told is not None:
            found[name].append(Told(value=told.value / per, error=told.error / per))

    if len(models) > 1:
        keep("host_fsdp_forward_s", of_models("fsdp", forward))
        keep("host_fsdp_backward_s", of_models("fsdp", both, forward))
        keep("host_sharded_tensor_s", of_models("fsdp", step, both), BLOCK_TENSORS)
        keep("host_dtensor_s", of_models("dtensor", both), 2 * BLOCK_PRODUCTS)
    by_models = bool(found["host_fsdp_forward_s"])
    of_linears: list[Told] = []
    for _, _, layers, tensors in sorted(key for key in table if key[:2] == ("plain", forward)):

        def of_blocks(name: str, later: str, earlier: str = "", layers: int = layers, tensors: int = tensors,
                      per: float = 1.0) -> Told | None:  # fmt: skip
            parts = [
                (sign * side, (op, direction, layers, tensors))
                for op, side in ((name, 1.0), ("plain", -1.0))
                for direction, sign in ((later, 1.0), (earlier, -1.0))
                if direction
            ]
            return _difference(table, parts, per)

        if not by_models:
            keep("host_fsdp_forward_s", of_blocks("fsdp", forward), layers)
            keep("host_fsdp_backward_s", of_blocks("fsdp", both, forward), layers)
        linears = of_blocks("dtensor", both, per=2 * tensors / MODEL_FACTOR)
        of_linears += [linears] if linears else []
        for name in ("fsdp", "dtensor"):
            keep("host_sharded_tensor_s", of_blocks(name, "optimizer"), tensors)
        one_by_one = "optimizer for-loop"
        dispatches = [row.get("dispatches", 0) for row in rows if row.get("direction") == one_by_one
                      and (row["op"], row["layers"], row.get("tensors", 0)) == ("plain", layers, tensors)]  # fmt: skip
        if dispatches and dispatches[0]:
            keep("host_dtensor_op_s", of_blocks("dtensor", one_by_one), dispatches[0])
    if of_linears:
        linears = weighed(of_linears)
        error = math.hypot(linears.error, MODEL_SPREAD_FRAC * linears.value)
        found["host_dtensor_s"].append(Told(value=linears.value, error=error))
    return found


def _together_first(rows: Sequence[Row]) -> list[Row]:
    """The rows of layers, without those of one process that several ranks ran together as well."""
    layered = [row for row in rows if "layers" in row]
    what = {_what(row) for row in layered if row.get("ranks", 1) > 1}
    return [row for row in layered if row.get("ranks", 1) > 1 or _what(row) not in what]


def _what(row: Row) -> tuple[str, str, int]:
    return row["op"], row.get("direction", ""), row["layers"]


def _difference(
    table: Mapping[tuple[str, str, int, int], Sequence[float]],
    parts: Sequence[tuple[float, tuple[str, str, int, int]]],
    per: float,
) -> Told | None:
    """Σ sign · mean of a row's visits, over ``per``, and its standard error; None where a row is missing."""
    value_s, variance = 0.0, 0.0
    for sign, key in parts:
        visits = table.get(key)
        if not visits:
            return None
        mean_s = math.fsum(visits) / len(visits)
        value_s += sign * mean_s
        variance += (VISIT_SPREAD_FRAC * mean_s) ** 2 / len(visits)
    return Told(value=value_s / per, error=math.sqrt(variance) / per)
