"""Query: each input once, and every one that is given again is named."""

from __future__ import annotations

import pytest
from fastapi import Request

from app.api.query import inputs_of
from estimator.scenario.problems import InputProblems


def request(query):
    return Request({"type": "http", "query_string": query.encode()})


def test_inputs_are_texts_by_name():
    assert inputs_of(request("N=4&mode=a%20b&empty=")) == {"N": "4", "mode": "a b", "empty": ""}


def test_what_is_given_twice_is_named():
    with pytest.raises(InputProblems) as refused:
        inputs_of(request("N=1&k=2&N=3&k=2"))
    assert [problem.field for problem in refused.value.problems] == ["N", "k"]
