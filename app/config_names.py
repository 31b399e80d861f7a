"""Config names: what a model is called whose config.json does not say, and the file that is traced of it."""

from __future__ import annotations

import re
from typing import Any

from app.importers.names import plain_name
from estimator.scenario.model import Model
from estimator.scenario.parameters import parameters

EVERY_MODELS = "config.json"
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


def config_name(document: Any, model: Model, filename: str) -> str:
    """The file's name; where that is every model's, the kind and size, as in "llama 8.03B"."""
    kind = _kind(document)
    if filename != EVERY_MODELS or not kind:
        return plain_name(filename)
    number = parameters(model, model.max_positions)
    scale, unit = (1e9, "B") if number >= 1e9 else (1e6, "M") if number >= 1e6 else (1e3, "k")
    return f"{plain_name(kind)} {number / scale:.3g}{unit}"


def traced_name(document: Any, filename: str) -> str:
    """A name that the disk may see: the file's, or where that is every model's that of its kind, as in "vit.json"."""
    name = plain_name(f"{_kind(document)}.json" if filename == EVERY_MODELS else filename)
    return name if _SAFE.fullmatch(name) else EVERY_MODELS


def _kind(document: Any) -> str:
    """The type that a config names, or else its first class."""
    if not isinstance(document, dict):
        return ""
    kind, named = document.get("model_type"), document.get("architectures")
    named = named[:1] if isinstance(named, list) else [named]
    return next((one for one in (kind, *named) if isinstance(one, str) and one), "")
