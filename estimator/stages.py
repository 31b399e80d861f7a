"""Stages: what each pipeline stage's rank holds and executes, from the network's ops and the plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from estimator.efficiency import Efficiencies
from estimator.memory import StageMemory, block_moments, stage_memory
from estimator.model import (
    embedding_parameters,
    final_norm_parameters,
    small_parameters_per_layer,
)
from estimator.networks.dims import VOCAB_PARALLEL_FRAMEWORKS, Dims, dims
from estimator.networks.transformer import NetworkOps, block, gradient_accumulation, optimizer
from estimator.ops import Op
from estimator.parallel.data import shares
from estimator.parallel.pipeline import in_flight
from estimator.scenario import Scenario


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One rank of one pipeline stage: its ops per micro-batch, its ops once per step, and its parameters."""

    index: int
    layers: int
    first: bool
    last: bool
    dims: Dims
    ops: NetworkOps
    once: tuple[Op, ...]
    accumulation: tuple[Op, ...]
    parameters: float
    linear_parameters: float
    layer_parameters: float
    embedding_parameters: float
    tensors: float

    def executions(self) -> Iterator[tuple[Op, float]]:
        """Yield every op of one micro-batch and how often its block runs on this rank."""
        if self.first:
            for op in self.ops.embedding:
                yield op, 1.0
        for op in self.ops.layer:
            yield op, float(self.layers)
        if self.last:
            for op in self.ops.head:
                yield op, 1.0


def stages(scenario: Scenario, ops: NetworkOps) -> list[Stage]:
    """Lay the network out over the pipeline: equal blocks, the embedding on the first stage, the head on the last."""
    model, plan = scenario.model, scenario.plan
    d = dims(scenario)
    tp = plan.tp
    vocab_tp = tp if scenario.training.framework in VOCAB_PARALLEL_FRAMEWORKS else 1
    layers = model.layers // plan.pp
    # Norms stay whole on every rank; the sliver of biases that tp splits is counted whole too.
    linear_per_layer = _linear_parameters(d)
    layer_parameters = linear_per_layer + small_parameters_per_layer(model)
    tensors_per_layer = _tensors_per_layer(d)
    share = shares(plan.sharding, plan.dp)
    found = []
    for index in range(plan.pp):
        first, last = index == 0, index == plan.pp - 1
        linear = layers * linear_per_layer
        count = layers * layer_parameters
        tensors = layers * tensors_per_layer
        embedding = embedding_parameters(model, scenario.training.seq_len) / vocab_tp if first else 0.0
        count += embedding
        tensors += 1 if first else 0
        if last:
            head = model.vocab * model.hidden / vocab_tp
            # A tied head on another stage than the embedding keeps its own copy of the table.
            count += final_norm_parameters(model) + (0 if model.tied_embedding and first else head)
            linear += head
            tensors += 2
        owned = count * share.optimizer
        found.append(
            Stage(
                index=index,
                layers=layers,
                first=first,
                last=last,
                dims=d,
                ops=ops,
                once=tuple(optimizer(d, owned, tensors)),
                accumulation=tuple(gradient_accumulation(d, count * share.gradients, tensors)),
                parameters=count,
                linear_parameters=linear,
                layer_parameters=layer_parameters,
                embedding_parameters=embedding,
                tensors=tensors,
            )
        )
    return found


def stage_memories(scenario: Scenario, layout: list[Stage], e: Efficiencies) -> list[StageMemory]:
    """Return every stage's memory at its own peak."""
    plan = scenario.plan
    d = layout[0].dims
    inside = block_moments(d, tuple(block(d)))
    share = shares(plan.sharding, plan.dp)
    sharded = plan.sharding in ("zero3", "fsdp") and plan.dp > 1
    return [
        stage_memory(
            d,
            stage=stage.index,
            layers=stage.layers,
            last=stage.last,
            in_flight=in_flight(plan.schedule, stage.index, plan.pp, scenario.micro_batches) if plan.pp > 1 else 1,
            micro_batches=scenario.micro_batches,
            layer_ops=stage.ops.layer,
            moments_of_block=inside,
            head_ops=stage.ops.head,
            parameters=stage.parameters,
            linear_parameters=stage.linear_parameters,
            first_parameters=stage.embedding_parameters + stage.layer_parameters,
            shares=share,
            dp=plan.dp,
            sharding=plan.sharding,
            gathered_bytes=_gathered_bytes(stage, plan.sharding) if sharded else 0.0,
            bucket_bytes=plan.bucket_bytes,
            workspace_bytes=e.workspace_bytes,
        )
        for stage in layout
    ]


def _linear_parameters(d: Dims) -> float:
    """Weights of one block's matrices on one rank; key and value heads are copied where tp exceeds them."""
    attention = 2 * d.query_width + 2 * d.kv_width
    return float(d.hidden * (attention + (3 if d.model.gated_ffn else 2) * d.ffn))


def _gathered_bytes(stage: Stage, sharding: str) -> float:
    """Bytes of whole parameters on a rank under ZeRO-3: blocks at work, and what lies outside the blocks.

    FSDP holds the block at work and the next one; without resharding all blocks stay. One block's unsharded gradient
    comes on top. Embedding, final norm and head form the root unit, which FSDP does not reshard after forward.
    """
    blocks = 2.0 if sharding == "fsdp" else float(stage.layers)
    root = stage.parameters - stage.layers * stage.layer_parameters
    return ((blocks + 1.0) * stage.layer_parameters + root) * stage.dims.numbers.compute


def _tensors_per_layer(d: Dims) -> float:
    model = d.model
    linears = (2 if d.fused_projections else 4) + (1 if d.fused_projections or not model.gated_ffn else 2) + 1
    biases = linears if model.bias else 0
    norms = 2 * (2 if model.norm == "layer" else 1) + (2 if model.qk_norm else 0)
    return float(linears + biases + norms)
