"""Whatever JSON comes in, out comes a Scenario or InputProblems that name what exists; never another exception."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.estimate.estimate import estimate
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.scenario import Scenario, scenario_from_json, scenario_problems, scenario_to_json
from estimator.search.sweep import Sweep, sweep
from tests.estimator.examples import document
from tests.odd_json import SCALARS, documents
from tests.properties.scenarios import scenarios

KEYS = ["model", "cluster", "plan", "training", "chip", "link", "nodes", "dp", "tp", "seq_len", "layers", "hidden"]
leaves = (
    SCALARS
    | st.floats()
    | st.sampled_from((0, -1, 1, 2, 10**18, 10**19, 10**400, -(10**400)))
    | st.sampled_from(("h100-sxm", "gpt2", "fsdp", "full", "fp8", "1f1b", "zero-bubble"))
)
junk = documents(leaves, st.sampled_from(KEYS))


def outcome(read: Callable[[Any], Any], data: object) -> Any:
    """Return what ``read`` makes of the data, or the problems that it found."""
    try:
        return read(data)
    except InputProblems as error:
        return error.problems


def check(problems: tuple[Problem, ...]) -> None:
    assert problems
    assert all(problem.field and problem.message and problem.remedy for problem in problems)


@given(junk | st.fixed_dictionaries(dict.fromkeys(("model", "cluster", "plan", "training"), junk)))
@settings(max_examples=150, deadline=None)
def test_junk(data):
    found = outcome(scenario_from_json, data)
    if not isinstance(found, Scenario):
        check(found)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if not isinstance(value, dict):
        return [path]
    return [path, *(place for key, inner in value.items() for place in places(inner, (*path, key)))]


WHOLE = scenario_to_json(scenario_from_json(document()))
PLACES = places(WHOLE)[1:]


@given(st.lists(st.tuples(st.sampled_from(PLACES), junk), min_size=1, max_size=2))
@settings(max_examples=150, deadline=None)
def test_a_legal_document_with_junk_in_places_is_refused_or_estimated(changes):
    data = copy.deepcopy(WHOLE)
    for path, value in changes:
        inside = data
        for key in path[:-1]:
            inside = inside[key] if isinstance(inside, dict) and key in inside else {}
        if isinstance(inside, dict):
            inside[path[-1]] = value
    found = outcome(scenario_from_json, data)
    if isinstance(found, Scenario):
        assert estimate(found).step_time_s > 0
    else:
        check(found)


SMALL = {
    "model": "gpt2",
    "cluster": {"chip": "h100-sxm", "chips_per_node": 1},
    "training": {"seq_len": 64, "global_batch": 1},
}


@given(junk | st.dictionaries(st.sampled_from(("limits", "locked", "objective", "keep")), junk).map(SMALL.__or__))
@settings(max_examples=100, deadline=None)
def test_junk_specifications_of_sweeps(data):
    found = outcome(sweep, data)
    if isinstance(found, Sweep):
        assert found.plans_tried >= found.plans_fitting
    else:
        check(found)


@given(scenarios(), st.data())
@settings(max_examples=150, deadline=None)
def test_problems_of_a_well_formed_scenario_name_fields_that_exist(scenario, data):
    def some(*names: str, values: st.SearchStrategy[int]) -> dict[str, int]:
        return data.draw(st.dictionaries(st.sampled_from(names), values))

    degrees, counts = st.sampled_from((1, 2, 3, 5, 64)), st.integers(1, 1000)
    precision = data.draw(st.sampled_from((scenario.training.precision, "fp8", "bf16")))
    changed = replace(
        scenario,
        plan=replace(scenario.plan, **some("dp", "tp", "pp", "cp", "ep", "micro_batch", values=degrees)),
        training=replace(scenario.training, precision=precision, **some("seq_len", "global_batch", values=counts)),
        model=replace(scenario.model, **some("heads", "kv_heads", "ffn", "layers", "experts", "top_k", values=counts)),
    )
    found = scenario_problems(changed)
    for problem in found:
        inside: Any = changed
        for name in problem.field.split("."):
            assert hasattr(inside, name), problem
            inside = getattr(inside, name)
    if found:
        check(tuple(found))
