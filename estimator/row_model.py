"""Row model: what kind of blocks a table's row means, from the catalogue, its columns, or its family's name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from estimator import catalog
from estimator.cells import flag, number
from estimator.codec import encode
from estimator.problems import InputProblems

GATED_FAMILIES = ("llama", "mistral", "qwen", "yi-", "gemma", "phi-3", "cs336", "nemotron-h")
SUFFIX = re.compile(r"\s+(SFT|pre-?training)$", re.I)
"""What is done with a model is no part of its name."""
MEGATRON_VOCAB = 51_200
"""Vocabulary of the Megatron-LM papers' models, for rows that state none."""


def model_of_row(cells: Mapping[str, str], assumptions: list[str]) -> dict[str, Any]:
    """Shape from the row; what kind of block it is from the catalogue, the columns, or the family's name."""
    name = cells.get("model", "")
    hidden, layers = int(float(cells["d_model"])), int(float(cells["n_layers"]))
    known = _catalogue_model(name)
    if known is not None and (known.hidden, known.layers) == (hidden, layers):
        return {**encode(known), **_columns(cells), "name": name}
    if known is not None and known.experts:
        assumptions.append(f"experts and blocks as in {known.name or name}, at this depth and width")
        return {**encode(known), "layers": layers, "hidden": hidden, **_columns(cells), "name": name}
    gated = any(family in name.lower() for family in GATED_FAMILIES)
    norm, position, bias = ("rms", "rope", False) if gated else ("layer", "learned", True)
    assumptions.append(f"{'Llama' if gated else 'GPT'} blocks, {'tied' if not gated else 'untied'} embedding")
    found: dict[str, Any] = {
        "name": name,
        "layers": layers,
        "hidden": hidden,
        "gated_ffn": gated,
        "activation": "silu" if gated else "gelu-tanh",
        "norm": norm,
        "position": position,
        "bias": bias,
        "tied_embedding": not gated,
        "qk_norm": "qwen3" in name.lower(),
        **({"head_dim": known.head_dim} if known else {}),
        **_columns(cells),
    }
    if "ffn" not in found:
        found["ffn"] = found.get("moe_ffn", 4 * hidden)
        assumptions.append(f"d_ff = {found['ffn']}" + ("" if "moe_ffn" in found else " (4 · d_model)"))
    if "vocab" not in found:
        found["vocab"] = MEGATRON_VOCAB
        assumptions.append(f"vocab = {MEGATRON_VOCAB}")
    return found


WHOLE_COLUMNS = {
    "n_heads": "heads", "n_kv_heads": "kv_heads", "head_dim": "head_dim", "d_ff": "ffn", "vocab": "vocab",
    "experts": "experts", "top_k": "top_k", "moe_ffn": "moe_ffn", "shared_experts": "shared_experts",
}  # fmt: skip


def _columns(cells: Mapping[str, str]) -> dict[str, Any]:
    """Fields that the row itself states."""
    found: dict[str, Any] = {}
    for column, field in WHOLE_COLUMNS.items():
        value = number(cells.get(column, ""))
        if value:
            found[field] = int(value)
    for column in ("gated_ffn", "tied_embedding"):
        if cells.get(column, ""):
            found[column] = flag(cells[column], False)
    return found


def _catalogue_model(name: str) -> Any:
    for candidate in (name, SUFFIX.sub("", name)):
        try:
            return catalog.model(candidate)
        except InputProblems:
            continue
    return None


def known_experts(name: str) -> int:
    """Return how many experts the catalogue knows a model to have."""
    known = _catalogue_model(name)
    return known.experts if known else 0
