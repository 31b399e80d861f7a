"""Models by name, for benchmarks that measure several: those of the catalogue, and a tiny one to try things out."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import Any

from estimator.scenario import catalog
from estimator.scenario.model import Model
from estimator.scenario.problems import InputProblems, Problem
from runners.options import TINY, TINY_TIED

TINY_MODEL = Model(name=TINY, layers=4, hidden=64, heads=4, kv_heads=4, ffn=128, vocab=128)

TINY_MODELS = {TINY: TINY_MODEL, TINY_TIED: replace(TINY_MODEL, name=TINY_TIED, tied_embedding=True)}


def model_of(name: str, layers: int = 0) -> Model:
    """Look a model up, cut to its first ``layers`` blocks unless 0; raise InputProblems."""
    model = TINY_MODELS.get(name) or replace(catalog.model(name), name=name)
    return replace(model, layers=layers) if layers else model


def unknown_models(options: Any) -> list[Problem]:
    """Refuse names among a benchmark's options that no model has, each with the nearest ones."""
    found = []
    for name in dict.fromkeys(getattr(options, "models", ())):
        try:
            model_of(name)
        except InputProblems as error:
            remedy = f"Did you mean {TINY}?" if difflib.get_close_matches(name.lower(), (TINY,)) else ""
            found += [replace(one, field="options.models", remedy=remedy or one.remedy) for one in error.problems]
    return found
