"""Ways to spread one model's training over ranks, as data, and what each of them gives the ``ddp`` benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import record_function

from estimator.scenario.breakdown import Phase
from estimator.scenario.model import Model
from estimator.scenario.plan import Plan
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.training import Training
from runners.ranks import Ranks
from runners.refusals import model_refusals
from runners.row_status import Unsupported
from runners.timing import between, stamp

MIB = 2**20
EXCHANGE = "communication"
"""A mark of steps whose exchange follows backward, beside the marks of the phases."""
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero-bubble", "zero-bubble-v")

MAKERS = {
    "single": "runners.parallel.gradients",
    "naive": "runners.parallel.gradients",
    "flat": "runners.parallel.gradients",
    "overlapped": "runners.parallel.gradients",
    "bucketed": "runners.parallel.gradients",
    "torch-ddp": "runners.parallel.gradients",
    "fsdp": "runners.parallel.sharded",
    "zero1": "runners.parallel.sharded",
    "tp": "runners.parallel.tensor",
    "pp": "runners.parallel.pipeline",
}
"""Modules whose ``prepare(variant, setting, ranks)`` builds that way, by its name."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way; ``text`` is how a user writes it, such as ``bucketed:25`` or ``pp:1f1b:8``."""

    text: str
    kind: str
    bucket_bytes: int = 25 * MIB
    reshard: bool = True
    mixed: bool = False
    sequence_parallel: bool = False
    schedule: str = "1f1b"
    micro_batches: int = 4
    virtual_stages: int = 1


@dataclass(frozen=True, kw_only=True)
class VariantSetting:
    """What is trained: model, numbers, sequences per rank and micro-batch, and the seed."""

    model: Model
    training: Training
    plan: Plan
    seed: int


@dataclass(kw_only=True)
class Marks:
    """Times of one step by phase, as stamps in the order in which the host passed them."""

    cuda: bool
    spans: list[tuple[str, Any, Any]] = field(default_factory=list)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what happens inside to ``name``, and mark it in a profiler's trace."""
        begin = stamp(self.cuda)
        with record_function(f"phase:{name}"):
            yield
        self.spans.append((name, begin, stamp(self.cuda)))

    def seconds(self) -> dict[str, float]:
        """Sum of each phase; on a GPU all work must have ended."""
        found: dict[str, float] = {}
        for name, begin, end in self.spans:
            found[name] = found.get(name, 0.0) + between(begin, end)
        return found


@dataclass(kw_only=True)
class Spread:
    """A model spread over ranks: ``step`` does one training step, its phases marked.

    ``step(marks, False)`` leaves the gradients where they are, if ``silent`` says that it can. ``global_batch`` is how
    many sequences a step takes over all ranks, ``parameters`` how many numbers this rank holds; ``discard`` frees it.
    """

    step: Callable[[Marks, bool], None]
    silent: bool
    global_batch: int
    parameters: int
    last_loss: Callable[[], Tensor | None]
    discard: Callable[[], None]


def parse(text: str) -> Variant:
    """Read how a user writes a variant; raise InputProblems."""
    kind, *words = text.split(":")
    values: dict[str, Any] = {"text": text, "kind": kind}
    if kind not in MAKERS:
        _refuse(text, f"{kind!r} is not known", f"Start with one of: {', '.join(MAKERS)}.")
    for word in words:
        if word.isdigit() and int(word) > 0 and kind in ("bucketed", "torch-ddp"):
            values["bucket_bytes"] = int(word) * MIB
        elif word.isdigit() and int(word) > 0 and kind == "pp":
            values["micro_batches"] = int(word)
        elif word.startswith("v") and word[1:].isdigit() and int(word[1:]) > 0 and kind == "pp":
            values["virtual_stages"] = int(word[1:])
        elif word in SCHEDULES and kind == "pp":
            values["schedule"] = word
        elif (kind, word) in FLAGS:
            values |= FLAGS[kind, word]
        else:
            known = ", ".join(flag for maker, flag in FLAGS if maker == kind) or "a bucket in MiB"
            if kind == "pp":
                known = f"a schedule ({', '.join(SCHEDULES)}), a number of micro-batches, v2 for two stages per rank"
            _refuse(text, f"{word!r} is not known", f"After {kind}: may stand {known}.")
    if values.get("schedule") in ("interleaved", "zero-bubble-v"):
        values.setdefault("virtual_stages", 2)
    return Variant(**values)


FLAGS: dict[tuple[str, str], dict[str, Any]] = {
    ("fsdp", "no-reshard"): {"reshard": False},
    ("fsdp", "mixed"): {"mixed": True},
    ("tp", "sequence"): {"sequence_parallel": True},
}


def prepare(variant: Variant, setting: VariantSetting, ranks: Ranks) -> Spread:
    """Build a variant on this rank; raise Unsupported where it does not fit model or machine."""
    refused = model_refusals(setting.model, dense=True)
    if refused:
        raise Unsupported("; ".join(str(problem) for problem in refused))
    if ranks.world_size < 2 and variant.kind != "single":
        raise Unsupported(f"{variant.kind} needs at least two ranks")
    torch.set_float32_matmul_precision("high" if setting.training.precision == "tf32" else "highest")
    torch.manual_seed(setting.seed)
    spread: Spread = import_module(MAKERS[variant.kind]).prepare(variant, setting, ranks)
    return spread


def step_of(
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    setting: VariantSetting,
    ranks: Ranks,
    *,
    seed: int,
    exchange: Callable[[bool], AbstractContextManager[Any]] = lambda communicate: nullcontext(),
    finish: Callable[[], None] | None = None,
) -> tuple[Callable[[Marks, bool], None], Callable[[], Tensor | None]]:
    """One training step of one micro-batch: ``exchange`` surrounds forward and backward, ``finish`` follows it.

    ``seed`` draws the data. Returns the step and what gives its last loss.
    """
    from runners.model.training import autocast, batch, loss_of

    torch.manual_seed(seed)
    tokens, targets = batch(setting.model, setting.training, setting.plan, ranks.device)
    last: list[Tensor] = []

    def step(marks: Marks, communicate: bool) -> None:
        with exchange(communicate):
            with marks.phase(Phase.FORWARD), autocast(setting.training, ranks.device):
                loss = loss_of(module, tokens, targets)
            with marks.phase(Phase.BACKWARD):
                torch.autograd.backward(loss)
        if finish is not None and communicate:
            with marks.phase(EXCHANGE):
                finish()
        last[:] = [loss.detach()]
        del loss
        with marks.phase(Phase.OPTIMIZER):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return step, lambda: last[0] if last else None


def held(module: nn.Module) -> int:
    """Numbers of all parameters that this rank holds, shards counted as they are."""
    from torch.distributed.tensor import DTensor

    locals_ = (p.to_local() if isinstance(p, DTensor) else p for p in module.parameters())
    return sum(p.numel() for p in locals_)


def _refuse(text: str, message: str, remedy: str) -> None:
    raise InputProblems([Problem(field="options.variants", message=f"{text}: {message}", remedy=remedy)])
