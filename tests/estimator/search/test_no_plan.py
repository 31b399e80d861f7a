"""Nothing: a search without a legal plan says which locked field leaves none."""

from __future__ import annotations

import pytest

from estimator.scenario.problems import InputProblems
from estimator.search.sweep import sweep


@pytest.mark.parametrize(
    ("locked", "batch", "field", "words"),
    [
        ({"tp": 3}, 512, "locked.tp", "does not divide 256 chips"),
        ({"tp": 8, "pp": 64}, 512, "locked", "tp 8 · pp 64 = 512 does not divide"),
        ({"tp": 128, "tp_kind": "1d"}, 512, "locked.tp", "heads"),
        ({"tp": 1, "cp": 1, "pp": 1}, 7, "locked", "7 sequences"),
    ],
)
def test_the_locked_field_is_named(locked, batch, field, words):
    with pytest.raises(InputProblems) as caught:
        sweep(
            {
                "model": "llama3-70b",
                "cluster": {"chip": "h100-sxm", "nodes": 32},
                "training": {"seq_len": 8192, "global_batch": batch},
                "locked": locked,
            }
        )
    problem = caught.value.problems[0]
    assert problem.field == field
    assert words in problem.message
    assert problem.remedy
