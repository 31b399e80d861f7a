"""Data overlap: what data parallel ranks exchange once or more per step, and how much of it stays exposed."""

from __future__ import annotations

from dataclasses import replace

from estimator.communication.data import WHOLLY_SHARDED, data_messages
from estimator.communication.message import Message, PricedMessage, priced
from estimator.communication.placement import Groups
from estimator.cost.collectives import exposed_s
from estimator.cost.efficiency import Efficiencies
from estimator.memory.rank_memory import RankMemory
from estimator.memory.stage_layout import StageKind
from estimator.memory.stage_parameters import gathers_once, large_tensors, stage_parameters
from estimator.scenario.arrays import is_single, maximum, minimum, where
from estimator.scenario.hardware import Chip, Cluster
from estimator.scenario.plan import Plan
from estimator.scenario.units import Number
from estimator.schedule.micro_batch import Pass


def data_parallel(
    shard: RankMemory, kind: StageKind, one: Pass, plan: Plan, groups: Groups, micro_batches: Number, cluster: Cluster,
    e: Efficiencies,
) -> list[PricedMessage]:  # fmt: skip
    """Price the data parallel exchanges of one stage's rank, dense parameters and experts apart.

    Gather and scatter share the links: what one of them has hidden behind, the next cannot hide behind again.
    """
    once = gathers_once(shard, kind, plan.sharding)
    every = plan.sharding in ("zero2", "zero3", "fsdp") and not once
    times: Number = micro_batches if every else 1
    window: dict[str, Number] = {"forward": one.window_forward_s * times, "backward": one.window_backward_s * times}
    if plan.sharding in WHOLLY_SHARDED:
        # A host that has just waited for a router asks for the next module's parameters when the device comes to them.
        window["forward"] = where(one.part.reads > 0, 0.0, window["forward"])
    share = {"forward": one.products_forward_frac, "backward": one.products_backward_frac}
    dense, expert, _, tensors, expert_tensors = stage_parameters(shard, kind)
    contention = getattr(e, shard.training.traits.contention)
    found = []
    large, expert_large = large_tensors(shard, kind)
    for axis, parameters, count, ranks, matrices in (
        ("dp", dense, tensors, groups.data.ranks, large),
        ("edp", expert, expert_tensors, groups.expert_data.ranks, expert_large),
    ):
        if _nothing(parameters) or is_single(ranks):
            continue
        for message in data_messages(
            axis=axis,
            sharding=plan.sharding,
            numbers=shard.widths,
            parameters=parameters,
            layers=kind.layers,
            tensors=count,
            micro_batches=micro_batches,
            bucket_bytes=plan.bucket_bytes,
            ddp_mode=plan.ddp_mode,
            shard_ranks=groups.shard.ranks if axis == "dp" else groups.expert_data.ranks,
            hybrid=axis == "dp" and plan.shard_ranks > 0,
            in_place=shard.training.traits.in_place_buffers,
            gathered_once=once,
            large=matrices,
        ):
            one_priced = priced(message, groups, cluster, e)
            seconds = where(parameters > 0, one_priced.seconds, 0.0)
            copies = where(one_priced.ranks > 1, _copies_s(message, cluster.rank_chip, e), 0.0)
            # Copies are kernels like those of compute, and take their turn among them; Megatron's run beside it, as the
            # exchange does.
            beside = shard.training.traits.in_place_buffers
            both = seconds + copies if beside else seconds
            exposed_frac: Number = 1.0
            if plan.overlap and message.hides_behind == "compute":
                phase = message.phase
                room = window[phase]
                if message.group == "replica":
                    # Replicas are summed in the last micro-batch's backward only.
                    room = minimum(room, one.window_backward_s)
                left = exposed_s(both, room, share[phase], contention)
                exposed_frac = left / maximum(both, 1e-30)
                window[phase] = maximum(0.0, window[phase] - both)
            found.append(
                replace(
                    one_priced,
                    seconds=seconds,
                    exposed_s=seconds * exposed_frac,
                    copies_exposed_s=copies * exposed_frac if beside else copies,
                )
            )
    return found


def _copies_s(message: Message, chip: Chip, e: Efficiencies) -> Number:
    moved = message.copies_bytes / (chip.memory_bytes_per_s * e.memory_frac)
    cast = message.cast_elements / (chip.compute_units * chip.clock_hz * e.strided_elements_per_unit_cycle)
    return maximum(moved, cast)


def _nothing(parameters: Number) -> bool:
    return parameters == 0 if isinstance(parameters, (int, float)) else not parameters.any()
