"""Rows that earlier tables have already are marked as repeats."""

from __future__ import annotations

from app.importers.text.kinds.same_run import mark_repeats
from estimator.scenario.measurement import Measurement


def test_repeats_need_the_same_case_and_digits():
    row = {"model": "xl", "seq_len": 128, "precision": "fp32", "forward_s": 0.1, "forward_std_s": 0.01}
    first = Measurement(label="first", rows=(dict(row),))
    second = Measurement(label="second", rows=(dict(row), {**row, "precision": "bf16"}, {**row, "forward_s": 0.11}))
    (said,) = mark_repeats([first, second])
    assert (said.code, said.where) == ("duplicate-rows", "second")
    assert [row.get("duplicate_of") for row in second.rows] == ["first", None, None]
    assert said.message.startswith("1 row (1 timing) of earlier tables")
    assert mark_repeats([Measurement(rows=({"model": "a"}, {"model": "a"}))]) == []


def test_rows_of_one_table_and_of_other_settings_are_no_repeats():
    row = {"model": "gpt2", "gpu": "H100", "gpus": 8, "step_s": 0.21}
    assert mark_repeats([Measurement(rows=(dict(row), dict(row)))]) == []
    assert mark_repeats([Measurement(rows=(dict(row),)), Measurement(rows=({**row, "gpus": 4},))]) == []
