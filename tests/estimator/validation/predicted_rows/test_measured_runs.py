"""A table of measured runs gives the page what ``headroom validate`` gives the command line."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from app.importers import import_file
from estimator.validation.predicted_rows import predicted_table
from estimator.validation.score import validate

TABLE = Path(__file__).parents[3] / "reference" / "estimator_measured_runs.csv"


@pytest.fixture(scope="module")
def measurement():
    (found,) = import_file(TABLE, TABLE.name).measurements
    return found


def test_errors_are_those_of_validate(measurement):
    found = predicted_table(measurement, "a100-80gb-sxm")
    with TABLE.open() as opened:
        expected = validate(csv.DictReader(opened)).time
    step = found.errors["measured_step_time_s"]
    assert (step.n, step.median_ape, step.bias) == (
        26,
        pytest.approx(expected.median_ape, rel=1e-9),
        pytest.approx(expected.bias, rel=1e-9),
    )
    for row, should in zip(measurement.rows, found.rows, strict=True):
        faster = row["measured_step_time_s"] / should["measured_step_time_s"]
        rate = "measured_tokens_per_s_per_gpu"
        assert should[rate] == pytest.approx(row[rate] * faster)


def test_what_the_table_leaves_open_of_its_chip_is_asked(measurement):
    found = predicted_table(measurement, "")
    assert {one["chip"] for one in measurement.device["candidates"]} >= {"a100-80gb-sxm", "a100-40gb-sxm"}
    open_rows = [why for row, why in zip(measurement.rows, found.reasons, strict=True) if row["hardware"] == "A100"]
    assert all("write which into the column hardware" in why for why in open_rows)
    assert open_rows
    assert not any(why for row, why in zip(measurement.rows, found.reasons, strict=True) if row["hardware"] != "A100")


def test_a_row_that_cannot_be_predicted_says_why(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text(
        "source_id,hardware,model,n_layers,d_model,n_heads,seq_len,global_batch,dp,measured_step_time_s\n"
        "a,h100-sxm,GPT,32,4096,32,2048,8,1,1.5\nb,h100-sxm,GPT,32,4096,,2048,8,1,1.5\n"
    )
    (table,) = import_file(path, path.name).measurements
    found = predicted_table(table, "")
    assert found.rows[0]["measured_step_time_s"] > 0
    assert found.reasons == ("", "b: n_heads is empty: give a number")
