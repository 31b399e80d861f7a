"""Sizes: the model that a log states by its layers, its width and its heads, instead of by a name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from app.importers.text.values.figures import count
from estimator.scenario.codec import encode
from estimator.scenario.model import Model
from estimator.scenario.parameters import parameters
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import model_from_json
from estimator.validation.spellings import GPT, LLAMA

NAMES: Mapping[str, tuple[str, ...]] = {
    "layers": ("layers", "n_layer", "n_layers", "num_layers", "num_hidden_layers"),
    "hidden": ("d_model", "dmodel", "n_embd", "hidden_size", "hidden_dim", "embed_dim", "hidden"),
    "heads": ("heads", "n_head", "n_heads", "num_heads", "num_attention_heads"),
    "kv_heads": ("kv_heads", "n_kv_heads", "num_kv_heads", "num_key_value_heads"),
    "ffn": ("d_ff", "dff", "ffn", "intermediate_size", "ffn_hidden_size", "d_ffn"),
    "vocab": ("vocab", "vocab_size", "padded_vocab_size"),
}
"""Fields of a model by the settings that state them."""
_NEEDED = ("layers", "hidden", "heads", "vocab")
COUNT = "parameters"
"""The setting of how many parameters the model has."""
_NEAR = 0.02
"""By how much the parameters that a log prints (13.3M) may differ from those of its model."""
_LARGEST = 1 << 30
_MULTIPLE = 64
"""Of which an inner width of two thirds of four times the width is the next one, as most programs round it."""


def model_of_sizes(settings: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    """The model that settings state as JSON, with what is assumed of it in words; {} where they do not state one.

    What they leave out (gate, inner width, positions, one table or two) is that of GPT-2's blocks, or of those whose
    parameters are nearest to the count that is printed.
    """
    sizes = {field: value for field, names in NAMES.items() if (value := whole_of(settings, names))}
    if not all(field in sizes for field in _NEEDED):
        return {}, ""
    text = f"{sizes['layers']} layers of {sizes['hidden']}, {sizes['heads']} heads, vocabulary {sizes['vocab']}"
    printed = count(settings.get(COUNT, "")) or 0.0
    ways = [built for way in _ways(sizes) if (built := _built({**sizes, **way}))]
    if not ways:
        return {}, ""
    length = whole_of(settings, ("seq_len",))
    best = min(ways, key=lambda one: abs(parameters(one, length) - printed)) if printed else ways[0]
    found: dict[str, Any] = encode(best)
    kind = f"{'gated' if best.gated_ffn else 'plain'} networks of {best.ffn}, positions {best.position}"
    tables = "one table" if best.tied_embedding else "two tables"
    near = printed > 0 and abs(parameters(best, length) / printed - 1) <= _NEAR
    why = "to which its parameters come nearest" if near else "which it does not say"
    return found, f"{text}: taken with {kind} and {tables} of the vocabulary, {why}"


def _ways(sizes: Mapping[str, int]) -> list[dict[str, Any]]:
    """What else the model may be, the likeliest first."""
    hidden = sizes["hidden"]
    gated = -(-8 * hidden // (3 * _MULTIPLE)) * _MULTIPLE
    blocks = [
        {**GPT, "ffn": 4 * hidden},
        {**LLAMA, "ffn": gated},
    ]
    if "ffn" in sizes:
        blocks = [{**one, "ffn": sizes["ffn"]} for one in blocks]
    return [{**one, "tied_embedding": tied} for one, tied in product(blocks, (True, False))]


def _built(document: Mapping[str, Any]) -> Model | None:
    try:
        return model_from_json(dict(document))
    except InputProblems:
        return None


def whole_of(settings: Mapping[str, str], names: Iterable[str]) -> int:
    """The first that is a whole number from 1; ``2.0`` is one. 0 where none is."""
    for name in names:
        if re.fullmatch(r"\d{1,9}(?:\.0{1,6})?", settings.get(name, ""), re.ASCII):
            value = int(float(settings[name]))
            if 0 < value < _LARGEST:
                return value
    return 0
