"""Row model: what kind of blocks a table's row means, from the catalogue, its columns, or its family's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from estimator import catalog
from estimator.cells import flag, number
from estimator.problems import InputProblems

GATED_FAMILIES = ("llama", "mistral", "qwen", "yi-", "gemma", "phi-3", "cs336", "nemotron-h")
MEGATRON_VOCAB = 51_200
"""Vocabulary of the Megatron-LM papers' models, for rows that state none."""


def model_of_row(cells: Mapping[str, str], assumptions: list[str]) -> dict[str, Any]:
    """Shape from the row; what kind of block it is from the catalogue, the columns, or the family's name."""
    name = cells.get("model", "")
    hidden = int(float(cells["d_model"]))
    ffn = number(cells.get("d_ff", ""))
    known = _catalogue_model(name)
    if known is not None and (known.hidden, known.layers) == (hidden, int(float(cells["n_layers"]))):
        gated, norm, position, bias = known.gated_ffn, known.norm, known.position, known.bias
        tied, activation, qk_norm, positions = (
            known.tied_embedding,
            known.activation,
            known.qk_norm,
            known.max_positions,
        )
    else:
        gated = any(family in name.lower() for family in GATED_FAMILIES)
        norm, position, bias = ("rms", "rope", False) if gated else ("layer", "learned", True)
        tied, activation, qk_norm, positions = not gated, "silu" if gated else "gelu-tanh", "qwen3" in name.lower(), 0
        assumptions.append(f"{'Llama' if gated else 'GPT'} blocks, {'tied' if tied else 'untied'} embedding")
    gated = flag(cells.get("gated_ffn", ""), gated)
    tied = flag(cells.get("tied_embedding", ""), tied)
    if ffn is None:
        ffn = 4.0 * hidden
        assumptions.append(f"d_ff = {ffn:.0f} (4 · d_model)")
    vocab = number(cells.get("vocab", ""))
    if vocab is None:
        vocab = float(MEGATRON_VOCAB)
        assumptions.append(f"vocab = {vocab:.0f}")
    return {
        "name": name,
        "layers": int(float(cells["n_layers"])),
        "hidden": hidden,
        "heads": int(float(cells["n_heads"])),
        "kv_heads": int(number(cells.get("n_kv_heads", "")) or 0),
        "head_dim": int(number(cells.get("head_dim", "")) or (known.head_dim if known else 0)),
        "ffn": int(ffn),
        "vocab": int(vocab),
        "gated_ffn": gated,
        "activation": activation,
        "norm": norm,
        "position": position,
        "bias": bias,
        "tied_embedding": tied,
        "qk_norm": qk_norm,
        "max_positions": positions,
    }


def _catalogue_model(name: str) -> Any:
    try:
        return catalog.model(name)
    except InputProblems:
        return None
