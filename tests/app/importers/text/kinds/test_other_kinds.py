"""The small kinds: variants of data parallelism, shares, timings, accumulation, measured runs, unknown tables."""

from __future__ import annotations

import pytest

from estimator.units import MIB
from tests.app.importers.reading import codes, one, read


def test_variants(tmp_path):
    text = """\
Benchmarking on GLOO
Enter the size of the model (default 10): 77
MyFSDP            | bkw pass and communication time (us) | min 5 | mean 7 | max 9
BucketDDP(25 MB)  | bkw pass and communication time (us) | min 4 | mean 6 | max 8
-----
MyFSDP            | bkw pass and communication time (us) | min 6 | mean 8 | max 10
"""
    imported = read(tmp_path, text)
    rows = one(imported, "data-parallel-variants").rows
    assert rows[0] == {
        "model_size": 77,
        "backend": "gloo",
        "variant": "MyFSDP",
        "repeat": 1,
        "backward_communication_min_s": 5e-06,
        "backward_communication_s": 7e-06,
        "backward_communication_max_s": 9e-06,
    }
    assert (rows[1]["ddp_mode"], rows[1]["bucket_bytes"]) == ("bucketed", 25 * MIB)
    assert rows[2]["repeat"] == 2
    assert "mb-is-mib" in codes(imported)


def test_shares_that_are_whole_say_nothing(tmp_path):
    imported = read(tmp_path, "Backward\n60% ampere_sgemm_a\n40% softmax_warp_forward\n")
    rows = one(imported, "kernel-shares").rows
    assert [(row["category"], row["time_frac"], row["scope"]) for row in rows] == [
        ("matmul", 0.6, "Backward"),
        ("attention", 0.4, "Backward"),
    ]
    assert codes(imported) == set()


def test_timings_with_their_spread_on_another_line(tmp_path):
    text = "Results:\n  Forward pass mean time: 20.9567 ms\n  Forward pass std dev: 2.2657 ms\n  Backward: 3 s\n"
    rows = one(read(tmp_path, text), "timings").rows
    assert rows[0]["mean_s"] == 0.0209567
    assert rows[0]["std_s"] == 0.0022657
    assert rows[1]["mean_s"] == 3.0
    assert rows[0]["group"] == "Results"


def test_accumulation(tmp_path):
    text = "1. Half:\n   Result: 9.5\n   Expected: 10.0\n2. Two:\n   Expected: 1.0\n"
    text += "   A Result: 0.5, Error: 0.5\n   B Result: x\n"
    rows = one(read(tmp_path, text), "accumulation").rows
    assert rows[0] == {"experiment": "Half", "result": 9.5, "expected": 10.0, "error": 0.5}
    assert rows[1] == {"experiment": "Two", "result": 0.5, "variant": "a", "expected": 1.0, "error": 0.5}
    assert rows[2]["result"] is None


RUNS = """\
source_id,hardware,n_gpus,model,n_layers,d_model,seq_len,global_batch,tp,pp,dp,sequence_parallel,measured_step_time_s,notes
a,A100,8,GPT-7B,32,4096,2048,64,8,1,1,true,1.25,"x, y"
b,H100,16,"GPT 13B",40,5120,4096,128,8,2,1,,,none
"""


def test_measured_runs_keep_their_columns(tmp_path):
    imported = read(tmp_path, RUNS)
    first, second = one(imported, "measured-runs").rows
    assert (first["n_gpus"], first["measured_step_time_s"], first["sequence_parallel"], first["notes"]) == (
        8,
        1.25,
        True,
        "x, y",
    )
    assert second == {
        "source_id": "b",
        "hardware": "H100",
        "n_gpus": 16,
        "model": "GPT 13B",
        "n_layers": 40,
        "d_model": 5120,
        "seq_len": 4096,
        "global_batch": 128,
        "tp": 8,
        "pp": 2,
        "dp": 1,
        "notes": "none",
    }
    assert codes(imported) == {"missing-cells"}


def test_unknown_tables_keep_their_rows_and_ask_for_units(tmp_path):
    text = "| gpu | queue delay | watt hours | transfers | copy (ms) |\n|---|---|---|---|---|\n"
    text += "| a | 5 | 1.5 | 7 | 2.5 |\n| b | OOM | 2.5 | 8 | 3.5 |\n"
    imported = read(tmp_path, text)
    measurement = one(imported, "table")
    assert measurement.rows[0] == {"gpu": "a", "queue_delay": 5, "watt_hours": 1.5, "transfers": 7, "copy_s": 0.0025}
    assert {"unrecognised-table", "unit-missing", "oom-cells"} <= codes(imported)
    (asked,) = [warning for warning in imported.warnings if warning.code == "unit-missing"]
    assert "watt hours" in asked.message
    assert "transfers" not in asked.message


@pytest.mark.parametrize("header", ["latency", "total time", "memory", "bandwidth"])
def test_whole_numbers_of_a_quantity_need_a_unit_too(tmp_path, header):
    imported = read(tmp_path, f"gpu,{header}\na,5\nb,6\n")
    assert "unit-missing" in codes(imported)
    assert 5.0 in one(imported).rows[0].values()


def test_unknown_tables_may_repeat_their_names(tmp_path):
    assert one(read(tmp_path, "gpu,x (ms),x (ms),\na,1,2,3\n")).rows[0] == {
        "gpu": "a",
        "x_s": 0.001,
        "x_2_s": 0.002,
        "column_4": 3,
    }


def test_every_table_is_a_measurement_of_its_own_heading(tmp_path):
    text = "# One\n\ngpu,x (ms)\na,1\n\n# Two\n\ngpu,x (ms)\na,2\n"
    assert [m.label for m in read(tmp_path, text).measurements] == ["One", "Two"]
    assert [m.label for m in read(tmp_path, "gpu,x (ms)\na,1\n", "mine.csv").measurements] == ["mine.csv"]
