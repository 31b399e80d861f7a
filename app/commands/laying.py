"""Laying: how an op list is laid out, from the options of a command."""

from __future__ import annotations

from collections.abc import Sequence

from estimator.estimate.layout.lay_out import OF_LISTS, Laying, laying_of
from estimator.scenario.codec import types_of, unknown_keys
from estimator.scenario.plan import Plan
from estimator.scenario.problems import InputProblems, Problem, fields_named
from estimator.validation.spellings import says_no, says_yes

MICRO_BATCHES = "micro_batches"


def option_of(field: str) -> str:
    """The option by which a field of how a list is laid out is given."""
    if field.startswith("plan.") or field == MICRO_BATCHES:
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
        values[key.strip()] = _value(key.strip(), value.strip())
    unknown = [key for key in values if key not in types_of(Plan) and key != MICRO_BATCHES]
    micro_batches = values.pop(MICRO_BATCHES, 1)
    with fields_named(option_of):
        if problems := unknown_keys("plan", unknown, (*OF_LISTS, MICRO_BATCHES)):
            raise InputProblems(problems)
        if not isinstance(micro_batches, int):
            remedy = f"Give a whole number, as in --plan {MICRO_BATCHES}=8."
            raise InputProblems([Problem(field=MICRO_BATCHES, message=f"is {micro_batches!r}", remedy=remedy)])
        return laying_of(values, micro_batches, split)


def _value(key: str, text: str) -> object:
    """A value as the field of a plan has it: yes and no where it is one or the other, else a number or a word."""
    if types_of(Plan).get(key) is bool and (says_yes(text) or says_no(text)):
        return says_yes(text)
    return int(text) if text.isdecimal() else text
