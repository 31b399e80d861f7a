from __future__ import annotations

import pytest

from app.importers.text.kinds.step_checks import contained_backward, settle, total_is_sum

ROW = {"gpus": 8, "seq_len": 1024, "batch": 64, "step_s": 0.5, "tokens_per_s": 131072.0}


def settled(*rows):
    own = [dict(row) for row in rows]
    return own, [warning.code for warning in settle(own, "line 1")]


def test_what_fits_as_it_is_read_stays():
    assert settled(ROW, {**ROW, "step_s": 0.25, "tokens_per_s": 262144.0}) == (
        [ROW, {**ROW, "step_s": 0.25, "tokens_per_s": 262144.0}],
        [],
    )


def test_a_batch_of_each_gpu_and_a_rate_of_one_are_told_by_the_other_two():
    (row,), said = settled({**ROW, "batch": 8})
    assert (row["batch_per_gpu"], "batch" in row, said) == (8, False, ["batch-of-each-gpu"])
    (row,), said = settled({**ROW, "tokens_per_s": 16384.0})
    assert (row["tokens_per_s_per_gpu"], "tokens_per_s" in row, said) == (16384.0, False, ["rate-of-one-gpu"])


def test_rows_that_fit_neither_way_are_said_and_kept():
    rows, said = settled(ROW, {**ROW, "step_s": 0.7})
    assert (rows[1]["batch"], said) == (64, ["rate-and-batch"])


@pytest.mark.parametrize(
    "row",
    [
        {**ROW, "batch": 4, "gradient_accumulation": 2},
        {**ROW, "batch": 0},
        {**ROW, "gpus": 1.5},
        {**ROW, "step_s": None},
        {"gpus": 8, "samples_per_s": 7.0, "step_s": 9.0, "global_batch": 504},
        {"gpus": 8, "samples_per_s": 128.0, "step_s": 0.5, "batch_per_gpu": 8},
    ],
)
def test_passes_and_what_tells_nothing_change_nothing(row):
    assert settled(row) == ([row], [])


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
