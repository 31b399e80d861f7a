"""Frames: every number of an estimate, a search, a measurement and a validated table is in its table, named alike."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from pathlib import Path

import pandas as pd
import pytest

from estimator.estimate.estimate import estimate
from estimator.estimate.report import Collective, OpCost
from estimator.frames import predicted_frame, to_frame
from estimator.scenario.measurement import Kernel, MeasuredCollective, Measurement
from estimator.scenario.plan import Plan
from estimator.search.sweep import sweep
from estimator.validation.score import predict_rows, score
from tests.estimator.examples import LLAMA, document, scenario
from tests.estimator.validation.rows import ROW
from tests.markdown import blocks


@pytest.fixture(scope="module")
def found():
    return estimate(scenario(LLAMA, plan={"dp": 2, "pp": 2}, global_batch=8))


def test_the_tables_of_an_estimate_hold_its_ops_collectives_stages_and_phases(found):
    ops = to_frame(found)
    assert list(ops) == [field.name for field in fields(OpCost)]
    assert ops["seconds"].tolist() == [op.seconds for op in found.ops]
    assert ops["flops"].sum() == pytest.approx(sum(op.flops for op in found.ops))
    collectives = to_frame(found, "collectives")
    assert collectives["exposed_s"].tolist() == [one.exposed_s for one in found.collectives]
    memory = to_frame(found, "memory")
    assert memory["stage"].tolist() == [0, 1]
    kinds = [name for name in memory if name.endswith("_bytes") and name not in ("peak_bytes", "reserved_bytes")]
    assert {name.removesuffix("_bytes") for name in kinds} == set(found.memory.by_kind)
    assert memory[kinds].sum(axis=1).tolist() == pytest.approx(memory["peak_bytes"].tolist())
    assert to_frame(found, "phases")["seconds"].sum() == pytest.approx(found.step_time_s)


def test_a_table_without_rows_has_its_columns():
    alone = estimate(scenario(LLAMA))
    assert alone.collectives == ()
    assert list(to_frame(alone, "collectives")) == [field.name for field in fields(Collective)]


def test_a_search_has_a_row_for_each_plan_that_builds_that_plan():
    specification = document(LLAMA, plan={"dp": 4}, global_batch=16)
    del specification["plan"]
    found = sweep(specification)
    plans = to_frame(found)
    names = [field.name for field in fields(Plan)]
    assert not plans.duplicated(names).any()
    best = plans[plans["best"].notna()]
    assert best["best"].tolist() == list(range(1, len(found.best) + 1))
    assert best["step_time_s"].tolist() == [one.step_time_s for one in found.best]
    assert sorted(plans[plans["pareto"]]["step_time_s"]) == sorted(one.step_time_s for one in found.pareto)
    for one, row in zip(found.best, best.to_dict("records"), strict=True):
        assert Plan(**{name: row[name] for name in names}) == Plan(**one.scenario["plan"])
        assert row["mfu"] == one.mfu


def test_a_measurement_gives_its_rows_else_its_kernels_else_its_steps():
    rows = ({"seq_len": 512, "forward_s": 0.1}, {"seq_len": 1024, "forward_s": None, "status": "oom"})
    kernel = Kernel(name="gemm", category="matmul", count=2, total_s=0.5, flops=1e12)
    steps = Measurement(steps_s=(0.25, 0.5))
    assert to_frame(steps).to_dict("list") == {"step": [1, 2], "seconds": [0.25, 0.5]}
    kernels = to_frame(replace(steps, kernels=(kernel,)))
    assert kernels.loc[0, ["name", "total_s", "flops"]].tolist() == ["gemm", 0.5, 1e12]
    table = to_frame(replace(steps, kernels=(kernel,), rows=rows))
    assert list(table) == ["seq_len", "forward_s", "status"]
    assert table["forward_s"].isna().tolist() == [False, True]
    assert list(to_frame(steps, "collectives")) == [field.name for field in fields(MeasuredCollective)]
    assert to_frame(Measurement()).empty


def test_another_table_or_type_is_refused(found):
    with pytest.raises(ValueError, match="no table 'op'; one of: ops, collectives, memory, phases"):
        to_frame(found, "op")
    with pytest.raises(TypeError, match="dict has no table"):
        to_frame({})


def test_the_notebook_of_the_readme_runs_and_adds_up():
    (block,) = blocks(Path(__file__).parents[2] / "README.md", "python")
    *lines, last = block.text.rstrip().splitlines()
    names: dict = {}
    exec("\n".join(lines), names)
    seconds = eval(last, names)
    assert seconds["forward"].sum() == pytest.approx(
        sum(op.seconds for op in names["found"].ops if op.phase == "forward")
    )


def test_a_validated_table_groups_into_its_score():
    rows = [
        {**ROW, "source_id": "a", "source": "paper one"},
        {**ROW, "source_id": "b", "source": "other", "hardware": "A100-80GB", "measured_peak_mem_gib": "30"},
        {**ROW, "source_id": "c", "source": "other", "precision": "int3"},
    ]
    found = predict_rows(rows)
    table = predicted_frame(found)
    assert table["row"].tolist() == [1, 2, 3]
    assert table["skipped"].notna().tolist() == [False, False, True]
    sizes = table["time_error_pct"].abs()
    summary = score(found)
    assert sizes.mean() == pytest.approx(summary.time.mape)
    by_hardware = sizes.groupby(table["hardware"]).mean()
    assert by_hardware.to_dict() == pytest.approx({name: one.mape for name, one in summary.by["hardware"].items()})
    again = table["predicted_peak_bytes"] / table["measured_peak_bytes"] - 1
    assert (100 * again).loc[1] == pytest.approx(table.loc[1, "memory_error_pct"])
    assert math.isnan(table.loc[0, "measured_peak_bytes"])
    empty = predicted_frame([])
    assert empty.empty
    pd.testing.assert_series_equal(empty.dtypes, table.dtypes)
