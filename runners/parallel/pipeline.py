"""The ``ddp`` benchmark's pipelines: the stages of a plan whose only axis is pp."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from estimator.scenario.breakdown import Phase
from runners.model.training import autocast, batch, optimizer_of
from runners.model.transformer import Share, build
from runners.parallel.mesh import mesh_of
from runners.parallel.stages import SINGLE, Pipeline, Stage, blocks_of, chunks_per_rank, stages_of
from runners.parallel.variants import Marks, Spread, Variant, VariantSetting, held
from runners.ranks import Ranks
from runners.row_status import Unsupported
from runners.timing import stamp
from runners.train_step import empty


def prepare(variant: Variant, setting: VariantSetting, ranks: Ranks) -> Spread:
    """Build this rank's stages and their schedule; raise Unsupported where they do not fit."""
    model, training, world = setting.model, setting.training, ranks.world_size
    if variant.schedule in SINGLE and variant.virtual_stages > 1:
        raise Unsupported(f"{variant.schedule} has one stage per rank")
    if variant.schedule == "zero-bubble-v" and variant.virtual_stages != 2:
        raise Unsupported("zero-bubble-v has two stages per rank")
    plan = replace(setting.plan, pp=world, schedule=variant.schedule, virtual_stages=variant.virtual_stages)
    count = world * chunks_per_rank(plan)
    if model.layers < count:
        raise Unsupported(f"{count} stages are more than {model.layers} layers")
    if variant.schedule != "gpipe" and variant.micro_batches < world:
        raise Unsupported(f"{variant.schedule} needs at least {world} micro-batches")
    mesh = mesh_of(plan, ranks)
    context = partial(autocast, training, ranks.device)
    parts = []
    for index in stages_of(plan.schedule, mesh.pp.rank, world, chunks_per_rank(plan)):
        share = Share(blocks=blocks_of(index, count, model.layers), embedding=index == 0, head=index == count - 1)
        torch.manual_seed(setting.seed)
        parts.append((index, Stage(build(model, training, setting.plan, ranks.device, share), context)))
    torch.manual_seed(setting.seed + 1)  # the first rank's tokens and the last one's targets are of one batch
    whole = replace(setting.plan, micro_batch=setting.plan.micro_batch * variant.micro_batches)
    pipeline = Pipeline(
        parts,
        plan=plan,
        axis=mesh.pp,
        device=ranks.device,
        micro_batches=variant.micro_batches,
        context=context,
        batch=batch(model, training, whole, ranks.device),
    )
    module = nn.ModuleList(stage for _, stage in parts)
    optimizer = optimizer_of(module, training)
    last: list[Tensor] = []

    def step(marks: Marks, communicate: bool) -> None:
        del communicate
        before = stamp(ranks.cuda)

        def done(phase: str) -> None:
            nonlocal before
            now = stamp(ranks.cuda)
            marks.spans.append((phase, before, now))
            before = now

        loss = pipeline.step(done, lambda phase: None)
        last[:] = [] if loss is None else [loss]
        with marks.phase(Phase.BACKWARD):
            pipeline.sum_tied()
        with marks.phase(Phase.OPTIMIZER):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return Spread(
        step=step,
        silent=False,
        global_batch=whole.micro_batch,
        parameters=held(module),
        last_loss=lambda: last[0] if last else None,
        discard=partial(empty, module, optimizer),
    )
