"""Runtimes: what FSDP2 and DTensor add on this host, from small models and blocks, plain and under them.

Each is a difference of rows that a shared host scatters, so that one or two visits hardly tell it, while all of them
are Python, dispatcher and autograd, as an op is, and keep their distance to it from host to host (linears under DTensor
took 21 to 26 times as long as a kernel of a plain model, on ten hosts whose kernels took 16 to 31 µs). What the probes
say, each weighed by what the spread of its rows leaves open, is therefore held against the family's number on a host
of this speed: x = Σ(xᵢ/σᵢ²) / Σ(1/σᵢ²).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
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
    value = math.fsum(weight * one.value for weight, one in zip(weights, told, strict=True)) / math.fsum(weights)
    return Told(value=value, error=1.0 / math.sqrt(math.fsum(weights)))


def of_family(name: str, e: Efficiencies, slower: float) -> Told:
    """The family's number on a host whose ops take ``slower`` times as long."""
    value = getattr(e, name) * slower
    return Told(value=value, error=FAMILY_SPREAD_FRAC * value)


EXCHANGES = {
    "fsdp": {"forward": 1.0, "forward-backward": 3.0, "step": 3.0},
    "dtensor": {"forward-backward": 7.0},
}
"""Collectives of a block of the small model: parameters are gathered twice and gradients scattered; two sums forward,
and five of the gradients of what q, k, v, gate and up read."""
ONE_BY_ONE = "optimizer for-loop"
"""AdamW tensor by tensor."""


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
    together = {row["op"] for row in rows if row.get("ranks", 1) > 1}
    dispatches = {
        (row["layers"], row.get("tensors", 0)): float(row.get("dispatches", 0))
        for row in rows
        if (row["op"], row.get("direction")) == ("plain", ONE_BY_ONE)
    }
    found: dict[str, list[Told]] = {name: [] for name in RUNTIMES}
    for name, told in (*_of_models(table, together, EXCHANGE_LAUNCHES * launch_s), *_of_blocks(table, dispatches)):
        if told is not None:
            found[name].append(told)
    return found


def _of_models(table: Table, together: Set[str], exchange_s: float) -> Iterator[tuple[str, Told | None]]:
    layers = sorted({layers for op, _, layers, _ in table if op == "model plain"})
    if len(layers) < 2:
        return
    few, many = layers[0], layers[-1]

    def more(name: str, later: str, earlier: str = "") -> Told | None:
        parts = [
            (sign * side * at, (f"model {op}", direction, blocks, 0))
            for blocks, at in ((many, 1.0), (few, -1.0))
            for op, side in ((name, 1.0), ("plain", -1.0))
            for direction, sign in ((later, 1.0), (earlier, -1.0))
            if direction
        ]
        told = _difference(table, parts, many - few)
        if told is None or f"model {name}" not in together:
            return told
        asked = EXCHANGES[name].get(later, 0.0) - EXCHANGES[name].get(earlier, 0.0)
        return Told(value=told.value - asked * exchange_s, error=told.error)

    yield "host_fsdp_forward_s", more("fsdp", "forward")
    yield "host_fsdp_backward_s", more("fsdp", "forward-backward", "forward")
    yield "host_sharded_tensor_s", _scaled(more("fsdp", "step", "forward-backward"), 1.0 / BLOCK_TENSORS)
    yield "host_dtensor_s", _scaled(more("dtensor", "forward-backward"), 0.5 / BLOCK_PRODUCTS)


def _of_blocks(table: Table, dispatches: Mapping[tuple[int, int], float]) -> Iterator[tuple[str, Told | None]]:
    sizes = sorted({(layers, tensors) for op, _, layers, tensors in table if op == "plain"})
    linears = []
    for layers, tensors in sizes:

        def more(name: str, later: str, earlier: str = "", size: tuple[int, int] = (layers, tensors)) -> Told | None:
            parts = [
                (sign * side, (op, direction, *size))
                for op, side in ((name, 1.0), ("plain", -1.0))
                for direction, sign in ((later, 1.0), (earlier, -1.0))
                if direction
            ]
            return _difference(table, parts, 1.0)

        if tensors == sizes[-1][1]:  # about as many as a model's blocks have
            for constant, passes in (("forward", ("forward",)), ("backward", ("forward-backward", "forward"))):
                told = _scaled(more("fsdp", *passes), FSDP_FACTOR / layers, FSDP_SPREAD_FRAC)
                yield f"host_fsdp_{constant}_s", told
        linears.append(_scaled(more("dtensor", "forward-backward"), 0.5 / tensors))
        for name in ("fsdp", "dtensor"):
            yield "host_sharded_tensor_s", _scaled(more(name, "optimizer"), 1.0 / tensors)
        if dispatches.get((layers, tensors)):
            yield "host_dtensor_op_s", _scaled(more("dtensor", ONE_BY_ONE), 1.0 / dispatches[layers, tensors])
    known = [one for one in linears if one is not None]
    yield "host_dtensor_s", _scaled(weighed(known) if known else None, DTENSOR_FACTOR, DTENSOR_SPREAD_FRAC)


def _scaled(told: Told | None, factor: float, spread_frac: float = 0.0) -> Told | None:
    """A multiple of what was told, known as well but for ``spread_frac`` of it."""
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
