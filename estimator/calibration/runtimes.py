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
from estimator.cost.host import EXCHANGE_LAUNCHES, slowest_of

Row = Mapping[str, Any]
Key = tuple[str, str, int, int]
"""Op, direction, layers and tensors of a row."""
Table = dict[Key, list[tuple[float, float]]]
"""Seconds of each visit, and by what share visits spread."""

VISIT_SPREAD_FRAC = 0.2
"""Standard deviation of a row's seconds from one visit of a host to the next (58 rows with four visits and more of two
H200 hosts, tests/reference/h200_drawn and h200_paced: 0.02 to 0.44, their median 0.19)."""

PACED_SPREAD_FRAC = 0.08
"""The same once brought to one pace, where that was read before each sample (36 rows of tests/reference/h200_ranks with
three visits and more: 0.03 to 0.14, their median 0.08; as they were 0.20)."""

FAMILY_SPREAD_FRAC = 0.15
"""Standard deviation of a runtime's number between hosts, beside what an op of a plain model differs by (FSDP2 over a
plain block, hosts with three visits and more: 0.74 to 0.98; what single visits differ by has their spread in it)."""

BLOCK_PRODUCTS, BLOCK_TENSORS = 7, 9
"""Products and parameter tensors of a block of the small model: q, k, v, o, gate, up, down; and two norms."""

DTENSOR_FACTOR, DTENSOR_SPREAD_FRAC = 1.25, 0.1
FSDP_FACTOR, FSDP_SPREAD_FRAC = 1.1, 0.15
"""By what a product of a model under DTensor, and a block under FSDP2, takes longer than linears alone, whose Python
stays in the caches, and how far that is known (23 hosts' probes, geometric mean; 24 hosts' blocks of eight linears,
2.41 ms in the mean for 2.65 of a model's)."""

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


FORWARD_EXCHANGES = {"fsdp": 1.0, "dtensor": 2.0}
EXCHANGES = {"fsdp": 3.0, "dtensor": 7.0}
"""Collectives of a block of the small model in forward, and in both passes: parameters are gathered twice and gradients
scattered; two sums forward, and of the gradients of what q, k, v, gate and up read."""


def told_by_probes(rows: Sequence[Row], e: Efficiencies, launch_s: float) -> dict[str, list[Told]]:
    """Host seconds that FSDP2 adds to a gathered module and DTensor to a split product and to a parameter tensor.

    Each from the same model, or blocks, plain and under the runtime: what one more block adds more; of blocks, which
    have little around them, what they add. The mean of their visits, as steps meet a shared host at either of its
    speeds too. Models that ranks ran together, less what the slowest of them takes longer (``slowest_of``) and what
    asking for the exchanges takes (``launch_s``: a bare launch), go before those of one process.
    """
    table: Table = {}
    for row in _together_first(rows):
        key = (row["op"], row.get("direction", ""), row["layers"], row.get("tensors", 0))
        seconds = row["median_s"] / float(slowest_of(row.get("ranks", 1), e))
        table.setdefault(key, []).append((seconds, row.get("spread_frac", VISIT_SPREAD_FRAC)))
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
        told = _difference(table, parts, models[-1] - models[0])
        if told is None or not any(row.get("ranks", 1) > 1 for row in rows if row["op"] == f"model {name}"):
            return told
        passes = {forward: FORWARD_EXCHANGES[name], both: EXCHANGES[name], step: EXCHANGES[name]}
        asked = (passes[later] - (passes[earlier] if earlier else 0.0)) * EXCHANGE_LAUNCHES * launch_s
        return Told(value=told.value - asked, error=told.error)

    def keep(name: str, told: Told | None, per: float = 1.0) -> None:
        if told is not None:
            found[name].append(Told(value=told.value / per, error=told.error / per))

    if len(models) > 1:
        keep("host_fsdp_forward_s", of_models("fsdp", forward))
        keep("host_fsdp_backward_s", of_models("fsdp", both, forward))
        keep("host_sharded_tensor_s", of_models("fsdp", step, both), BLOCK_TENSORS)
        keep("host_dtensor_s", of_models("dtensor", both), 2 * BLOCK_PRODUCTS)
    of_linears: list[Told] = []
    blocks = sorted(key for key in table if key[:2] == ("plain", forward))
    for _, _, layers, tensors in blocks:

        def of_blocks(name: str, later: str, earlier: str = "", layers: int = layers, tensors: int = tensors,
                      per: float = 1.0) -> Told | None:  # fmt: skip
            parts = [
                (sign * side, (op, direction, layers, tensors))
                for op, side in ((name, 1.0), ("plain", -1.0))
                for direction, sign in ((later, 1.0), (earlier, -1.0))
                if direction
            ]
            return _difference(table, parts, per)

        if tensors == blocks[-1][-1]:  # about as many as a model's blocks have
            for name, passes in (("host_fsdp_forward_s", (forward,)), ("host_fsdp_backward_s", (both, forward))):
                keep(name, _of_model(of_blocks("fsdp", *passes), FSDP_FACTOR, FSDP_SPREAD_FRAC), layers)
        linears = of_blocks("dtensor", both, per=2 * tensors)
        of_linears += [linears] if linears else []
        for name in ("fsdp", "dtensor"):
            keep("host_sharded_tensor_s", of_blocks(name, "optimizer"), tensors)
        one_by_one = "optimizer for-loop"
        dispatches = [row.get("dispatches", 0) for row in rows if row.get("direction") == one_by_one
                      and (row["op"], row["layers"], row.get("tensors", 0)) == ("plain", layers, tensors)]  # fmt: skip
        if dispatches and dispatches[0]:
            keep("host_dtensor_op_s", of_blocks("dtensor", one_by_one), dispatches[0])
    keep("host_dtensor_s", _of_model(weighed(of_linears) if of_linears else None, DTENSOR_FACTOR, DTENSOR_SPREAD_FRAC))
    return found


def _of_model(told: Told | None, factor: float, spread_frac: float) -> Told | None:
    """What blocks of linears alone tell, as a model's take it."""
    if told is None:
        return None
    value = factor * told.value
    return Told(value=value, error=math.hypot(factor * told.error, spread_frac * value))


def _together_first(rows: Sequence[Row]) -> list[Row]:
    """The rows of layers, without those of one process that several ranks ran together as well."""
    layered = [row for row in rows if "layers" in row]
    what = {_what(row) for row in layered if row.get("ranks", 1) > 1}
    return [row for row in layered if row.get("ranks", 1) > 1 or _what(row) not in what]


def _what(row: Row) -> tuple[str, str, int]:
    return row["op"], row.get("direction", ""), row["layers"]


def _difference(table: Table, parts: Sequence[tuple[float, Key]], per: float) -> Told | None:
    """Σ sign · mean of a row's visits, over ``per``, and its standard error; None where a row is missing."""
    value_s, variance = 0.0, 0.0
    for sign, key in parts:
        visits = table.get(key)
        if not visits:
            return None
        value_s += sign * math.fsum(seconds for seconds, _ in visits) / len(visits)
        variance += math.fsum((seconds * spread) ** 2 for seconds, spread in visits) / len(visits) ** 2
    return Told(value=value_s / per, error=math.sqrt(variance) / per)
