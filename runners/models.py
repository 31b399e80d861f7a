"""Models by name, for benchmarks that measure several: those of the catalogue, and a tiny one to try things out."""

from __future__ import annotations

from dataclasses import replace

from estimator import catalog
from estimator.model import Model
from runners.options import TINY

TINY_MODEL = Model(name=TINY, layers=4, hidden=64, heads=4, kv_heads=4, ffn=128, vocab=128)


def model_of(name: str, layers: int = 0) -> Model:
    """Look a model up, cut to its first ``layers`` blocks unless 0; raise InputProblems."""
    model = TINY_MODEL if name == TINY else replace(catalog.model(name), name=name)
    return replace(model, layers=layers) if layers else model
