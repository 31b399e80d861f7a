"""What a run of rows says in the end: counts by status, errors by column, or why nothing is predicted."""

from __future__ import annotations

import dataclasses
import re

from app.commands.measured_rows import lines, measured_rows
from estimator.scenario.measurement import Origin
from tests.app.examples import MEASUREMENT

RING = {"kind": "all-reduce", "library": "nccl", "ranks": 2, "bytes": 2.0**28, "status": "ok", "slowest_median_s": 1e-3}
SKIPPED = {"kind": "all-reduce", "library": "nccl", "ranks": 2, "bytes": 4.0, "status": "not_run"}
TABLE = dataclasses.replace(
    MEASUREMENT,
    origin=Origin(kind="run", format="collectives"),
    device={"name": "NVIDIA H200", "kind": "gpu"},
    rows=(RING, RING, SKIPPED),
)


def test_counts_come_by_status_and_errors_by_column(tmp_path):
    found = measured_rows(TABLE, tmp_path)
    assert found is not None
    assert found.rows_by_status == {"ok": 2, "not_run": 1}
    first, second, third = lines(found)
    assert first == "rows         3: 2 ok, 1 not_run"
    assert second == "predicted    on NVIDIA H200 SXM 141 GB"
    assert re.fullmatch(
        r"  slowest_median_s  2 rows: median error ±\d+\.\d%, on average \d+\.\d% too (high|low)", third
    )
    one = measured_rows(dataclasses.replace(TABLE, rows=({**RING, "slowest_median_s": 1e-9},)), tmp_path)
    assert one is not None
    assert re.fullmatch(r"  slowest_median_s  1 row: \d+\.\d% too high", lines(one)[2])


def test_a_chip_that_is_in_no_catalogue_says_so(tmp_path):
    found = measured_rows(dataclasses.replace(TABLE, device={"name": "H999"}), tmp_path)
    assert found is not None
    assert found.predicted_rows is None
    assert "predicted    nothing: " in lines(found)[1]
    assert "nothing: 'H999' is not in the catalogue" in lines(found)[1]


def test_a_measurement_that_names_no_chip_says_so(tmp_path):
    found = measured_rows(dataclasses.replace(TABLE, device={}), tmp_path)
    assert found is not None
    assert lines(found)[1:] == ["predicted    nothing: the measurement does not say what it ran on"]


def test_rows_without_a_number_that_is_predicted_say_so(tmp_path):
    found = measured_rows(dataclasses.replace(TABLE, rows=(SKIPPED,)), tmp_path)
    assert found is not None
    assert lines(found)[1:] == ["predicted    nothing: none of its rows was measured"]
    gloo = measured_rows(dataclasses.replace(TABLE, rows=(RING | {"library": "gloo"},)), tmp_path)
    assert gloo is not None
    assert lines(gloo)[1].endswith("on NVIDIA H200 SXM 141 GB"), "gloo has a formula of its own"


def test_what_nobody_predicts_is_only_counted(tmp_path):
    probes = dataclasses.replace(TABLE, origin=Origin(kind="run", format="probes"))
    found = measured_rows(probes, tmp_path)
    assert found is not None
    assert lines(found) == ["rows         3: 2 ok, 1 not_run"]


def test_a_measurement_without_rows_has_nothing_to_sum_up(tmp_path):
    assert measured_rows(MEASUREMENT, tmp_path) is None
