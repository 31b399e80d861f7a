"""Stages: a plan's pipeline through torch.distributed.pipelining, one or more stages of blocks on each rank.

GPipe: Huang 2018 (arXiv 1811.06965); 1F1B and interleaving: Narayanan 2021 (arXiv 2104.04473) section 2.2; zero bubble:
Qi 2023 (arXiv 2401.10241), its V: Qi 2024 (arXiv 2405.15362).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from inspect import signature
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.distributed import pipelining
from torch.distributed.pipelining import PipelineStage
from torch.profiler import record_function

from estimator.scenario.breakdown import Phase
from estimator.scenario.plan import Plan
from runners.model.transformer import Transformer
from runners.parallel.data import local_gradient
from runners.parallel.mesh import Axis
from runners.row_status import Unsupported

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


def stages_of(schedule: str, rank: int, world: int, per_rank: int) -> list[int]:
    """Which stages a rank holds: every ``world``-th of them, for the V one from each end."""
    if schedule == "zero-bubble-v":
        return [rank, 2 * world - 1 - rank]
    return [rank + world * turn for turn in range(per_rank)]


def blocks_of(stage: int, stages: int, layers: int) -> range:
    """Blocks of one stage: ⌈layers / stages⌉, one less in as many stages as that is too much.

    The last goes short first, because it has the head, then the first, which has the embedding, then those before the
    last.
    """
    full = -(-layers // stages)
    short = full * stages - layers
    order = [stages - 1, 0, *range(stages - 2, 0, -1)]
    lighter = set(order[:short])
    counts = [full - (index in lighter) for index in range(stages)]
    return range(sum(counts[:stage]), sum(counts[: stage + 1]))


def chunks_per_rank(plan: Plan) -> int:
    """Stages on each rank."""
    return 2 if plan.schedule == "zero-bubble-v" else plan.virtual_stages


class Stage(nn.Module):
    """A share of the transformer as a pipeline calls it, under the step's autocast."""

    def __init__(self, part: Transformer, context: Callable[[], AbstractContextManager[Any]]) -> None:
        super().__init__()
        self.part, self.context = part, context

    def forward(self, x: Tensor) -> Tensor:
        """Tokens or hidden states to hidden states or logits."""
        with self.context():
            y: Tensor = self.part(x)
            return y


class Pipeline:
    """This rank's stages and their schedule; ``step`` runs forward and backward of all micro-batches."""

    def __init__(
        self,
        parts: list[tuple[int, Stage]],
        *,
        plan: Plan,
        axis: Axis,
        device: str,
        micro_batches: int,
        context: Callable[[], AbstractContextManager[Any]],
        batch: tuple[Tensor, Tensor],
    ) -> None:
        count = plan.pp * chunks_per_rank(plan)
        assert parts
        self.first = next((stage.part for index, stage in parts if index == 0), None)
        self.last = next((stage.part for index, stage in parts if index == count - 1), None)
        if self.first is not None and self.last is not None and self.first.model.tied_embedding:
            assert self.first.embedding is not None
            assert self.last.head is not None
            self.last.head.weight = self.first.embedding.weight
        self.tokens, self.targets = batch
        self.done: Callable[[str], None] = lambda phase: None
        self.note: Callable[[str], None] = lambda phase: None
        stages = [PipelineStage(stage, index, count, torch.device(device), group=axis.group) for index, stage in parts]
        for stage in stages:
            for name, phase in CHUNKS.items():
                setattr(stage, name, self._marked(getattr(stage, name), phase))
        cls = getattr(pipelining, CLASSES[plan.schedule], None)
        if cls is None:
            raise Unsupported(f"this PyTorch has no {CLASSES[plan.schedule]}")

        def loss_of_logits(logits: Tensor, targets: Tensor) -> Tensor:
            with context():
                return F.cross_entropy(logits.flatten(0, 1), targets.flatten()) / micro_batches

        given: Any = stages[0] if plan.schedule in SINGLE else stages
        # Its own scaling would divide a table that two stages of a rank share twice
        self.schedule = cls(given, n_microbatches=micro_batches, loss_fn=loss_of_logits, scale_grads=False)
        # Or the last stage keeps every micro-batch's logits until the next step, and joins them
        self.silent = {"return_outputs": False} if "return_outputs" in signature(cls.step).parameters else {}
        self.tie = _tie(self.first, self.last, plan, axis)

    def step(self, done: Callable[[str], None], note: Callable[[str], None]) -> Tensor | None:
        """Forward and backward; ``done`` is called before and after each chunk, the time before one being bubble."""
        self.done, self.note = done, note
        losses: list[Tensor] = []
        values: dict[str, Any] = {"target": self.targets, "losses": losses} if self.last is not None else {}
        self.schedule.step(*((self.tokens,) if self.first is not None else ()), **values, **self.silent)
        self.done(Phase.BUBBLE)
        return torch.stack([loss.detach() for loss in losses]).sum() if losses else None

    def sum_tied(self) -> None:
        """Add up the gradients of an embedding and of the head on another rank that is its copy."""
        for part, weight in ((self.first, "embedding"), (self.last, "head")):
            if self.tie is not None and part is not None:
                dist.all_reduce(local_gradient(getattr(part, weight).weight), group=self.tie)

    def _marked(self, call: Callable[..., Any], phase: str) -> Callable[..., Any]:
        def marked(*arguments: Any, **named: Any) -> Any:
            self.done(Phase.BUBBLE)
            self.note(phase)
            with record_function(f"phase:{phase}"):
                found = call(*arguments, **named)
            self.done(phase)
            return found

        return marked


def _tie(first: Transformer | None, last: Transformer | None, plan: Plan, axis: Axis) -> dist.ProcessGroup | None:
    """The two ranks of this pipeline that hold a tied table, where they are two; made on all ranks."""
    ends = (0, 0 if plan.schedule == "zero-bubble-v" else axis.size - 1)
    mine = torch.tensor([dist.get_global_rank(axis.group, end) for end in ends])
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    every = [pair.to(device) for pair in every]
    dist.all_gather(every, mine.to(device))
    pairs = sorted({tuple(int(rank) for rank in pair) for pair in every})
    tied = any(part is not None and part.model.tied_embedding for part in (first, last))
    found = None
    for pair in pairs:
        if pair[0] == pair[1]:
            continue
        group = _group(pair)
        if dist.get_rank() in pair and tied:
            found = group
    return found


_GROUPS: dict[tuple[int, ...], Any] = {}


def _group(pair: tuple[int, ...]) -> Any:
    if pair not in _GROUPS:
        _GROUPS[pair] = dist.new_group(list(pair))
    return _GROUPS[pair]
