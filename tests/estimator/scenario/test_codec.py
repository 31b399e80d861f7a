"""Codec: JSON becomes typed, frozen objects, or a list of problems that name the place and the remedy."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from estimator.scenario.codec import MOST_NAMED, decode, encode, spec
from estimator.scenario.problems import InputProblems


@dataclass(frozen=True, kw_only=True)
class Inner:
    width: int = spec(minimum=1, maximum=10)
    share: float = spec(0.5, minimum=0)


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str = spec("x", choices=("x", "yellow"))
    inner: Inner
    flag: bool = False
    maybe: float | None = None
    several: tuple[Inner, ...] = ()
    table: dict[str, float] = field(default_factory=dict)
    anything: Any = None


def problems_of(data: object) -> dict[str, str]:
    with pytest.raises(InputProblems) as caught:
        decode(Outer, data)
    return {problem.field: f"{problem.message} | {problem.remedy}" for problem in caught.value.problems}


def test_a_document_becomes_the_object_and_comes_back():
    data = {
        "name": "yellow",
        "inner": {"width": 3, "share": 2},
        "flag": True,
        "maybe": 1,
        "several": [{"width": 1}, {"width": 10}],
        "table": {"a": 1.5},
        "anything": [1, {"b": None}],
    }
    found = decode(Outer, data)
    assert found.inner == Inner(width=3, share=2.0)
    assert isinstance(found.inner.share, float)
    assert isinstance(found.maybe, float)
    assert [one.width for one in found.several] == [1, 10]
    assert decode(Outer, json.loads(json.dumps(encode(found)))) == found


def test_what_is_left_out_takes_the_default():
    assert decode(Outer, {"inner": {"width": 1}}) == Outer(inner=Inner(width=1, share=0.5))


def test_every_problem_is_reported_not_only_the_first():
    found = problems_of({"name": "yelow", "inner": {"width": 0, "shape": 1}, "flag": 1, "mabye": 2})
    assert set(found) == {"name", "inner.width", "inner.shape", "flag", "mabye"}
    assert "Did you mean 'yellow'? One of: x, yellow." in found["name"]
    assert "from 1 to 10" in found["inner.width"]
    assert "Did you mean 'share'?" in found["inner.shape"]
    assert "true or false" in found["flag"]
    assert "Did you mean 'maybe'?" in found["mabye"]


def test_many_unknown_keys_are_said_together_and_long_ones_short():
    found = problems_of({"inner": {"width": 1}} | {f"{number}{'k' * 10_000}": 1 for number in range(1000)})
    assert len(found) == MOST_NAMED + 1
    assert found["(document)"].startswith(f"has {1000 - MOST_NAMED} unknown keys more | Known keys: name, inner")
    assert max(map(len, found)) < 100
    one_more = problems_of({"inner": {"width": 1}} | {f"k{number}": 1 for number in range(MOST_NAMED + 1)})
    assert one_more["(document)"].startswith("has 1 unknown key more")


def test_a_missing_value_says_what_belongs_there():
    found = problems_of({"inner": {}})
    assert found["inner.width"] == "is missing | Give a whole number from 1 to 10."


def test_the_place_inside_a_list_is_named():
    assert set(problems_of({"inner": {"width": 1}, "several": [{"width": 1}, {"width": "2"}]})) == {"several[1].width"}


@pytest.mark.parametrize("width", [True, 1.0, "1", None, [1], {"width": 1}])
def test_only_whole_numbers_are_whole_numbers(width):
    assert "must be a whole number" in problems_of({"inner": {"width": width}})["inner.width"]


@pytest.mark.parametrize("share", [float("nan"), float("inf"), -float("inf"), -0.1, 10**400, -(10**400), 1e19])
def test_a_number_that_no_formula_can_use_is_out_of_range(share):
    assert "is out of range" in problems_of({"inner": {"width": 1, "share": share}})["inner.share"]


def test_a_number_out_of_range_is_told_both_ends():
    assert "from 0 to 1e+18." in problems_of({"inner": {"width": 1, "share": 1e19}})["inner.share"]
    assert "from 1 to 10." in problems_of({"inner": {"width": 11}})["inner.width"]


@pytest.mark.parametrize("document", [None, 1, "text", [], [["inner", {"width": 1}]]])
def test_a_document_that_is_no_object_is_a_problem(document):
    assert problems_of(document) == {"(document)": "must be a JSON object | Write {...}."}


def test_an_inner_object_may_not_be_null():
    assert "must be a JSON object" in problems_of({"inner": None})["inner"]


def test_long_values_are_shown_short():
    message = problems_of({"name": "y" * 1000, "inner": {"width": 1}})["name"]
    assert "..." in message
    assert len(message) < 120


def test_types_are_read_once(monkeypatch):
    decode(Outer, {"inner": {"width": 1}})
    monkeypatch.setattr("estimator.scenario.codec.get_type_hints", None)
    assert decode(Outer, {"inner": {"width": 2}}).inner.width == 2
