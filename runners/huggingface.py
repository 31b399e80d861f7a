"""A model of transformers from its config.json, built with a loss of its own."""

from __future__ import annotations

import copy
import importlib
import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from estimator.scenario.own_file import refuse_own
from estimator.scenario.problems import InputProblems, Problem
from runners.huggingface_batch import batch_of

_SEES = ("AutoModelForImageTextToText", "AutoModelForMultimodalLM")
_TURNS = ("AutoModelForSeq2SeqLM", "AutoModelForSpeechSeq2Seq")
HEADS = (
    "AutoModelForCausalLM", *_TURNS, "AutoModelForMaskedLM", *_SEES, "AutoModelForImageClassification",
    "AutoModelForAudioClassification", "AutoModelForCTC", "AutoModelForSequenceClassification",
    "AutoModelForVideoClassification", "AutoModelForSemanticSegmentation", "AutoModelForObjectDetection",
    "AutoModelForDepthEstimation", "AutoModelForPreTraining", "AutoModelForTimeSeriesPrediction", "AutoModel",
)  # fmt: skip
"""Tried in this order where the config names no architecture with a loss; first those of what a config says it is."""

_REPEATED = re.compile(r"(?:^|_)(?:layers?|blocks?|depth|experts)$")
_MOST_REPEATED = 10_000
"""Modules of one kind in a row, as many as a scenario's model may have; each takes milliseconds to build."""


def of_config(
    given: str | Path | Mapping[str, Any],
    *,
    batch: int,
    seq: int,
    attention: str,
    dtype: torch.dtype,
    device: str,
    checkpointing: bool = False,
) -> tuple[nn.Module, dict[str, Any], tuple[str, ...]]:
    """Return the module of a config on the device, its weights as it initialises them; a batch on the host; and notes.

    ``given``: a config.json, a folder that has one, or what stands in it. Raises InputProblems where none can be built.
    """
    try:
        transformers = importlib.import_module("transformers")  # the one thing here that a bare host may lack
    except ImportError:
        remedy = f"Run: {sys.executable} -m pip install transformers. Or give a program of your own."
        raise _bad("needs transformers, which is not installed", remedy) from None
    document = dict(given) if isinstance(given, Mapping) else _read(Path(given))
    refuse_own(document, "config.json")
    kind = document.pop("model_type", None)
    if not isinstance(kind, str):
        raise _bad("has no model_type", "Give the config.json of a model on Hugging Face.")
    try:
        configs = transformers.CONFIG_MAPPING[kind]
    except (KeyError, ImportError) as error:
        message = f"is of a model_type that transformers cannot build: {_words(error)}"
        raise _bad(message, "Install a transformers that knows it, or give a program of your own.") from None
    if many := next(_repeated(document), ""):
        raise _bad(f"asks for too many modules: {many}", f"Give at most {_MOST_REPEATED:,}.")
    try:
        config = configs.from_dict(_plain(document))
    except Exception as error:
        raise _bad(f"is no config of {kind}: {_words(error)}", "Correct the field that it names.") from None
    part: tuple[str, ...] = ()
    if hasattr(config, "thinker_config"):  # a talker has no loss of its own
        config, part = config.thinker_config, ("of the model its thinker alone trains",)
    if hasattr(config, "use_cache"):
        config.use_cache = False  # a training step fills no cache of keys and values
    if getattr(config, "is_encoder_decoder", False):  # whose text begins with one of them, which some do not say
        for name in ("pad_token_id", "decoder_start_token_id"):
            if getattr(config, name, None) is None:
                setattr(config, name, 0)
    if not getattr(config, "architectures", None):
        config.architectures = []  # transformers asks each of them where a model type has several classes
    with torch.device(device):
        module = _built(transformers, config, attention, dtype)
    tensors, notes = batch_of(module, config, batch, seq)
    if checkpointing:
        if not getattr(module, "supports_gradient_checkpointing", False):
            raise _bad(f"{type(module).__name__} cannot recompute its blocks", "Leave --checkpointing out.")
        module.gradient_checkpointing_enable(  # type: ignore[operator]
            gradient_checkpointing_kwargs={"use_reentrant": False}
        )
    return module, tensors, part + notes


def _read(path: Path) -> dict[str, Any]:
    path = path / "config.json" if path.is_dir() else path
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _bad(f"cannot be read: {error}", "Give the config.json of a model.") from None
    if not isinstance(found, dict):
        raise _bad("is no JSON object", "Give the config.json of a model.")
    return found


def _plain(found: Any) -> Any:
    """Numbers that JSON has no word for, as transformers writes them."""
    if isinstance(found, dict):
        if set(found) == {"__float__"}:
            return float(found["__float__"])
        return {name: _plain(value) for name, value in found.items()}
    return [_plain(one) for one in found] if isinstance(found, list) else found


def _repeated(found: Any) -> Iterator[str]:
    """Fields that ask for more modules of a kind than are built."""
    for name, value in found.items() if isinstance(found, dict) else ():
        if isinstance(value, int) and value > _MOST_REPEATED and _REPEATED.search(name):
            yield f"{name[:60]} = {value:,}"
        yield from _repeated(value)


def _words(error: BaseException) -> str:
    return " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__


def _built(transformers: Any, config: Any, attention: str, dtype: torch.dtype) -> nn.Module:
    named = [getattr(transformers, name, None) for name in getattr(config, "architectures", None) or ()]
    for kind in named:
        if kind is not None and ("For" in kind.__name__ or "LMHead" in kind.__name__ or _pairs(kind)):
            return _from_config(kind, config, attention, dtype)
    whole = getattr(transformers.AutoModel, "_model_mapping", {})
    if type(config) in whole and _pairs(whole[type(config)]):
        return _from_config(whole[type(config)], config, attention, dtype)
    sees = any(hasattr(config, part) for part in ("vision_config", "audio_config"))
    leading = (_TURNS if getattr(config, "is_encoder_decoder", False) else ()) + (_SEES if sees else ())
    if not getattr(config, "is_decoder", True):  # says so of itself where it may be either
        leading += ("AutoModelForMaskedLM",)
    for name in dict.fromkeys(leading + HEADS):
        kind = getattr(transformers, name, None)
        if kind is not None and type(config) in getattr(kind, "_model_mapping", {}):
            return _from_config(kind, config, attention, dtype)
    raise _bad(f"transformers has no model for {type(config).__name__}", "Give a program of your own.")


def _pairs(kind: Any) -> bool:
    """Whether a model holds text against pictures or sound, for which its loss needs no labels."""
    return hasattr(kind, "forward") and "return_loss" in inspect.signature(inspect.unwrap(kind.forward)).parameters


def _from_config(kind: Any, config: Any, attention: str, dtype: torch.dtype) -> nn.Module:
    make = kind.from_config if hasattr(kind, "from_config") else kind._from_config
    try:
        # What is refused stays written in a config
        made = make(copy.deepcopy(config), dtype=dtype, attn_implementation=attention)
    except (ValueError, ImportError) as error:
        if attention == "eager" or "attention" not in str(error).lower():
            raise
        made = make(config, dtype=dtype, attn_implementation="eager")  # an architecture that has no other
    assert isinstance(made, nn.Module)
    return made


def _bad(message: str, remedy: str) -> InputProblems:
    return InputProblems([Problem(field="hf", message=message, remedy=remedy)])
