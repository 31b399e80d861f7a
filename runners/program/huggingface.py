"""A model of transformers from its config.json, with the batch that its architecture takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from estimator.scenario.problems import InputProblems, Problem
from runners.program.standard_loop import Loop

HEADS = (
    "AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForMaskedLM", "AutoModelForSpeechSeq2Seq",
    "AutoModelForImageClassification", "AutoModelForAudioClassification", "AutoModelForImageTextToText",
    "AutoModelForSequenceClassification", "AutoModel",
)  # fmt: skip
"""Tried in this order where the config names no architecture with a loss."""

ATTENTION = ("sdpa", "eager", "flash_attention_2", "flex_attention")


def of_config(path: Path, loop: Loop, *, batch: int, sequence: int, attention: str) -> Callable[[], None]:
    """Return the program that trains the model of a config; raise InputProblems where it cannot be built."""
    try:
        import transformers
    except ImportError:
        remedy = "Install transformers beside Headroom, or give a script."
        raise _bad("--hf", "needs transformers, which is not installed", remedy) from None
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _bad("--hf", f"cannot be read: {error}", "Give the config.json of a model.") from None
    kind = given.pop("model_type", None) if isinstance(given, dict) else None
    if kind is None:
        raise _bad("--hf", "has no model_type", "Give the config.json of a model on Hugging Face.")
    try:
        config = transformers.AutoConfig.for_model(kind, **given)
    except (KeyError, ValueError, TypeError) as error:
        remedy = "Install a transformers that knows it, or give a script."
        raise _bad("--hf", f"is of a model_type that transformers cannot build: {error}", remedy) from None

    def program() -> None:
        if hasattr(config, "use_cache"):
            config.use_cache = False
        model = _built(transformers, config, attention, torch.bfloat16 if loop.precision == "bf16" else torch.float32)
        loop.train(model, inputs(model, config, batch, sequence))

    return program


def inputs(model: Any, config: Any, batch: int, sequence: int) -> dict[str, torch.Tensor]:
    """Return a batch on the device: ids, pictures or sound, with labels."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    name = getattr(model, "main_input_name", "input_ids")

    def ids(length: int) -> torch.Tensor:
        return torch.randint(0, int(getattr(text, "vocab_size", 2)), (batch, length), device="cuda")

    if name == "pixel_values":
        side = getattr(config, "image_size", 224) or 224
        height, width = side if isinstance(side, (list, tuple)) else (side, side)
        channels = getattr(config, "num_channels", 3)
        pictures = torch.randn(batch, channels, height, width, device="cuda")
        return {"pixel_values": pictures, "labels": torch.zeros(batch, dtype=torch.int64, device="cuda")}
    if name == "input_features":
        frames = 2 * getattr(config, "max_source_positions", 1500)
        sound = torch.randn(batch, getattr(config, "num_mel_bins", 80), frames, device="cuda")
        length = min(sequence, getattr(config, "max_target_positions", sequence))
        return {"input_features": sound, "labels": ids(length)}
    most = getattr(text, "max_position_embeddings", None) or sequence
    tokens = ids(min(sequence, most))
    if getattr(config, "is_encoder_decoder", False) or "LM" in type(model).__name__:
        return {"input_ids": tokens, "labels": tokens}
    if "Classification" in type(model).__name__:
        return {"input_ids": tokens, "labels": torch.zeros(batch, dtype=torch.int64, device="cuda")}
    return {"input_ids": tokens}


def _built(transformers: Any, config: Any, attention: str, dtype: torch.dtype) -> Any:
    chosen = {"attn_implementation": attention} if attention else {}
    named = [getattr(transformers, name, None) for name in getattr(config, "architectures", None) or ()]
    for kind in named:
        if kind is not None and ("For" in kind.__name__ or "LMHead" in kind.__name__):
            return _from_config(kind, config, chosen, dtype)
    last: Exception | None = None
    for name in HEADS:
        kind = getattr(transformers, name, None)
        if kind is None:
            continue
        if type(config) in getattr(kind, "_model_mapping", {}):
            return _from_config(kind, config, chosen, dtype)
    raise _bad("--hf", f"transformers has no model for {type(config).__name__}", "Give a script.") from last


def _from_config(kind: Any, config: Any, chosen: dict[str, Any], dtype: torch.dtype) -> Any:
    make = kind.from_config if hasattr(kind, "from_config") else kind._from_config
    try:
        return make(config, dtype=dtype, **chosen)
    except (ValueError, ImportError) as error:
        if not chosen or "attention" not in str(error).lower():
            raise
        return make(config, dtype=dtype)  # an architecture without that attention has its own


def _bad(field: str, message: str, remedy: str) -> InputProblems:
    return InputProblems([Problem(field=field, message=message, remedy=remedy)])
