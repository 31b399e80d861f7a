"""Config names: what a model is called whose config.json does not say."""

from __future__ import annotations

from typing import Any

from app.importers.names import plain_name
from estimator.scenario.model import Model
from estimator.scenario.parameters import parameters

EVERY_MODELS = "config.json"


def config_name(document: Any, model: Model, filename: str) -> str:
    """The file's name; where that is every model's, the kind and size, as in "llama 8.03B"."""
    kind = _kind(document)
    if filename != EVERY_MODELS or not kind:
        return plain_name(filename)
    number = parameters(model, model.max_positions)
    scale, unit = (1e9, "B") if number >= 1e9 else (1e6, "M") if number >= 1e6 else (1e3, "k")
    return f"{plain_name(kind)} {number / scale:.3g}{unit}"


def _kind(document: Any) -> str:
    """The type that a config names, or else its first class."""
    if not isinstance(document, dict):
        return ""
    kind, named = document.get("model_type"), document.get("architectures")
    named = named[:1] if isinstance(named, list) else [named]
    return next((one for one in (kind, *named) if isinstance(one, str) and one), "")
