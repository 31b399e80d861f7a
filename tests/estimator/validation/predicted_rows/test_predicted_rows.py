"""Predicted tables: the columns that a row has, errors over them, and how near they come on the H200."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.scenario import catalog
from estimator.scenario.measurement import Measurement, Origin
from estimator.scenario.problems import InputProblems
from estimator.validation.predicted_rows import PREDICTED, predicted_table
from tests.odd_json import ODD

FOLDER = Path(__file__).parents[3] / "reference" / "h200"
RING = {"kind": "all-reduce", "library": "nccl", "ranks": 2, "bytes": 2.0**28, "status": "ok"}


def measured(form: str, rows: list[dict[str, Any]], ranks: int = 1) -> Measurement:
    return Measurement(origin=Origin(kind="run", format=form), world_size=ranks, rows=tuple(rows))


@cache
def reference(name: str) -> Measurement:
    document = json.loads((FOLDER / f"{name}.json").read_text())
    return measured(document["origin"]["format"], document["rows"], document["world_size"])


def test_only_numbers_of_measured_rows_are_predicted():
    rows = [
        {**RING, "slowest_median_s": 1e-3, "rank": 0},
        {**RING, "slowest_median_s": None},
        {**RING, "slowest_median_s": 1e-3, "status": "failed"},
        {**RING, "slowest_median_s": 1e-3, "library": "mpi"},
        {**RING, "slowest_median_s": 1e-3, "kind": "broadcast"},
    ]
    found = predicted_table(measured("collectives", rows), "h200-sxm")
    assert [bool(row) for row in found.rows] == [True, False, False, False, False]
    assert found.reasons == (
        "",
        "it has no number in a column that is predicted",
        "it was not measured: failed",
        "its rows ran over mpi, and only NCCL and gloo are predicted",
        "the estimator has no formula for broadcast",
    )
    (error,) = found.errors.values()
    assert error.n == 1
    assert error.bias == pytest.approx(100 * (found.rows[0]["slowest_median_s"] / 1e-3 - 1))
    assert found.chip == "NVIDIA H200 SXM 141 GB"


def test_a_table_that_no_formula_covers_stays_empty():
    found = predicted_table(measured("precision", [{"result": 10.0}]), "h200-sxm")
    assert (found.rows, found.errors, found.assumptions) == (({},), {}, ())


def test_an_unknown_chip_is_refused():
    with pytest.raises(InputProblems, match=r"cluster\.chip: 'h999' is not in the catalogue"):
        predicted_table(measured("collectives", []), "h999")


def test_without_a_chip_nothing_is_predicted_and_the_reason_is_said():
    found = predicted_table(measured("collectives", [{**RING, "slowest_median_s": 1e-3}]), "")
    assert (found.chip, found.rows, found.unpredicted) == ("", ({},), "the measurement does not say what it ran on")


@pytest.mark.usefixtures("catalogue_as_before")
@pytest.mark.parametrize("name", ["cpu", "CPU", "this-cpu"])
def test_this_cpu_is_told_from_another_that_was_measured_by_whichever_name(name):
    chip = replace(catalog.chip("a100"), kind="cpu", name="cpu", label="Cores of mine")
    catalog.add("chips", catalog.CatalogEntry(key="cpu", label="Cores of mine", value=chip, aliases=("this-cpu",)))
    table = replace(measured("attention", []), device={"kind": "cpu", "name": "Other cores"})
    assert predicted_table(table, name).assumptions == ("this CPU, though another was measured (Other cores)",)
    assert predicted_table(replace(table, device={"name": "Cores of mine"}), name).assumptions == ()


def test_why_nothing_is_predicted_depends_on_what_was_measured():
    ring = {**RING, "slowest_median_s": 1e-3}
    assert predicted_table(measured("collectives", [ring | {"library": "mpi"}]), "h200-sxm").unpredicted == (
        "its rows ran over mpi, and only NCCL and gloo are predicted"
    )
    assert predicted_table(measured("collectives", [ring | {"status": "oom"}]), "h200-sxm").unpredicted == (
        "none of its rows was measured"
    )
    assert predicted_table(measured("collectives", [RING]), "h200-sxm").unpredicted == (
        "its rows have no number in a column that is predicted"
    )
    assert predicted_table(measured("collectives", [RING, ring | {"library": "mpi"}]), "h200-sxm").unpredicted == (
        "some of its rows have no number in a column that is predicted; its rows ran over mpi, and only NCCL and gloo "
        "are predicted"
    )
    assert predicted_table(measured("collectives", [ring]), "h200-sxm").unpredicted == ""


def test_a_plan_that_is_impossible_leaves_its_row_empty():
    row = {
        "model": "cs336-xl", "layers": 48, "seq_len": 128, "micro_batch": 1, "precision": "bf16", "attention": "sdpa",
        "ranks": 7, "kind": "tp", "variant": "tp", "status": "ok", "step_s": 1.0,
    }  # fmt: skip
    assert predicted_table(measured("ddp", [row], 7), "h200-sxm").rows == ({},)


@pytest.mark.parametrize("form", PREDICTED)
@given(data=st.data())
def test_whatever_a_file_says_nothing_breaks(form, data):
    known = {"step": "cs336-1", "memory": "memory-1", "ddp": "ddp-2", "attention": "attention-1"}
    name = known.get(form, "ulysses-2" if form == "ulysses" else "collectives-2")
    row = dict(reference(name).rows[0])
    for column in data.draw(st.lists(st.sampled_from(sorted(row)), max_size=4)):
        row[column] = data.draw(ODD)
        if data.draw(st.booleans()):
            del row[column]
    table = predicted_table(measured(form, [row]), "h200-sxm")
    (found,) = table.rows
    assert bool(table.unpredicted) is not bool(found)
    assert all(isinstance(value, float) and isinstance(row[name], (int, float)) for name, value in found.items())


BOUNDS = {
    ("attention-1", "median_s"): (144, 17, 15),
    ("collectives-2", "slowest_median_s"): (110, 55, 62),
    ("cs336-1", "step_s"): (40, 9, 6.2),
    ("cs336-1", "peak_bytes"): (40, 1.2, 1),
    ("llm-1", "peak_bytes"): (20, 0.4, 0.1),
    ("memory-1", "peak_bytes"): (48, 1.3, 1),
    ("compiled-cs336-medium-1", "peak_bytes"): (4, 2, 2),
    ("modes-1", "step_s"): (24, 7, 6.5),
    ("recompute-1", "step_s"): (6, 3.7, 3.7),
    ("ddp-fp32-2", "step_s"): (8, 5.5, 5.5),
    ("ddp-fp32-4", "step_s"): (8, 6.5, 6.5),
    ("ddp-fp32-2", "peak_bytes"): (2, 1.5, 1.5),
    ("ddp-sharded-4", "peak_bytes"): (3, 2, 2),
    ("ddp-pipelines-2", "step_s"): (5, 17.5, 19.5),
    ("ulysses-2", "median_s"): (19, 18, 13.5),
}
"""Rows, and mean and median of the errors' sizes in percent that are not to be exceeded: as measured, rounded up.

What stays above ten percent: the smallest collectives take the 25 µs that this host needs to launch one; softmax passes
over naive attention's square of 4096 more than once; fused kernels do better where not causal than half of a causal
square; PyTorch's zero-bubble schedules take twice as long in backward; the host that bounds small models."""


@pytest.mark.parametrize(("name", "column"), BOUNDS, ids=lambda value: value)
def test_the_h200(name, column):
    rows, mean, median = BOUNDS[name, column]
    error = predicted_table(reference(name), "h200-sxm").errors[column]
    assert error.n == rows
    assert error.mape < mean
    assert error.median_ape < median


def test_every_format_is_one_that_something_writes():
    for name in PREDICTED:
        folder, _, kind = name.rpartition("/")
        root = Path(__file__).parents[4]
        if folder:
            written = [path.read_text() for path in (root / "app/importers/text/kinds").glob("*.py")]
            assert any(f'KIND = "{kind}"' in text for text in written), name
        else:
            assert (root / f"runners/benchmarks/{name}.py").exists(), name
