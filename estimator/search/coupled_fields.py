"""Coupled fields: fields of a plan that are impossible without one another, and how they move together.

The page has the same rules in ``static/js/coupledFields.js``, for the moment before an axis is there.
"""

from __future__ import annotations

from typing import Any

from estimator.scenario.fitting import divisors
from estimator.scenario.grid_shape import grid_fits
from estimator.scenario.plan import Plan
from estimator.scenario.training import Training


def following(plan: Plan, name: str, value: Any) -> dict[str, Any]:
    """Return what changes with ``name`` at ``value``, by field; nothing where the plan allows both as they are.

    Interleaving needs chunks and chunks need interleaving; a grid has its own depth and splits tokens itself; blocks
    per checkpoint belong to full recomputation.
    """
    if value == getattr(plan, name):
        return {}
    if name == "schedule":
        return _only({"virtual_stages": max(plan.virtual_stages, 2) if value == "interleaved" else 1}, plan)
    if name == "virtual_stages":
        unchunked = "1f1b" if plan.schedule == "interleaved" else plan.schedule
        most = 2 if plan.schedule == "zero-bubble-v" else 1
        return _only({"schedule": "interleaved" if value > most else unchunked}, plan)
    if name == "tp_kind":
        grid = {} if value == "1d" else {"sequence_parallel": False}
        return _only({"tp_depth": _depth(plan, value, plan.tp), **grid}, plan)
    if name == "tp":
        return _only({"tp_depth": _depth(plan, plan.tp_kind, value)}, plan)
    if name == "recompute" and value != "full":
        return _only({"recompute_every": 1}, plan)
    if name == "recompute_every" and value > 1:
        return _only({"recompute": "full"}, plan)
    return {}


def batch_following(plan: Plan, training: Training) -> dict[str, int]:
    """Return the one field of the batch that changes, by its dotted path, so that the batch divides over dp.

    The micro-batch becomes the largest that divides global_batch / dp; where dp alone does not divide the global batch,
    that becomes the next multiple of dp·micro_batch.
    """
    each, rest = divmod(training.global_batch, plan.dp)
    if rest:
        every = plan.dp * plan.micro_batch
        return {"training.global_batch": -(-training.global_batch // every) * every}
    if each % plan.micro_batch:
        return {"plan.micro_batch": max(n for n in divisors(each) if n <= plan.micro_batch)}
    return {}


def _depth(plan: Plan, kind: str, tp: int) -> int:
    """Depth that makes a grid: 1 but in 2.5D, there the present one, else the smallest beyond 1."""
    if kind != "2.5d":
        return 1
    fits = [depth for depth in divisors(tp) if grid_fits("2.5d", tp, depth)]
    if plan.tp_depth in fits and plan.tp_kind == "2.5d":
        return plan.tp_depth
    # One rank in all is no grid; the smallest depth then stands for the reason of the refusal.
    return next((depth for depth in fits if 1 < depth < tp), fits[0] if fits else plan.tp_depth)


def _only(changes: dict[str, Any], plan: Plan) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if getattr(plan, name) != value}
