"""Laying: how an op list is laid out, from the options of a command."""

from __future__ import annotations

from collections.abc import Sequence

from estimator.estimate.layout.lay_out import Laying, laying_of
from estimator.scenario.problems import InputProblems, Problem, fields_named


def option_of(field: str) -> str:
    """The option by which a field of how a list is laid out is given."""
    if field.startswith("plan.") or field == "micro_batches":
        return f"--plan {field.removeprefix('plan.')}"
    return {"plan": "--plan", "split": "--split", "chip": "--chip", "cluster.chip": "--chip"}.get(field, field)


def read_laying(plan: Sequence[str], split: Sequence[str]) -> Laying:
    """Read ``key=value`` texts as a plan and its ``micro_batches``, ``name=column`` as a split; raise InputProblems."""
    values: dict[str, object] = {}
    for text in plan:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            remedy = "Write a field and its value, as in --plan dp=8."
            raise InputProblems([Problem(field="--plan", message=f"{text!r} is not key=value", remedy=remedy)])
        values[key.strip()] = int(value) if value.strip().isdecimal() else value.strip()
    micro_batches = values.pop("micro_batches", 1)
    if not isinstance(micro_batches, int):
        remedy = "Give a whole number, as in --plan micro_batches=8."
        raise InputProblems([Problem(field="--plan micro_batches", message=f"is {micro_batches!r}", remedy=remedy)])
    with fields_named(option_of):
        return laying_of(values, micro_batches, split)
