"""A model of transformers from its config.json, with the batch that its architecture takes and a loss of its own."""

from __future__ import annotations

import copy
import importlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from estimator.scenario.problems import InputProblems, Problem

HEADS = (
    "AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForMaskedLM", "AutoModelForSpeechSeq2Seq",
    "AutoModelForImageClassification", "AutoModelForAudioClassification", "AutoModelForImageTextToText",
    "AutoModelForSequenceClassification", "AutoModel",
)  # fmt: skip
"""Tried in this order where the config names no architecture with a loss."""

OF_BOTH_HALVES = ("AutoModelForSeq2SeqLM", "AutoModelForSpeechSeq2Seq")
"""Tried before them for an encoder and a decoder, of which many (BART, Whisper) can build the decoder alone as well."""


def of_config(
    given: str | Path | Mapping[str, Any],
    *,
    batch: int,
    seq: int,
    attention: str,
    dtype: torch.dtype,
    device: str,
    checkpointing: bool = False,
) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """Return the module of a config, its weights as it initialises them, and a batch, both on the device.

    ``given``: a config.json, a folder that has one, or what stands in it. Raises InputProblems where none can be built.
    """
    try:
        transformers = importlib.import_module("transformers")  # the one thing here that a bare host may lack
    except ImportError:
        remedy = "Install transformers beside Headroom, or give a program of your own."
        raise _bad("needs transformers, which is not installed", remedy) from None
    document = dict(given) if isinstance(given, Mapping) else _read(Path(given))
    kind = document.pop("model_type", None)
    if not isinstance(kind, str):
        raise _bad("has no model_type", "Give the config.json of a model on Hugging Face.")
    try:
        config = transformers.AutoConfig.for_model(kind, **document)
    except (KeyError, ValueError, TypeError) as error:
        message = f"is of a model_type that transformers cannot build: {str(error)[:300]}"
        raise _bad(message, "Install a transformers that knows it, or give a program of your own.") from None
    if hasattr(config, "use_cache"):
        config.use_cache = False  # a training step fills no cache of keys and values
    if not getattr(config, "architectures", None):
        config.architectures = []  # transformers asks each of them where a model type has several classes
    with torch.device(device):
        module = _built(transformers, config, attention, dtype)
        tensors = _batch(module, config, batch, seq)
    if checkpointing:
        if not getattr(module, "supports_gradient_checkpointing", False):
            raise _bad(f"{type(module).__name__} cannot recompute its blocks", "Leave --checkpointing out.")
        module.gradient_checkpointing_enable(  # type: ignore[operator]
            gradient_checkpointing_kwargs={"use_reentrant": False}
        )
    return module, tensors


def _read(path: Path) -> dict[str, Any]:
    path = path / "config.json" if path.is_dir() else path
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _bad(f"cannot be read: {error}", "Give the config.json of a model.") from None
    if not isinstance(found, dict):
        raise _bad("is no JSON object", "Give the config.json of a model.")
    return found


def _batch(model: nn.Module, config: Any, batch: int, sequence: int) -> dict[str, torch.Tensor]:
    """Return ids, pictures or sound, with labels."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    name = getattr(model, "main_input_name", "input_ids")

    def ids(length: int) -> torch.Tensor:
        return torch.randint(0, int(getattr(text, "vocab_size", 2)), (batch, length))

    if name == "pixel_values":
        side = getattr(config, "image_size", 224) or 224
        height, width = side if isinstance(side, (list, tuple)) else (side, side)
        channels = getattr(config, "num_channels", 3)
        return {"pixel_values": torch.randn(batch, channels, height, width), "labels": _classes(batch)}
    if name == "input_values":
        return {"input_values": _sound(config, batch, sequence), **_said(type(model).__name__, batch, sequence, ids)}
    if name == "input_features":
        frames = 2 * getattr(config, "max_source_positions", 1500)
        sound = torch.randn(batch, getattr(config, "num_mel_bins", 80), frames)
        return {
            "input_features": sound,
            "labels": ids(min(sequence, getattr(config, "max_target_positions", sequence))),
        }
    most = getattr(text, "max_position_embeddings", None) or sequence
    tokens = ids(min(sequence, most))
    if getattr(config, "is_encoder_decoder", False) or "LM" in type(model).__name__:
        return {"input_ids": tokens, "labels": tokens.clone()}
    if "Classification" in type(model).__name__:
        return {"input_ids": tokens, "labels": _classes(batch)}
    return {"input_ids": tokens}


def _sound(config: Any, batch: int, sequence: int) -> torch.Tensor:
    """Spectrograms as long as the model takes them, or waves of which so many tokens are made."""
    if hasattr(config, "num_mel_bins") and hasattr(config, "max_length"):
        return torch.randn(batch, config.max_length, config.num_mel_bins)
    return torch.randn(batch, sequence * int(getattr(config, "inputs_to_logits_ratio", 1)))


def _said(name: str, batch: int, sequence: int, ids: Callable[[int], torch.Tensor]) -> dict[str, torch.Tensor]:
    """Labels of sound: its class; its letters, half as many as tokens; or a text as long."""
    if "Classification" in name:
        return {"labels": _classes(batch)}
    if "CTC" in name:
        return {"labels": ids(max(1, sequence // 2))}
    return {"labels": ids(sequence)} if "Generation" in name else {}


def _classes(batch: int) -> torch.Tensor:
    return torch.zeros(batch, dtype=torch.int64)


def _built(transformers: Any, config: Any, attention: str, dtype: torch.dtype) -> nn.Module:
    named = [getattr(transformers, name, None) for name in getattr(config, "architectures", None) or ()]
    for kind in named:
        if kind is not None and ("For" in kind.__name__ or "LMHead" in kind.__name__):
            return _from_config(kind, config, attention, dtype)
    both = OF_BOTH_HALVES if getattr(config, "is_encoder_decoder", False) else ()
    for name in (*both, *HEADS):
        kind = getattr(transformers, name, None)
        if kind is not None and type(config) in getattr(kind, "_model_mapping", {}):
            return _from_config(kind, config, attention, dtype)
    raise _bad(f"transformers has no model for {type(config).__name__}", "Give a program of your own.")


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
