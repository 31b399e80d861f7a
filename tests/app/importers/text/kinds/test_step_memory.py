from __future__ import annotations

import pytest

from estimator.validation.predicted_rows import predicted_table
from tests.app.importers.reading import codes, one, read

PROSE = "# CS336 assignment 2 (systems)\n\nPeak memory of the 2.7B model, batch size 4, on one H100 80GB.\n\n"
WIDE = PROSE + (
    "| Context length | Forward only, fp32 (GB) | Full training step, fp32 (GB) | Full step, bf16 autocast (GB) |\n"
    "|---:|---:|---:|---:|\n| 128 | 13.9 | 52.3 | 53.1 |\n| 256 | 14.6 | 56.8 | OOM |\n"
)
LONG = PROSE + (
    "| Context length | Mode | Precision | Peak memory |\n|---:|---|---|---:|\n| 128 | forward | fp32 | 13.9 GB |\n"
    "| 128 | full training step | fp32 | 52.3 GB |\n| 128 | train | bf16-amp | 53.1 GB |\n"
    "| 256 | forward | fp32 | 14.6 GB |\n| 256 | train | fp32 | 56.8 GB |\n| 256 | train | bf16-amp | OOM |\n"
)


@pytest.mark.parametrize("text", [WIDE, LONG], ids=["a column for each", "a row for each"])
def test_each_peak_is_a_row_of_its_pass_and_precision(tmp_path, text):
    found = one(read(tmp_path, text))
    assert found.origin.format == "text/step-memory"
    rows = [(row["seq_len"], row["pass"], row["precision"], row["peak_bytes"], row["status"]) for row in found.rows]
    assert rows == [
        (128, "forward", "fp32", 13.9e9, "ok"), (128, "step", "fp32", 52.3e9, "ok"),
        (128, "step", "bf16-amp", 53.1e9, "ok"), (256, "forward", "fp32", 14.6e9, "ok"),
        (256, "step", "fp32", 56.8e9, "ok"), (256, "step", "bf16-amp", None, "oom"),
    ]  # fmt: skip
    assert {(row["catalogue_model"], row["batch"]) for row in found.rows} == {("cs336-2.7b", 4)}
    assert found.device["candidates"][0]["chip"] == "h100-sxm"
    assert {"said-in-text", "course-models"} <= set(codes(found))


@pytest.mark.parametrize("header", ["Max memory (GB)", "Peak VRAM (GB)", "max_mem (GB)", "Peak memory (GB)"])
def test_a_peak_of_which_nothing_says_what_ran_is_taken_for_a_step_s(tmp_path, header):
    found = one(read(tmp_path, f"{PROSE}| Context length | {header} |\n|---|---|\n| 128 | 52.3 |\n| 256 | 56.8 |\n"))
    assert found.origin.format == "text/step-memory"
    assert [(row["pass"], row["peak_bytes"]) for row in found.rows] == [("step", 52.3e9), ("step", 56.8e9)]
    (said,) = [warning for warning in found.warnings if warning.code == "pass-assumed"]
    assert "2 rows: the peak is taken for a whole step's" in said.message
    assert "pass-assumed" not in codes(one(read(tmp_path, LONG)))


def test_only_half_precisions_are_mixed(tmp_path):
    text = WIDE.replace("bf16 autocast", "TF32 mixed").replace("Forward only, fp32", "Forward only, float16 amp")
    assert [row["precision"] for row in one(read(tmp_path, text)).rows[:3]] == ["fp16-amp", "fp32", "tf32"]


def test_a_peak_of_a_whole_step_is_predicted_and_that_of_a_forward_says_why_not(tmp_path):
    found = predicted_table(one(read(tmp_path, WIDE)), "h100-sxm")
    assert ["peak_bytes" in row for row in found.rows] == [False, True, True, False, True, False]
    assert found.rows[1]["peak_bytes"] > 16 * 2.5e9  # parameters, gradients and Adam's moments in fp32
    assert "the peak of forward alone" in found.reasons[0]
    assert found.fits.oom == 1


def test_a_table_of_lengths_and_sizes_of_no_model_stays_of_no_known_kind(tmp_path):
    text = WIDE.replace("of the 2.7B model, ", "")
    assert one(read(tmp_path, text)).origin.format == "text/table"
