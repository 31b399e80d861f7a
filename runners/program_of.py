"""Programs: other people's modules as training steps, from a factory of theirs or a Hugging Face config.json.

``FACTORY()`` gives ``(module, batch)`` or ``(module, batch, optimizer)``. ``batch`` is what the module is called with:
a dict of keyword arguments, a tuple of arguments, one tensor; or a function of the module, which makes its loss itself.
The loss is what the module returns as ``loss``, else its first tensor: that number, or the mean of that tensor. What
the factory leaves open the options decide; those that it takes by name it is given.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from estimator.scenario.problems import InputProblems, Problem
from runners.options import ProgramOptions

AUTOCAST = {"bf16-amp": torch.bfloat16, "fp16-amp": torch.float16}
LEARNING_RATE = 1e-4
MAKERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": torch.optim.AdamW,
    "adamw-fused": partial(torch.optim.AdamW, fused=True),
    "adam": torch.optim.Adam,
    "sgd": torch.optim.SGD,
    "sgd-momentum": partial(torch.optim.SGD, momentum=0.9),
}
"""Optimizers by the names of ``runners.options.PROGRAM_OPTIMIZERS``."""

HEADS = (
    "AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForMaskedLM", "AutoModelForSpeechSeq2Seq",
    "AutoModelForImageClassification", "AutoModelForAudioClassification", "AutoModelForImageTextToText",
    "AutoModelForSequenceClassification", "AutoModel",
)  # fmt: skip
"""Classes of transformers, tried in this order where a config names no architecture with a loss."""


@dataclass(kw_only=True)
class Program:
    """A module on its device, a batch, the loss of one call, and its optimizer."""

    name: str
    module: nn.Module
    batch: Any
    optimizer: torch.optim.Optimizer
    options: ProgramOptions
    tokens: int = 0

    def loss(self, batch: Any) -> Tensor:
        """Forward, under autocast where the precision says so."""
        with autocast_of(self.options.precision, device_of(self.module)):
            return loss_of_output(_call(self.module, batch))


def program_of(*, module: str = "", hf: str = "", options: ProgramOptions, device: str) -> Program:
    """Build a program on ``device``: ``module`` is FILE.py:FACTORY or MODULE:FACTORY, ``hf`` a config.json.

    Raises InputProblems for what cannot be read or does not follow the convention.
    """
    torch.set_float32_matmul_precision("high" if options.precision == "tf32" else "highest")
    low = torch.bfloat16 if options.precision == "bf16" else None
    built, batch, optimizer = _from_config(hf, options, device, low) if hf else _from_factory(module, options)
    if options.checkpointing:
        if not hasattr(built, "gradient_checkpointing_enable"):
            remedy = "Give a module with gradient_checkpointing_enable(), or leave the option out."
            raise _problem("has no gradient checkpointing of its own", remedy)
        built.gradient_checkpointing_enable()  # type: ignore[operator]
    # An optimizer of the factory's holds these very tensors, which a move keeps
    built = (built.to(device, low) if low is not None else built.to(device)).train()
    if options.compile:
        built.compile()
    trained = [parameter for parameter in built.parameters() if parameter.requires_grad]
    return Program(
        name=Path(hf).parent.name or "config" if hf else module,
        module=built,
        batch=batch if callable(batch) and not isinstance(batch, (Tensor, Mapping)) else moved(batch, device, low),
        optimizer=optimizer or MAKERS[options.optimizer](trained, lr=LEARNING_RATE),
        options=options,
        tokens=_tokens(batch),
    )


def autocast_of(precision: str, device: str) -> AbstractContextManager[Any]:
    """Autocast where the precision is one of it."""
    dtype = AUTOCAST.get(precision)
    return nullcontext() if dtype is None else torch.autocast(torch.device(device).type, dtype=dtype)


def device_of(module: nn.Module) -> str:
    """Where a module's parameters are."""
    return next((str(parameter.device) for parameter in module.parameters()), "cpu")


def loss_of_output(result: Any) -> Tensor:
    """The number that backward begins at; raise InputProblems where there is none."""
    found = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
    if isinstance(found, Tensor):
        return found
    while not isinstance(result, Tensor):
        if hasattr(result, "sample"):
            result = result.sample
        elif isinstance(result, (Mapping, tuple, list)) and result:
            result = next(iter(result.values() if isinstance(result, Mapping) else result))
        else:
            message = f"returned {type(result).__name__}, which has no loss"
            raise _problem(message, "Let it return the loss, an object with a loss, or a tensor.")
    return result if result.dim() == 0 else result.float().mean()


def _call(module: nn.Module, batch: Any) -> Any:
    if isinstance(batch, Mapping):
        return module(**batch)
    if isinstance(batch, (tuple, list)):
        return module(*batch)
    return module(batch) if isinstance(batch, Tensor) else batch(module)


def moved(batch: Any, device: str, low: torch.dtype | None) -> Any:
    """Put all tensors of a batch on a device, those of fractions in ``low`` where the module is."""
    if isinstance(batch, Tensor):
        return batch.to(device, low) if low is not None and batch.is_floating_point() else batch.to(device)
    if isinstance(batch, Mapping):
        return {name: moved(value, device, low) for name, value in batch.items()}
    if isinstance(batch, (tuple, list)):
        return tuple(moved(value, device, low) for value in batch)
    return batch


Found = tuple[nn.Module, Any, "torch.optim.Optimizer | None"]


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
    return module, batch, rest[0] if rest else None


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
            sys.path.insert(0, str(Path.cwd()))
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


def _from_config(text: str, options: ProgramOptions, device: str, low: torch.dtype | None) -> Found:
    try:
        transformers = importlib.import_module("transformers")  # the one thing here that a bare host may lack
    except ImportError:
        remedy = "Run: pip install transformers."
        raise InputProblems([Problem(field="hf", message="transformers is not installed", remedy=remedy)]) from None
    path = Path(text)
    path = path / "config.json" if path.is_dir() else path
    try:
        document = dict(json.loads(path.read_text(encoding="utf-8")))
        config = transformers.AutoConfig.for_model(document.pop("model_type"), **document)
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"{path} is no configuration of a known model: {error}"
        remedy = "Give the config.json of a model that transformers has."
        raise InputProblems([Problem(field="hf", message=message[:500], remedy=remedy)]) from None
    if hasattr(config, "use_cache"):
        config.use_cache = False  # a training step fills no cache of keys and values
    with torch.device(device):
        model = _model(transformers, config, options.attention, low or torch.float32)
        return model, inputs(model, config, options.batch, options.seq), None


def _model(transformers: Any, config: Any, attention: str, dtype: torch.dtype) -> Any:
    """The architecture that a config names, where it has a loss, else the first class that takes it."""
    named = [getattr(transformers, name, None) for name in getattr(config, "architectures", None) or ()]
    kinds = [kind for kind in named if kind is not None and ("For" in kind.__name__ or "LMHead" in kind.__name__)]
    kinds += [
        kind
        for name in HEADS
        if (kind := getattr(transformers, name, None)) is not None and type(config) in kind._model_mapping
    ]
    if not kinds:
        raise _problem(f"transformers has no model for {type(config).__name__}", "Give FILE.py:FACTORY.")
    make = kinds[0].from_config if hasattr(kinds[0], "from_config") else kinds[0]._from_config
    try:
        return make(config, dtype=dtype, attn_implementation=attention)
    except (ValueError, ImportError) as error:
        if "attention" not in str(error).lower():
            raise
        return make(config, dtype=dtype)  # an architecture without that attention has its own


def inputs(model: Any, config: Any, batch: int, sequence: int) -> dict[str, Tensor]:
    """What a model of transformers is called with, by what it takes: ids, pictures or sound, with labels."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    name = getattr(model, "main_input_name", "input_ids")

    def ids(length: int) -> Tensor:
        return torch.randint(0, int(getattr(text, "vocab_size", 2)), (batch, length))

    if name == "pixel_values":
        side = getattr(config, "image_size", 224) or 224
        height, width = side if isinstance(side, (list, tuple)) else (side, side)
        pictures = torch.randn(batch, getattr(config, "num_channels", 3), height, width)
        return {"pixel_values": pictures, "labels": torch.zeros(batch, dtype=torch.int64)}
    if name == "input_features":
        frames = 2 * getattr(config, "max_source_positions", 1500)
        length = min(sequence, getattr(config, "max_target_positions", sequence))
        return {
            "input_features": torch.randn(batch, getattr(config, "num_mel_bins", 80), frames),
            "labels": ids(length),
        }
    tokens = ids(min(sequence, getattr(text, "max_position_embeddings", None) or sequence))
    if getattr(config, "is_encoder_decoder", False) or "LM" in type(model).__name__:
        return {"input_ids": tokens, "labels": tokens}
    if "Classification" in type(model).__name__:
        return {"input_ids": tokens, "labels": torch.zeros(batch, dtype=torch.int64)}
    return {"input_ids": tokens}


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
