"""The loop around a module that comes alone: forward to a loss, backward, the optimizer's step."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from estimator.scenario.problems import InputProblems, Problem, either

PRECISIONS = ("bf16", "bf16-amp", "fp16-amp", "fp32", "tf32")
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": torch.optim.AdamW,
    "adamw-fused": lambda parameters, lr: torch.optim.AdamW(parameters, lr=lr, fused=True),
    "adam": torch.optim.Adam,
    "sgd": torch.optim.SGD,
    "sgd-momentum": lambda parameters, lr: torch.optim.SGD(parameters, lr=lr, momentum=0.9),
}
LEARNING_RATE = 1e-4


@dataclass(frozen=True, kw_only=True)
class Loop:
    """How a module is trained. ``precision`` as a scenario's; ``fp32`` and ``tf32`` differ in the matrix products."""

    precision: str = "bf16"
    optimizer: str = "adamw"
    checkpointing: bool = False
    compile: bool = False

    def train(
        self,
        module: nn.Module,
        batch: Any,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> None:
        """Train without an end; ``batch``: what the module is called with, or a function that makes its loss.

        The trace ends it.
        """
        if self.checkpointing:
            module.gradient_checkpointing_enable()  # type: ignore[operator]
        if self.precision == "tf32":
            torch.backends.cuda.matmul.allow_tf32 = True
        low = torch.bfloat16 if self.precision == "bf16" else None
        module.train()
        module.to("cuda", low) if low is not None else module.to("cuda")
        if optimizer is None:
            wanted = [parameter for parameter in module.parameters() if parameter.requires_grad]
            optimizer = OPTIMIZERS[self.optimizer](wanted, lr=LEARNING_RATE)
        called = torch.compile(module) if self.compile else module
        given = batch if callable(batch) else _to_device(batch, low)
        scaler = torch.amp.GradScaler("cuda", enabled=self.precision == "fp16-amp")
        while True:
            with self._autocast():
                loss = given(called) if callable(given) else loss_of(_called(called, given))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

    def _autocast(self) -> Any:
        if not self.precision.endswith("-amp"):
            return contextlib.nullcontext()
        return torch.autocast("cuda", dtype=torch.bfloat16 if self.precision == "bf16-amp" else torch.float16)


def of_factory(name: str, loop: Loop) -> Callable[[], None]:
    """Return the program of ``MODULE:FACTORY``; raise InputProblems where there is no such thing.

    ``FACTORY()`` gives (module, batch), (module, function from module to loss), each perhaps with an optimizer as a
    third; or trains by itself and gives None.
    """
    where, _, what = name.partition(":")
    try:
        factory = getattr(importlib.import_module(where), what)
    except (ImportError, AttributeError, ValueError) as error:
        message = f"cannot be imported: {error}"
        remedy = "Give MODULE:FACTORY, a function of a module that Python finds, or SCRIPT.py."
        raise InputProblems([Problem(field="program", message=message, remedy=remedy)]) from None

    def program() -> None:
        made = factory()
        if made is not None:
            loop.train(*made)

    return program


def checked(loop: Loop) -> list[Problem]:
    """List what is wrong with a loop's words."""
    found = []
    for field, value, known in (
        ("--precision", loop.precision, PRECISIONS),
        ("--optimizer", loop.optimizer, tuple(OPTIMIZERS)),
    ):
        if value not in known:
            found.append(Problem(field=field, message=f"{value!r} is not known", remedy=f"One of: {either(known)}."))
    return found


def loss_of(result: Any) -> torch.Tensor:
    """Return the loss in what a module gave: its ``loss``, a scalar, else the mean of its first tensor."""
    found = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
    if isinstance(found, torch.Tensor):
        return found
    while not isinstance(result, torch.Tensor):
        if hasattr(result, "sample"):
            result = result.sample
            continue
        result = next(iter(result.values() if isinstance(result, Mapping) else result))
    return result if result.dim() == 0 else result.float().mean()


def _called(module: Any, batch: Any) -> Any:
    if isinstance(batch, Mapping):
        return module(**batch)
    return module(*batch) if isinstance(batch, (list, tuple)) else module(batch)


def _to_device(batch: Any, low: torch.dtype | None) -> Any:
    if isinstance(batch, torch.Tensor):
        moved = batch.to("cuda")
        return moved.to(low) if low is not None and moved.is_floating_point() else moved
    if isinstance(batch, Mapping):
        return {name: _to_device(value, low) for name, value in batch.items()}
    return tuple(_to_device(value, low) for value in batch) if isinstance(batch, (list, tuple)) else batch
