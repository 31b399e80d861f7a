"""Placement: which ranks of every axis share a node, from the order in which axes fill it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from estimator.cost.collectives import Group
from estimator.scenario.arrays import maximum, minimum
from estimator.scenario.units import Number


@dataclass(frozen=True, kw_only=True, slots=True)
class Degrees:
    """Degrees of a plan as plain numbers or arrays; ``shard`` is the number of ranks that share one sharded copy."""

    tp: Number
    cp: Number
    dp: Number
    pp: Number
    ep: Number = 1
    expert_tp: Number = 1
    shard: Number = 0
    grid_side: Number = 1

    @property
    def data(self) -> Number:
        """Ranks that hold the same dense parameters of a stage before sharding: dp · cp."""
        return self.dp * self.cp

    @property
    def expert_data(self) -> Number:
        """Ranks that hold the same experts: tp · cp · dp / (ep · expert_tp)."""
        return self.tp * self.cp * self.dp / (self.ep * self.expert_tp)


@dataclass(frozen=True, kw_only=True, slots=True)
class Groups:
    """Every group in which one rank communicates; ``send_across`` tells whether a pipeline message may leave a node."""

    tp: Group
    cp: Group
    data: Group
    shard: Group
    replica: Group
    ep: Group
    expert_tp: Group
    expert_data: Group
    grid_row: Group
    grid_column: Group
    grid_depth: Group
    send_across: Any


def groups_of(degrees: Degrees, placement: str, chips_per_node: Number) -> Groups:
    """Fill nodes axis by axis in the order of ``placement``: an axis finds what the axes before it left of a node.

    ranks per node of an axis = min(degree, chips per node / product of the degrees before it), at least 1; a group over
    several axes has the product. Experts are laid over the node's tp · cp · dp ranks: expert_tp, then ep, then copies.
    """
    sizes = {"tp": degrees.tp, "cp": degrees.cp, "dp": degrees.dp, "pp": degrees.pp}
    near: dict[str, Number] = {}
    inner: dict[str, Number] = {}
    before: Number = 1
    for axis in placement.split("-"):
        inner[axis] = before
        near[axis] = _near(sizes[axis], chips_per_node, before)
        before = before * sizes[axis]
    data, data_near = degrees.data, near["dp"] * near["cp"]
    shard = degrees.shard
    shard_near = minimum(shard, data_near)
    local = near["tp"] * data_near
    side = degrees.grid_side
    depth = degrees.tp / (side * side)
    experts = degrees.ep * degrees.expert_tp
    return Groups(
        tp=_group(degrees.tp, near["tp"]),
        cp=_group(degrees.cp, near["cp"]),
        data=_group(data, data_near),
        shard=_group(shard, shard_near),
        replica=_group(data / shard, maximum(1.0, data_near / shard_near)),
        ep=_group(degrees.ep, _near(degrees.ep, local, degrees.expert_tp)),
        expert_tp=_group(degrees.expert_tp, minimum(degrees.expert_tp, local)),
        expert_data=_group(degrees.expert_data, _near(degrees.expert_data, local, experts)),
        grid_row=_group(side, _near(side, near["tp"], 1)),
        grid_column=_group(side, _near(side, near["tp"], side)),
        grid_depth=_group(depth, _near(depth, near["tp"], side * side)),
        send_across=inner["pp"] * degrees.pp > chips_per_node,
    )


def _near(size: Number, room: Number, inner: Number) -> Number:
    return maximum(1.0, minimum(size, room / inner))


def _group(ranks: Number, near: Number) -> Group:
    return Group(ranks=ranks, ranks_per_node=near)
