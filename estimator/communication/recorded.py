"""Recorded collectives: what a traced or profiled exchange moves, and where its group of ranks stands."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from estimator.cost.collectives import Group
from estimator.scenario.aten_cost import element_bytes, plain
from estimator.scenario.op_list import Operand, Signature

KINDS = (
    ("allgather", "all-gather"),
    ("reducescatter", "reduce-scatter"),
    ("alltoall", "all-to-all"),
    ("allreduce", "all-reduce"),
    ("barrier", "all-reduce"),
    ("broadcast", "all-gather"),
    ("reduce", "reduce-scatter"),
    ("gather", "all-gather"),
    ("scatter", "reduce-scatter"),
    ("send", "p2p"),
    ("recv", "p2p"),
    ("p2p", "p2p"),
)
"""What a name without its underscores holds, the first that does, and the collective that moves as much: a broadcast's
ring passes every rank's link once with the whole tensor, as a gather's does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """One recorded collective: the bytes of ``Message.payload_bytes`` and the group that it runs in."""

    kind: str
    payload_bytes: float
    group: Group


def exchange_of(
    s: Signature, groups: tuple[tuple[int, ...], ...], rank: int, chips_per_node: int, world: int
) -> Exchange:
    """Tell what a collective is; one without a group runs over all ranks.

    The payload is the gathered tensor of an all-gather or reduce-scatter, else a rank's own.
    """
    kind = kind_of(s.op)
    index = s.arguments.get("group")
    if isinstance(index, int) and 0 <= index < len(groups):
        near = Counter(one // chips_per_node for one in groups[index])
        ranks, own = len(groups[index]), near.get(rank // chips_per_node) or max(near.values(), default=1)
    else:
        ranks, own = world, min(world, chips_per_node)
    given, made = sum(map(_bytes, s.inputs)), sum(map(_bytes, s.outputs))
    payload = max(given, made) if kind in ("all-gather", "reduce-scatter") else given or made
    return Exchange(
        kind=kind, payload_bytes=payload, group=Group(ranks=float(max(ranks, 1)), ranks_per_node=float(own))
    )


def kind_of(op: str) -> str:
    """The collective behind an op's name; an unknown one moves what an all-reduce does."""
    name = plain(op).replace("_", "").lower()
    return next((kind for word, kind in KINDS if word in name), "all-reduce")


def _bytes(one: Operand) -> float:
    size = float(element_bytes(one.dtype) or 4)
    for length in one.shape:
        size *= length
    return size
