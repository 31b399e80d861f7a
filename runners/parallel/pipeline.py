"""Pipeline parallel training through torch.distributed.pipelining: one or more stages of blocks per rank.

GPipe: Huang 2018 (arXiv 1811.06965); 1F1B and interleaving: Narayanan 2021 (arXiv 2104.04473) section 2.2; zero bubble:
Qi 2023 (arXiv 2401.10241), its V: Qi 2024 (arXiv 2405.15362).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.distributed import pipelining
from torch.distributed.pipelining import PipelineStage

from estimator.scenario.breakdown import Phase
from runners.model.training import autocast, batch, optimizer_of
from runners.model.transformer import Transformer, build
from runners.parallel.variants import Marks, Spread, Variant, VariantSetting, held
from runners.ranks import Ranks
from runners.row_status import Unsupported
from runners.train_step import empty

CLASSES = {
    "gpipe": "ScheduleGPipe",
    "1f1b": "Schedule1F1B",
    "interleaved": "ScheduleInterleaved1F1B",
    "zero-bubble": "ScheduleInterleavedZeroBubble",
    "zero-bubble-v": "ScheduleZBVZeroBubble",
}
SINGLE = ("gpipe", "1f1b")
"""Schedules that take one stage; the others take a list of them."""

CHUNKS = {
    "forward_one_chunk": Phase.FORWARD,
    "backward_one_chunk": Phase.BACKWARD,
    "backward_weight_one_chunk": Phase.BACKWARD,
}
"""What a stage does for one micro-batch, by PipelineStage's names, and the phase that it belongs to."""


class Stage(nn.Module):
    """Some blocks of the transformer, with the embedding where they are the first and the head where the last."""

    def __init__(self, setting: VariantSetting, index: int, count: int, device: str) -> None:
        super().__init__()
        layers = setting.model.layers // count
        torch.manual_seed(setting.seed + index)
        whole = build(replace(setting.model, layers=layers), setting.training, setting.plan, device)
        assert isinstance(whole, Transformer)
        self.first, self.last = index == 0, index == count - 1
        if not self.first:
            whole.embedding, whole.positions = None, None  # type: ignore[assignment]
        if not self.last:
            whole.norm, whole.head = None, None  # type: ignore[assignment]
        self.part, self.context = whole, (setting.training, device)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens or hidden states to hidden states or logits."""
        part = self.part
        with autocast(*self.context):
            if self.first:
                x = part.embedding(x)
                if part.positions is not None:
                    x = x + part.positions(torch.arange(x.shape[1], device=x.device).unsqueeze(0))
            rotary = part.rotary(x) if part.model.position == "rope" else None
            bias = part.score_bias(x)
            for block in part.blocks:
                x = block(x, rotary, bias)
            if self.last:
                logits: Tensor = part.head(part.norm(x))
                return logits
        return x


def prepare(variant: Variant, setting: VariantSetting, ranks: Ranks) -> Spread:
    """Build this rank's stages and their schedule; raise Unsupported where they do not fit."""
    per_rank, world = variant.virtual_stages, ranks.world_size
    if setting.model.tied_embedding:
        raise Unsupported("a head that is the embedding lies on another rank than it")
    if variant.schedule in SINGLE and per_rank > 1:
        raise Unsupported(f"{variant.schedule} has one stage per rank")
    if variant.schedule == "zero-bubble-v" and per_rank != 2:
        raise Unsupported("zero-bubble-v has two stages per rank")
    count = per_rank * world
    if setting.model.layers % count:
        raise Unsupported(f"{count} stages do not divide {setting.model.layers} layers")
    if variant.schedule != "gpipe" and variant.micro_batches < world:
        raise Unsupported(f"{variant.schedule} needs at least {world} micro-batches")
    stages = _stages(variant, setting, ranks, count)
    schedule = _schedule(variant, [stage for stage, _ in stages])
    module = nn.ModuleList(part for _, part in stages)
    optimizer = optimizer_of(module, setting.training)
    plan = replace(setting.plan, micro_batch=setting.plan.micro_batch * variant.micro_batches)
    torch.manual_seed(setting.seed + 1)  # the first rank's tokens and the last one's targets are of one batch
    tokens, targets = batch(setting.model, setting.training, plan, ranks.device)
    has_first = any(part.first for _, part in stages)
    has_last = any(part.last for _, part in stages)
    current: list[Marks] = []
    last: list[Tensor] = []
    for stage, _ in stages:
        for name, phase in CHUNKS.items():
            setattr(stage, name, _marked(getattr(stage, name), phase, current))

    def step(marks: Marks, communicate: bool) -> None:
        del communicate
        current[:] = [marks]
        losses: list[Tensor] = []
        values: dict[str, Any] = {"target": targets, "losses": losses} if has_last else {}
        schedule.step(*((tokens,) if has_first else ()), **values)
        last[:] = [torch.stack(losses).mean().detach()] if losses else []
        with marks.phase(Phase.OPTIMIZER):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return Spread(
        step=step,
        silent=False,
        global_batch=plan.micro_batch,
        parameters=held(module),
        last_loss=lambda: last[0] if last else None,
        discard=partial(empty, module, optimizer),
    )


def stages_of(schedule: str, rank: int, world: int, per_rank: int) -> list[int]:
    """Which stages a rank holds: every ``world``-th of them, for the V one from each end."""
    if schedule == "zero-bubble-v":
        return [rank, 2 * world - 1 - rank]
    return [rank + world * turn for turn in range(per_rank)]


def loss_of_logits(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy over all positions of one micro-batch."""
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def _stages(variant: Variant, setting: VariantSetting, ranks: Ranks, count: int) -> list[tuple[PipelineStage, Stage]]:
    found = []
    for index in stages_of(variant.schedule, ranks.rank, ranks.world_size, variant.virtual_stages):
        part = Stage(setting, index, count, ranks.device)
        found.append((PipelineStage(part, index, count, torch.device(ranks.device)), part))
    return found


def _schedule(variant: Variant, stages: list[PipelineStage]) -> Any:
    cls = getattr(pipelining, CLASSES[variant.schedule], None)
    if cls is None:
        raise Unsupported(f"this PyTorch has no {CLASSES[variant.schedule]}")
    given: Any = stages[0] if variant.schedule in SINGLE else stages
    return cls(given, n_microbatches=variant.micro_batches, loss_fn=loss_of_logits)


def _marked(call: Callable[..., Any], phase: str, current: list[Marks]) -> Callable[..., Any]:
    def marked(*arguments: Any, **named: Any) -> Any:
        with current[0].phase(phase):
            return call(*arguments, **named)

    return marked
