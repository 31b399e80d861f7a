"""Mesh: which ranks this one shares a batch, a sequence, layers, widths and experts with, under a plan."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from estimator.scenario.plan import Plan
from runners.ranks import Ranks


@dataclass(frozen=True, kw_only=True)
class Axis:
    """This rank's group along one axis: its place in it and who is in it."""

    group: dist.ProcessGroup
    rank: int
    size: int


@dataclass(frozen=True, kw_only=True)
class Mesh:
    """This rank's place under a plan, by axis.

    ``data``: ranks that average gradients, dp · cp; of them ``shard`` share one copy of what is sharded and ``replica``
    hold copies of it. ``experts``: ranks that hold all experts together, ``expert_data``: those that hold the same
    ones. ``states`` has the dimensions pp, replica, shard, tp.
    """

    pp: Axis
    dp: Axis
    cp: Axis
    tp: Axis
    data: Axis
    shard: Axis
    replica: Axis
    experts: Axis
    expert_data: Axis
    states: DeviceMesh


def mesh_of(plan: Plan, ranks: Ranks) -> Mesh:
    """Lay a plan's axes over the ranks as ``placement`` says, and make the groups; all ranks must call it alike."""
    sizes = (("tp", plan.tp), ("cp", plan.cp), ("dp", plan.dp), ("pp", plan.pp))
    shard = (plan.shard_ranks or plan.dp * plan.cp) if plan.sharding != "ddp" else plan.dp * plan.cp
    return _mesh(sizes, tuple(plan.placement.split("-")), shard, plan.ep, ranks.rank, "cuda" if ranks.cuda else "cpu")


@lru_cache(maxsize=64)
def _mesh(
    sizes: tuple[tuple[str, int], ...], order: tuple[str, ...], shard: int, ep: int, rank: int, device: str
) -> Mesh:
    degree = dict(sizes)
    outwards = order[::-1]
    ranks = torch.arange(dist.get_world_size()).reshape([degree[axis] for axis in outwards])
    ranks = ranks.permute([outwards.index(axis) for axis in ("pp", "dp", "cp", "tp")]).contiguous()
    data = degree["dp"] * degree["cp"]
    experts = data * degree["tp"]
    by_axis = DeviceMesh(device, ranks, mesh_dim_names=("pp", "dp", "cp", "tp"))
    by_data = DeviceMesh(device, ranks.reshape(degree["pp"], data, degree["tp"]), mesh_dim_names=("pp", "data", "tp"))
    states = DeviceMesh(
        device,
        ranks.reshape(degree["pp"], data // shard, shard, degree["tp"]),
        mesh_dim_names=("pp", "replica", "shard", "tp"),
    )
    by_expert = DeviceMesh(
        device, ranks.reshape(degree["pp"], experts // ep, ep), mesh_dim_names=("pp", "expert_data", "experts")
    )

    def axis(mesh: DeviceMesh, name: str) -> Axis:
        group = mesh.get_group(name)
        return Axis(group=group, rank=dist.get_rank(group), size=dist.get_world_size(group))

    return Mesh(
        **{name: axis(by_axis, name) for name in ("pp", "dp", "cp")},
        tp=axis(states, "tp"),
        data=axis(by_data, "data"),
        shard=axis(states, "shard"),
        replica=axis(states, "replica"),
        experts=axis(by_expert, "experts"),
        expert_data=axis(by_expert, "expert_data"),
        states=states,
    )
