"""Communication: what data parallel ranks exchange once or more per step, and how much of it stays exposed."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.communication.data import Sync, syncs
from estimator.communication.placement import Groups
from estimator.cost.collectives import Group, collective_s, exposed_s
from estimator.cost.efficiency import Efficiencies
from estimator.memory.memory import stage_parameters
from estimator.memory.rank_memory import Shard
from estimator.memory.stage_layout import StageKind
from estimator.scenario.arrays import maximum, minimum, where
from estimator.scenario.hardware import Cluster
from estimator.scenario.plan import Plan
from estimator.scenario.units import Number
from estimator.schedule.micro_batch import Pass


@dataclass(frozen=True, kw_only=True, slots=True)
class PricedSync:
    """A sync with its group, its seconds over the whole step, and what of them compute does not hide."""

    sync: Sync
    axis: str
    ranks: Number
    seconds: Number
    exposed_s: Number
    copies_exposed_s: Number


def data_parallel(
    shard: Shard, kind: StageKind, one: Pass, plan: Plan, groups: Groups, micro_batches: Number, cluster: Cluster,
    e: Efficiencies,
) -> list[PricedSync]:  # fmt: skip
    """Price the data parallel exchanges of one stage's rank, dense parameters and experts apart.

    Gather and scatter share the links: what one of them has hidden behind, the next cannot hide behind again.
    """
    every = plan.sharding in ("zero2", "zero3", "fsdp")
    times: Number = micro_batches if every else 1
    window: dict[str, Number] = {"forward": one.window_forward_s * times, "backward": one.window_backward_s * times}
    share = {"forward": one.products_forward_frac, "backward": one.products_backward_frac}
    dense, expert, _, tensors, expert_tensors = stage_parameters(shard, kind)
    found = []
    for axis, parameters, count, by_group in (
        ("dp", dense, tensors, {"data": groups.data, "shard": groups.shard, "replica": groups.replica}),
        ("edp", expert, expert_tensors, dict.fromkeys(("data", "shard", "replica"), groups.expert_data)),
    ):
        if _nothing(parameters) or _single(by_group["data"]):
            continue
        for sync in syncs(
            sharding=plan.sharding,
            numbers=shard.numbers,
            parameters=parameters,
            layers=kind.layers,
            tensors=count,
            micro_batches=micro_batches,
            bucket_bytes=plan.bucket_bytes,
            ddp_mode=plan.ddp_mode,
            shard_ranks=by_group["shard"].ranks,
            hybrid=axis == "dp" and plan.shard_ranks > 0,
            in_place=shard.training.traits.in_place_buffers,
        ):
            group = by_group[sync.group]
            each = collective_s(sync.kind, sync.payload_bytes / maximum(sync.count, 1.0), group, cluster, e)
            seconds = where(parameters > 0, each * sync.count, 0.0)
            copies = where(group.ranks > 1, sync.copies_bytes, 0.0) / (cluster.chip.memory_bytes_per_s * e.memory_frac)
            # The exchange and the copies around it run one after the other; each is exposed in the same share.
            both = seconds + copies
            exposed_frac: Number = 1.0
            if plan.overlap and not sync.late:
                room = window[sync.beside]
                if sync.group == "replica":
                    # Copies are summed in the last micro-batch's backward only.
                    room = minimum(room, one.window_backward_s)
                left = exposed_s(both, room, share[sync.beside], e)
                exposed_frac = left / maximum(both, 1e-30)
                window[sync.beside] = maximum(0.0, window[sync.beside] - both)
            found.append(
                PricedSync(
                    sync=sync,
                    axis=axis,
                    ranks=group.ranks,
                    seconds=seconds,
                    exposed_s=seconds * exposed_frac,
                    copies_exposed_s=copies * exposed_frac,
                )
            )
    return found


def _single(group: Group) -> bool:
    return isinstance(group.ranks, (int, float)) and group.ranks <= 1


def _nothing(parameters: Number) -> bool:
    return parameters == 0 if isinstance(parameters, (int, float)) else not parameters.any()
