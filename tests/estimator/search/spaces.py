"""Small search spaces for tests."""

from __future__ import annotations

from typing import Any

from estimator.scenario.plan import Plan
from estimator.scenario.scenario import Scenario, cluster_from_json, model_from_json, training_from_json
from estimator.search.space import Space
from tests.estimator.examples import LLAMA, document


def base(model: dict[str, Any] | str = LLAMA, *, chips_per_node: int = 4, nodes: int = 1, **training: Any) -> Scenario:
    """Write the part of a scenario that a search starts from, on round chips."""
    cluster = {**document()["cluster"], "chips_per_node": chips_per_node, "nodes": nodes}
    values = {"seq_len": 256, "global_batch": 8, "precision": "bf16", **training}
    return Scenario(
        model=model_from_json(model),
        cluster=cluster_from_json(cluster),
        plan=Plan(),
        training=training_from_json(values),
    )


def space(
    model: dict[str, Any] | str = LLAMA,
    locked: dict[str, Any] | None = None,
    further: dict[str, tuple[Any, ...]] | None = None,
    **rest: Any,
) -> Space:
    """Open a space on a small cluster."""
    return Space(base(model, **rest), locked or {}, further)
