"""Programs: other people's modules as training steps, from a factory of theirs or a Hugging Face config.json.

``FACTORY()`` gives ``(module, batch)`` or ``(module, batch, optimizer)``. ``batch`` is what the module is called with:
a dict of keyword arguments, a tuple of arguments, one tensor; or a function of the module, which computes the loss
itself. The loss is the result where that is a tensor of one number, else its ``loss``, its first item, or the mean
square of what it returns. What the factory leaves open the options decide; those it takes by name it is given.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from estimator.scenario.problems import InputProblems, Problem
from runners.huggingface import of_config
from runners.options import ProgramOptions

DTYPES = {"bf16-amp": torch.bfloat16, "fp16-amp": torch.float16}
HALVES = {"bf16": torch.bfloat16}
LEARNING_RATE = 1e-4


@dataclass(kw_only=True)
class Program:
    """A module on its device, a batch, the loss of one call, its optimizer; ``notes``: what one would not expect."""

    name: str
    module: nn.Module
    batch: Any
    optimizer: torch.optim.Optimizer
    options: ProgramOptions
    tokens: int = 0
    notes: tuple[str, ...] = ()

    @property
    def scaler(self) -> torch.amp.GradScaler | None:
        """What scales the loss where fp16 needs it."""
        if self.options.precision != "fp16-amp":
            return None
        return torch.amp.GradScaler(torch.device(device_of(self.module)).type)

    def loss(self, batch: Any) -> Tensor:
        """Forward, under autocast where the precision says so."""
        with autocast_of(self.options.precision, device_of(self.module)):
            return loss_of_output(_call(self.module, batch))


def program_of(
    *,
    module: str = "",
    hf: str | Mapping[str, Any] = "",
    options: ProgramOptions,
    device: str,
    kernel: str = "default",
) -> Program:
    """Build a program on ``device``: ``module`` is FILE.py:FACTORY or MODULE:FACTORY, ``hf`` a config.json.

    ``hf`` may also be what stands in a config.json.

    Raises InputProblems for what cannot be read or does not follow the convention.
    """
    torch.set_float32_matmul_precision("high" if options.precision == "tf32" else "highest")
    built, batch, optimizer, tokens, notes = _from_config(hf, options, device) if hf else _from_factory(module, options)
    # An optimizer of the factory's holds these very tensors, which a move keeps
    built = built.to(device).train()
    if options.precision in HALVES:
        built = built.to(HALVES[options.precision])
    if options.compile:
        built.compile()
    return Program(
        name=name_of(hf) if hf else module,
        module=built,
        batch=batch if callable(batch) and not isinstance(batch, (Tensor, Mapping)) else _moved(batch, device, options),
        optimizer=optimizer or optimizer_for(built, options.optimizer, kernel),
        options=options,
        tokens=tokens,
        notes=notes,
    )


def optimizer_for(module: nn.Module, name: str, kernel: str = "default") -> torch.optim.Optimizer:
    """AdamW, or SGD without momentum, over what is trained."""
    chosen: dict[str, Any] = {flag: kernel == flag for flag in ("foreach", "fused") if kernel != "default"}
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    cls = torch.optim.SGD if name == "sgd" else torch.optim.AdamW
    return cls(parameters, lr=LEARNING_RATE, **chosen)


def autocast_of(precision: str, device: str) -> AbstractContextManager[Any]:
    """Autocast where the precision is one of it."""
    dtype = DTYPES.get(precision)
    return nullcontext() if dtype is None else torch.autocast(torch.device(device).type, dtype=dtype)


def device_of(module: nn.Module) -> str:
    """Where a module's parameters are."""
    return next((str(parameter.device) for parameter in module.parameters()), "cpu")


def loss_of_output(output: Any) -> Tensor:
    """The number that backward begins at; raise InputProblems where there is none."""
    if isinstance(output, Mapping) and isinstance(output.get("loss"), Tensor):
        output = output["loss"]
    elif isinstance(getattr(output, "loss", None), Tensor):
        output = output.loss
    elif isinstance(output, (tuple, list, Mapping)) and output:  # a dictionary, as those of diffusers are
        return loss_of_output(next(iter(output.values() if isinstance(output, Mapping) else output)))
    if not isinstance(output, Tensor):
        message = f"returned {type(output).__name__}, which has no loss"
        raise _problem(message, "Let it return the loss, an object with a loss, or a tensor.")
    return output if output.numel() == 1 else output.float().square().mean()


def _call(module: nn.Module, batch: Any) -> Any:
    if isinstance(batch, Mapping):
        return module(**batch)
    if isinstance(batch, (tuple, list)):
        return module(*batch)
    return module(batch) if isinstance(batch, Tensor) else batch(module)


def _moved(batch: Any, device: str, options: ProgramOptions) -> Any:
    """On the device; numbers with a fraction in what the module was converted to."""
    if isinstance(batch, Tensor):
        low = HALVES.get(options.precision) if batch.is_floating_point() else None
        return batch.to(device) if low is None else batch.to(device, low)
    if isinstance(batch, Mapping):
        return {name: _moved(value, device, options) for name, value in batch.items()}
    if isinstance(batch, (tuple, list)):
        return type(batch)(_moved(value, device, options) for value in batch)
    return batch


Found = tuple[nn.Module, Any, "torch.optim.Optimizer | None", int, tuple[str, ...]]


def _from_factory(text: str, options: ProgramOptions) -> Found:
    where, _, name = text.rpartition(":")
    if not where or not name:
        raise _problem(f"{text!r} names no factory", "Give FILE.py:FACTORY or MODULE:FACTORY.")
    factory = getattr(_imported(where), name, None)
    if not callable(factory):
        raise _problem(f"{where} has no function {name}", "Name the function that gives module and batch.")
    found = factory(**_wanted(factory, options))
    if not isinstance(found, (tuple, list)) or len(found) not in (2, 3) or not isinstance(found[0], nn.Module):
        message = f"{name}() gave {type(found).__name__}"
        raise _problem(message, "Return (module, batch) or (module, batch, optimizer).")
    module, batch, *rest = found
    return module, batch, rest[0] if rest else None, _tokens(batch), ()


def _wanted(factory: Callable[..., Any], options: ProgramOptions) -> dict[str, Any]:
    """Options that a factory takes by name."""
    values = asdict(options)
    try:
        taken = inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return {}
    return {name: values[name] for name in taken if name in values}


def _imported(where: str) -> Any:
    path = Path(where)
    try:
        if path.suffix != ".py":
            return importlib.import_module(where)
        if not path.is_file():
            raise _problem(f"there is no file {path}", "Give the path of a Python file.")
        sys.path.insert(0, str(path.resolve().parent))
        found = importlib.util.spec_from_file_location(path.stem, path)
        assert found is not None
        assert found.loader is not None
        module = importlib.util.module_from_spec(found)
        sys.modules.setdefault(path.stem, module)
        found.loader.exec_module(module)
    except ImportError as error:
        raise _problem(f"{where} cannot be imported: {error}", "Give FILE.py:FACTORY or MODULE:FACTORY.") from None
    return module


def name_of(hf: str | Mapping[str, Any]) -> str:
    """Return what people call the model of a config: its folder, or its type."""
    return str(hf.get("model_type", "config")) if isinstance(hf, Mapping) else Path(hf).parent.name or "config"


def _from_config(hf: str | Mapping[str, Any], options: ProgramOptions, device: str) -> Found:
    module, batch, notes = of_config(
        hf, batch=options.batch, seq=options.seq, attention=options.attention,
        dtype=HALVES.get(options.precision, torch.float32), device=device, checkpointing=options.checkpointing,
    )  # fmt: skip
    return module, batch, None, _tokens(batch), notes


def _tokens(batch: Any) -> int:
    """How many whole numbers the first tensor of them holds: tokens, where a batch is of text."""
    if isinstance(batch, Mapping):
        batch = tuple(batch.values())
    for value in batch if isinstance(batch, (tuple, list)) else (batch,):
        if isinstance(value, Tensor) and not value.is_floating_point():
            return value.numel()
    return 0


def _problem(message: str, remedy: str) -> InputProblems:
    return InputProblems([Problem(field="module", message=message, remedy=remedy)])
