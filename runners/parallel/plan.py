"""One training step under a plan: this rank's share of the model, its optimizer, and what it exchanges.

Built of torch's own parts: DTensor for tensor parallelism, fully_shard for ZeRO-3 and FSDP,
torch.distributed.pipelining for pipelines.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from estimator.scenario.scenario import Scenario
from estimator.scenario.training import Training
from runners.model.experts import Experts
from runners.model.training import AUTOCAST_DTYPES, autocast, batch, optimizer_of
from runners.model.transformer import Share, Transformer, build
from runners.parallel.context import places, share_sequences
from runners.parallel.data import Averaged, Exchange, ShardedOptimizer, ShardedStates, all_reduced
from runners.parallel.experts import dispatch_over
from runners.parallel.mesh import Mesh, mesh_of
from runners.parallel.stages import Pipeline, Stage, blocks_of, chunks_per_rank, stages_of
from runners.parallel.tensor import ByLayout, split
from runners.ranks import Ranks

SHARDED = ("zero3", "fsdp")


@dataclass(kw_only=True)
class Built:
    """A step on one rank; ``training`` is what its loss is computed under, without autocast where FSDP casts."""

    module: nn.Module
    optimizer: torch.optim.Optimizer
    batches: list[tuple[Tensor, Tensor]]
    exchange: Exchange
    pipeline: Pipeline | None
    training: Training


def prepare(scenario: Scenario, ranks: Ranks, seed: int, *, way: str) -> Built:
    """Build this rank's share; parameters are those of one process, data differ along dp alone."""
    model, plan, training = scenario.model, scenario.plan, scenario.training
    mesh = mesh_of(plan, ranks)
    indices = stages_of(plan.schedule, mesh.pp.rank, plan.pp, chunks_per_rank(plan)) if plan.pp > 1 else [0]
    count = plan.pp * chunks_per_rank(plan) if plan.pp > 1 else 1
    parts = []
    for index in indices:
        share = Share(
            blocks=blocks_of(index, count, model.layers),
            embedding=index == 0,
            head=index == count - 1,
            experts=mesh.experts.rank,
            of=plan.ep,
            way=way,
            cp=plan.cp,
        )
        torch.manual_seed(seed)
        parts.append(build(model, training, plan, ranks.device, share))
    if model.tied_embedding and len(parts) > 1 and parts[0].embedding and parts[-1].head:
        parts[-1].head.weight = parts[0].embedding.weight
    for part in parts:
        _divide(part, scenario, mesh, ranks)
    if training.fused:
        for part in parts:
            for block in part.blocks.values():
                block.compile()
    if plan.sharding in SHARDED:
        training = _without_autocast(training)
    torch.manual_seed(seed + 1 + mesh.dp.rank)
    batches = [batch(model, training, plan, ranks.device) for _ in range(scenario.micro_batches)]
    if plan.cp > 1:
        own = places(plan.cp_kind, training.seq_len, mesh.cp).to(ranks.device)
        batches = [(tokens[:, own].contiguous(), targets[:, own].contiguous()) for tokens, targets in batches]
    context = partial(autocast, training, ranks.device)
    pipeline, module = None, _one(parts)
    if plan.pp > 1:
        stages = [Stage(part, context) for part in parts]
        pipeline = _pipeline(list(zip(indices, stages, strict=True)), scenario, mesh, ranks, context, batches)
    exchange, optimizer = _states(module, scenario, mesh)
    return Built(
        module=module, optimizer=optimizer, batches=batches, exchange=exchange, pipeline=pipeline, training=training
    )


def _one(parts: list[Transformer]) -> nn.Module:
    return parts[0] if len(parts) == 1 else nn.ModuleList(parts)


def _pipeline(
    stages: list[tuple[int, Stage]],
    scenario: Scenario,
    mesh: Mesh,
    ranks: Ranks,
    context: Callable[[], AbstractContextManager[Any]],
    batches: list[tuple[Tensor, Tensor]],
) -> Pipeline:
    together = (torch.cat([pair[0] for pair in batches]), torch.cat([pair[1] for pair in batches]))
    return Pipeline(
        stages,
        plan=scenario.plan,
        axis=mesh.pp,
        device=ranks.device,
        micro_batches=scenario.micro_batches,
        context=context,
        batch=together,
    )


def _divide(part: Transformer, scenario: Scenario, mesh: Mesh, ranks: Ranks) -> None:
    """Put into a share of the model what its ranks divide among them."""
    plan, training = scenario.plan, scenario.training
    if plan.cp > 1:
        share_sequences(part, plan, mesh.cp, training.seq_len, ranks.device)
    if plan.ep > 1:
        for module in part.modules():
            if isinstance(module, Experts):
                module.dispatch = dispatch_over(mesh.experts)
    if plan.tp > 1:
        split(part, mesh.states["tp"], sequence_parallel=plan.sequence_parallel, split_vocabulary=False)
    if plan.sharding in SHARDED:
        _fully_shard(part, scenario, mesh)


def _fully_shard(part: Transformer, scenario: Scenario, mesh: Mesh) -> None:
    """fully_shard of every block and of the rest (Zhao 2023, arXiv 2304.11277; FSDP2 of PyTorch).

    Under autocast precisions it gathers and computes in 2 bytes and reduces in 4. Experts that no other rank holds have
    nothing to shard.
    """
    plan = scenario.plan
    dtype = AUTOCAST_DTYPES.get(scenario.training.precision)
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32) if dtype else MixedPrecisionPolicy()
    states = mesh.states["replica", "shard"] if mesh.replica.size > 1 else mesh.states["shard"]
    own = set(_of_experts(part)) if plan.ep * plan.tp > 1 else set()
    for module in (*part.blocks.values(), part):
        fully_shard(
            module, mesh=states, mp_policy=policy, reshard_after_forward=plan.sharding == "fsdp", ignored_params=own
        )


def _states(module: nn.Module, scenario: Scenario, mesh: Mesh) -> tuple[Exchange, torch.optim.Optimizer]:
    """How gradients of this rank's parameters meet, and who updates them."""
    plan, training = scenario.plan, scenario.training
    own = _of_experts(module) if plan.ep * plan.tp > 1 else []
    ids = {id(parameter) for parameter in own}
    dense = [parameter for parameter in module.parameters() if id(parameter) not in ids]
    beside = plan.overlap and plan.pp == 1
    of_experts = Averaged(parameters=own, axis=mesh.expert_data, divisor=mesh.data.size)
    how: dict[str, Any] = {"mode": plan.ddp_mode, "bucket_bytes": plan.bucket_bytes, "beside_backward": beside}
    if plan.sharding in SHARDED:
        return all_reduced([of_experts], **how), optimizer_of(ByLayout(module), training)
    if plan.sharding == "ddp" or mesh.data.size == 1:
        averaged = [Averaged(parameters=dense, axis=mesh.data, divisor=mesh.data.size), of_experts]
        return all_reduced(averaged, **how), optimizer_of(ByLayout(module), training)
    states = ShardedStates(
        module,
        dense,
        shard=mesh.shard,
        replica=mesh.replica,
        divisor=mesh.data.size,
        bucket_bytes=plan.bucket_bytes,
        keeps_gradients=plan.sharding == "zero1",
        beside_backward=beside,
    )
    rest = optimizer_of(nn.ParameterList(own), training) if own else None
    optimizer = ShardedOptimizer(optimizer_of(states.owned(), training), rest, states)
    return _both(states.exchange, all_reduced([of_experts], **how)), optimizer


def _both(one: Exchange, other: Exchange) -> Exchange:
    def micro_batch(last: bool) -> AbstractContextManager[Any]:
        one.micro_batch(last)
        return other.micro_batch(last)

    def finish() -> None:
        one.finish()
        other.finish()

    return Exchange(micro_batch=micro_batch, finish=finish)


def _of_experts(module: nn.Module) -> list[nn.Parameter]:
    """Parameters of the routed experts alone, their router left out."""
    found: list[nn.Parameter] = []
    for part in module.modules():
        if isinstance(part, Experts):
            router = {id(parameter) for parameter in part.router.parameters()}
            found += [parameter for parameter in part.parameters() if id(parameter) not in router]
    return found


def _without_autocast(training: Training) -> Training:
    return replace(training, precision="fp32") if training.precision in AUTOCAST_DTYPES else training
