"""Further fields: what a request may name under ``search``, what ``all`` stands for, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from estimator.scenario.plan import DDP_MODES, OFFLOADS
from estimator.scenario.problems import InputProblems
from estimator.search.specification import FURTHER_FIELDS, further_problems, further_values
from tests.estimator.examples import LLAMA
from tests.estimator.search.spaces import base

HERE = base({**LLAMA, "layers": 48})
CHIP = HERE.cluster.chip


def with_host(bytes_per_s: float):
    return replace(HERE, cluster=replace(HERE.cluster, chip=replace(CHIP, host_bytes_per_s=bytes_per_s)))


def test_all_is_what_model_and_chip_allow():
    found = further_values(dict.fromkeys(FURTHER_FIELDS, "all"), with_host(5e10))
    assert found["recompute_every"] == (1, 2, 3, 4, 6, 8, 12, 16, 24)
    assert (found["offload"], found["ddp_mode"], found["overlap"]) == (OFFLOADS, DDP_MODES, (True, False))
    assert further_values({"offload": "all"}, with_host(0.0)) == {"offload": ("none",)}


def test_values_come_once_and_the_default_first():
    wanted = {"overlap": [False, True, False], "recompute_every": [4, 1, 2], "ddp_mode": ["naive"]}
    assert further_problems(wanted, {}) == []
    assert further_values(wanted, HERE) == {
        "overlap": (True, False), "recompute_every": (1, 4, 2), "ddp_mode": ("naive",)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "locked", "field"),
    [
        ([], {}, "search"),
        ("all", {}, "search"),
        ({"tp": [1, 2]}, {}, "search.tp"),
        ({"overlap": True}, {}, "search.overlap"),
        ({"overlap": []}, {}, "search.overlap"),
        ({"overlap": [1]}, {}, "search.overlap"),
        ({"offload": ["disk"]}, {}, "search.offload"),
        ({"recompute_every": [0]}, {}, "search.recompute_every"),
        ({"recompute_every": [[2]]}, {}, "search.recompute_every"),
        ({"ddp_mode": "flat"}, {}, "search.ddp_mode"),
        ({"ddp_mode": "all"}, {"ddp_mode": "flat"}, "search.ddp_mode"),
    ],
)
def test_what_cannot_be_searched_is_named(wanted, locked, field):
    found = further_problems(wanted, locked)
    assert {problem.field for problem in found} == {field}
    assert all(problem.remedy for problem in found)


@pytest.mark.parametrize(
    ("wanted", "field"),
    [({"recompute_every": [2, 49]}, "search.recompute_every"), ({"offload": ["none", "both"]}, "search.offload")],
)
def test_what_model_or_chip_do_not_allow_is_named(wanted, field):
    with pytest.raises(InputProblems) as caught:
        further_values(wanted, with_host(0.0))
    (problem,) = caught.value.problems
    assert problem.field == field
    assert problem.remedy
