"""Specification: what a request for a search may say; every mistake is named, none hides another."""

from __future__ import annotations

import pytest

from estimator.scenario.problems import InputProblems
from estimator.search.specification import KEYS, checked

GOOD = {
    "model": "gpt2",
    "cluster": "h100-sxm",
    "training": {"seq_len": 1024, "global_batch": 8},
    "limits": {"memory_bytes": 8e10, "max_step_time_s": 10},
    "objective": "cost",
    "locked": {"tp": 2},
    "search": {"overlap": "all", "recompute_every": [1, 4]},
}


def test_what_can_be_searched_comes_back_as_it_is():
    assert set(GOOD) == set(KEYS)
    assert checked(GOOD) is GOOD


def test_all_mistakes_are_named_at_once():
    bad = {
        "model": "gpt-2000", "training": {"seq_len": 0, "global_batch": 8}, "limits": {"memory_bytes": True},
        "objective": ["cost"], "locked": {"tp": 2, "overlap": True}, "search": {"overlap": "all", "tp": [1]},
        "plan": {},
    }  # fmt: skip
    with pytest.raises(InputProblems) as caught:
        checked(bad)
    fields = [problem.field for problem in caught.value.problems]
    assert sorted(fields) == [
        "cluster", "limits.memory_bytes", "model", "objective", "plan", "search.overlap", "search.tp",
        "training.seq_len",
    ]  # fmt: skip
