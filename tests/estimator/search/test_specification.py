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
    "grid": ["tp", "pp"],
    "search": {"overlap": "all", "recompute_every": [1, 4]},
}


def test_what_can_be_searched_comes_back_as_it_is():
    assert set(GOOD) == set(KEYS)
    assert checked(GOOD) is GOOD


@pytest.mark.parametrize(("nodes", "per_node"), [(100_000, 100_000), (1_001, 1_000)])
def test_a_cluster_that_nobody_has_is_refused_with_the_most_nodes(nodes, per_node):
    with pytest.raises(InputProblems) as caught:
        checked(GOOD | {"cluster": {"chip": "h100-sxm", "nodes": nodes, "chips_per_node": per_node}})
    (problem,) = caught.value.problems
    assert problem.field == "cluster.nodes"
    assert f"{1_000_000 // per_node} nodes of {per_node}" in problem.remedy


def test_a_million_chips_can_be_searched():
    checked(GOOD | {"cluster": {"chip": "h100-sxm", "nodes": 100_000, "chips_per_node": 10}})


def test_a_long_list_of_values_is_refused():
    with pytest.raises(InputProblems) as caught:
        checked(GOOD | {"search": {"recompute_every": [1] * 65}})
    assert [problem.field for problem in caught.value.problems] == ["search.recompute_every"]


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


@pytest.mark.parametrize(
    "given",
    [{"locked": {"optimizer_kernel": "fused"}}, {"search": {"optimizer_kernel": ["fused"]}},
     {"grid": ["tp", "optimizer_kernel"]}],
)  # fmt: skip
def test_a_field_of_the_training_is_told_where_it_belongs(given):
    with pytest.raises(InputProblems) as caught:
        checked(GOOD | given)
    (problem,) = caught.value.problems
    assert problem.field == f"{next(iter(given))}.optimizer_kernel"
    assert "Give it as training.optimizer_kernel" in problem.remedy
