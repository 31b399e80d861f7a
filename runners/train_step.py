"""The thing that is measured: model, data, optimizer and their one training step, in named phases."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch._dynamo  # by the first optimizer else, in the middle of a run
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import record_function

from estimator.scenario.breakdown import Phase
from estimator.scenario.plan import Plan
from estimator.scenario.scenario import Scenario
from estimator.scenario.training import Training
from runners.model.training import autocast, batch, loss_of, optimizer_of
from runners.model.transformer import Share, build
from runners.ranks import Ranks

TORCH_BUCKET_BYTES = 25 * 1024 * 1024
GRAPH_WARMUP = 3
"""Steps in a stream of their own before capture, in which libraries make what a graph must not."""


@dataclass(kw_only=True)
class Trainer:
    """What one training step needs; ``phase`` says where in a step the process is, for failures.

    ``loss_of`` gives the loss of a batch. ``scores`` is (sequences · heads, length) where attention's products are
    known by them. ``exchange`` and ``pipeline`` are those of plans that are more than DistributedDataParallel.
    ``scenario`` is None where a program of somebody else's is measured.
    """

    module: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler | None
    batches: list[Any]
    loss_of: Callable[[Any], Tensor]
    ranks: Ranks
    scenario: Scenario | None = None
    scores: tuple[int, int] | None = None
    fused: bool = False
    mode: str = "step"
    exchange: Any = None
    pipeline: Any = None
    graphs: list[tuple[str, torch.cuda.CUDAGraph]] = field(default_factory=list)
    phase: str = "build"
    loss: Tensor | None = None


def prepare(
    scenario: Scenario,
    ranks: Ranks,
    seed: int,
    *,
    mode: str = "step",
    graph: bool = False,
) -> Trainer:
    """Build model, data and optimizer on this rank's device; parameters are equal on all ranks, data are not.

    ``mode`` says how much of a step runs: forward (which keeps nothing for a backward), forward-backward, or step.
    ``graph`` is for ``capture`` later. Experts run as ``training.experts`` says, by default one after another unless
    compiled.
    """
    model, plan, training = scenario.model, scenario.plan, scenario.training
    torch.set_float32_matmul_precision("high" if training.precision == "tf32" else "highest")
    way = ("grouped" if training.fused else "loop") if training.experts == "default" else training.experts
    if ranks.world_size > 1 and not is_plain(plan):
        return _under_plan(scenario, ranks, seed, mode=mode, way=way)
    torch.manual_seed(seed)
    module: nn.Module = build(model, training, plan, ranks.device, Share(blocks=range(model.layers), way=way))
    if ranks.world_size > 1:
        module = DistributedDataParallel(
            module,
            device_ids=[torch.device(ranks.device).index] if ranks.cuda else None,
            # None is PyTorch's own default, which also makes the first bucket small
            bucket_cap_mb=None if plan.bucket_bytes == TORCH_BUCKET_BYTES else plan.bucket_bytes / 1024**2,
        )
    if training.fused:
        module.compile()
    torch.manual_seed(seed + 1 + ranks.rank)
    return Trainer(
        module=module,
        optimizer=optimizer_of(module, training, capturable=graph),
        scaler=torch.amp.GradScaler(ranks.device.partition(":")[0]) if training.precision == "fp16-amp" else None,
        batches=[batch(model, training, plan, ranks.device) for _ in range(scenario.micro_batches)],
        loss_of=partial(_loss_of, module, training, ranks.device, scenario.micro_batches),
        scenario=scenario,
        scores=_scores(scenario),
        fused=training.fused,
        ranks=ranks,
        mode=mode,
    )


def is_plain(plan: Plan) -> bool:
    """Whether a plan is data parallelism alone, as DistributedDataParallel does it."""
    bucketed = plan.sharding == "ddp" and plan.ddp_mode == "bucketed" and plan.overlap
    return plan.tp == plan.pp == plan.cp == plan.ep == 1 and bucketed


def _under_plan(scenario: Scenario, ranks: Ranks, seed: int, *, mode: str, way: str) -> Trainer:
    from runners.parallel.plan import prepare as prepare_plan  # DTensor takes as long to import as all of torch

    built = prepare_plan(scenario, ranks, seed, way=way)
    return Trainer(
        module=built.module,
        optimizer=built.optimizer,
        scaler=None,
        batches=built.batches,
        loss_of=partial(_loss_of, built.module, built.training, ranks.device, scenario.micro_batches),
        scenario=scenario,
        scores=_scores(scenario),
        fused=scenario.training.fused,
        ranks=ranks,
        mode=mode,
        exchange=built.exchange,
        pipeline=built.pipeline,
    )


def one_step(trainer: Trainer, done: Callable[[str], None], *, communicate: bool = True) -> None:
    """Run one training step, calling ``done`` with each phase's name once its work is launched.

    Gradients of all micro-batches but the last stay local, as is usual; without ``communicate`` those of the last too.
    """
    if trainer.graphs:
        for name, graph in trainer.graphs:
            with _phase(trainer, name):
                graph.replay()
            done(name)
        return
    for index, batch_ in enumerate(trainer.batches if trainer.pipeline is None else ()):
        last = index == len(trainer.batches) - 1
        with _gradients(trainer, last, communicate):
            with _phase(trainer, Phase.FORWARD):
                loss = _forward(trainer, batch_)
            done(Phase.FORWARD)
            if trainer.mode != "forward":
                with _phase(trainer, Phase.BACKWARD):
                    _backward(trainer, loss)
                done(Phase.BACKWARD)
        trainer.loss = loss.detach()
        del loss
    if trainer.pipeline is not None:
        trainer.exchange.micro_batch(False)
        trainer.loss = trainer.pipeline.step(done, partial(setattr, trainer, "phase"))
    if trainer.mode == "forward":
        return
    if trainer.exchange is not None:
        with _phase(trainer, Phase.BACKWARD):
            if trainer.pipeline is not None:
                trainer.pipeline.sum_tied()
            trainer.exchange.finish()
        done(Phase.BACKWARD)
    last_phase = Phase.OPTIMIZER if trainer.mode == "step" else Phase.BACKWARD
    with _phase(trainer, last_phase):
        if trainer.mode == "step":
            _update(trainer)
        trainer.optimizer.zero_grad(set_to_none=True)
    done(last_phase)


def capture(trainer: Trainer) -> None:
    """Record the phases of a step as CUDA graphs, which ``one_step`` replays from then on.

    Gradients stay where the graphs write them: the first backward of a replay overwrites, later ones add.
    """
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(GRAPH_WARMUP):
            one_step(trainer, lambda phase: None)
    torch.cuda.current_stream().wait_stream(stream)
    pool = torch.cuda.graph_pool_handle()
    graphs: list[tuple[str, torch.cuda.CUDAGraph]] = []

    def recorded(name: str, work: Callable[[], Any]) -> Any:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            made = work()
        graphs.append((name, graph))
        return made

    for pair in trainer.batches:
        loss = recorded(Phase.FORWARD, partial(_forward, trainer, pair))
        if trainer.mode != "forward":
            recorded(Phase.BACKWARD, partial(_backward, trainer, loss))
        trainer.loss = loss.detach()
        del loss
    if trainer.mode == "step":
        recorded(Phase.OPTIMIZER, partial(_update, trainer))
    trainer.graphs = graphs


def discard(trainer: Trainer) -> None:
    """Give the memory of a trainer back, for benchmarks that build many."""
    trainer.graphs.clear()
    trainer.batches.clear()
    trainer.exchange = trainer.pipeline = None
    trainer.loss = None
    empty(trainer.module, trainer.optimizer)


def empty(module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Free parameters, gradients and states, also where something still refers to them, as hooks on tensors do."""
    optimizer.state.clear()
    for parameter in module.parameters():
        parameter.grad = None
        to_local = getattr(parameter, "to_local", None)  # a DTensor's; importing its class takes as long as torch
        local = to_local() if to_local else parameter
        local.untyped_storage().resize_(0)


def _forward(trainer: Trainer, batch_: Any) -> Tensor:
    with torch.set_grad_enabled(trainer.mode != "forward"):
        return trainer.loss_of(batch_)


def _loss_of(module: nn.Module, training: Training, device: str, count: int, pair: tuple[Tensor, Tensor]) -> Tensor:
    with autocast(training, device):
        loss = loss_of(module, *pair)
        return loss / count if count > 1 else loss


def _scores(scenario: Scenario) -> tuple[int, int]:
    return scenario.plan.micro_batch * scenario.model.heads, scenario.training.seq_len


def _backward(trainer: Trainer, loss: Tensor) -> None:
    torch.autograd.backward(loss if trainer.scaler is None else trainer.scaler.scale(loss))


def _update(trainer: Trainer) -> None:
    if trainer.scaler is None:
        trainer.optimizer.step()
    else:
        trainer.scaler.step(trainer.optimizer)
        trainer.scaler.update()


def _gradients(trainer: Trainer, last: bool, communicate: bool) -> AbstractContextManager[Any]:
    """What surrounds a micro-batch: gradients of all but the last stay local."""
    if trainer.exchange is not None:
        context: AbstractContextManager[Any] = trainer.exchange.micro_batch(last)
        return context
    local = not (last and communicate)
    return trainer.module.no_sync() if local and isinstance(trainer.module, DistributedDataParallel) else nullcontext()


def _phase(trainer: Trainer, name: str) -> AbstractContextManager[Any]:
    trainer.phase = name
    return record_function(f"phase:{name}")
