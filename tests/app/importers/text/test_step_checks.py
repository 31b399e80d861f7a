from __future__ import annotations

import pytest

from app.importers.text.step_checks import contained_backward, mark_repeats, total_is_sum
from estimator.scenario.measurement import Measurement


def test_a_forward_that_is_the_total_holds_the_backward():
    rows = [{"forward_s": 0.0645, "backward_s": 0.042, "step_s": 0.0645, "forward_total_s": 0.645}]
    (said,) = contained_backward(rows, "line 1")
    assert said.code == "forward-contains-backward"
    assert rows == [
        {
            "forward_s": pytest.approx(0.0225),
            "backward_s": 0.042,
            "forward_backward_s": 0.0645,
            "forward_backward_total_s": 0.645,
        }
    ]


def test_an_honest_forward_is_left_alone():
    rows = [{"forward_s": 1.0, "backward_s": 2.0, "step_s": 3.5}, {"forward_s": 1.0, "step_s": 1.0}]
    assert contained_backward(rows, "") == []
    assert rows[0] == {"forward_s": 1.0, "backward_s": 2.0, "step_s": 3.5}


def test_a_total_without_optimizer_is_forward_and_backward():
    rows = [{"forward_s": 1.0, "backward_s": 2.0, "step_s": 3.0}, {"forward_s": 1.0, "backward_s": 2.0, "step_s": 3.5}]
    total_is_sum(rows)
    assert rows[0]["forward_backward_s"] == 3.0
    assert rows[1]["step_s"] == 3.5


def test_repeats_need_the_same_case_and_digits():
    row = {"model": "xl", "seq_len": 128, "precision": "fp32", "forward_s": 0.1, "forward_std_s": 0.01}
    first = Measurement(label="first", rows=(dict(row),))
    second = Measurement(label="second", rows=(dict(row), {**row, "precision": "bf16"}, {**row, "forward_s": 0.11}))
    (said,) = mark_repeats([first, second])
    assert (said.code, said.where) == ("duplicate-rows", "second")
    assert [row.get("duplicate_of") for row in second.rows] == ["first", None, None]
    assert mark_repeats([Measurement(rows=({"model": "a"}, {"model": "a"}))]) == []
