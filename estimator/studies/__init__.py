"""Studies: published figures, reproduced by the model from inputs that can be changed. One module for each study."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from estimator.scenario.problems import InputProblems, Problem
from estimator.studies.study import Figure, Result, Series, describe, document, read_inputs

STUDIES: dict[str, str] = {
    "ulysses-16": "estimator.studies.ulysses_16",
    "deepflow-lstm": "estimator.studies.deepflow_lstm",
    "transformer-tables": "estimator.studies.transformer_tables",
    "cs336-steps": "estimator.studies.cs336_steps",
    "cs336-4d": "estimator.studies.cs336_4d",
    "flash-attention": "estimator.studies.flash_attention",
}
"""Study → module with ``TITLE``, ``SUMMARY``, ``Inputs`` and ``run(inputs) -> Result``; imported only when used."""


def study(name: str, overrides: Mapping[str, object] | None = None) -> Result:
    """Reproduce one study; ``overrides`` change its inputs (numbers may come as text).

    Raises InputProblems for a study that is not known and for every input that cannot be used.
    """
    module = _module(name)
    result: Result = module.run(read_inputs(module.Inputs, overrides or {}))
    return result


def describe_study(name: str) -> dict[str, Any]:
    """Describe one study: name, title, summary, and its inputs with bounds, help and defaults."""
    return describe(name, _module(name))


def _module(name: str) -> ModuleType:
    if name not in STUDIES:
        near = difflib.get_close_matches(name, STUDIES, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        shown = repr(name) if len(name) <= 40 else repr(name[:40]) + "..."
        raise InputProblems(
            [Problem(field="study", message=f"{shown} is not known", remedy=f"{hint}One of: {', '.join(STUDIES)}.")]
        )
    return importlib.import_module(STUDIES[name])


__all__ = ["STUDIES", "Figure", "Result", "Series", "describe_study", "document", "study"]
