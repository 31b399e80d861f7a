"""``headroom validate``: every row scored or a reason why not, calibrations, and tables that are refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from app.cli import run
from app.commands.calibration import read_calibration
from estimator.cost.efficiency import efficiencies
from tests.app.examples import ROOT
from tests.markdown import blocks

ROWS = """\
source_id,source,hardware,n_gpus,model,n_layers,d_model,n_heads,seq_len,global_batch,precision,measured_step_time_s,measured_peak_mem_gib
a,somewhere,A100-80GB,1,"GPT, small",12,768,12,1024,8,bf16,0.25,14
b,somewhere,A100-80GB,1,GPT small,12,768,12,1024,8,fp8,0.25,
c,elsewhere,H100-SXM,8,GPT medium,24,1024,16,1024,64,bf16,0.30,
"""


def test_validate_scores_every_row_or_says_why_not(write, capsys, tmp_path):
    rows = write(ROWS, "rows.csv")
    assert run(["validate", rows, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["predicted"], found["time"]["n"], found["memory"]["n"]) == (3, 2, 2, 1)
    assert found["baseline"]["naive"]["n"] == 2
    assert found["skipped"][0]["source_id"] == "b"
    assert set(found["time"]) == {"n", "mape", "median_ape", "p90_ape", "max_ape", "bias"}
    assert set(found["by"]) == {"hardware", "model", "source"}

    out = tmp_path / "predicted.csv"
    assert run(["validate", rows, "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "2 of 3 rows predicted" in text
    assert "naive (baseline, time)" in text
    assert "b: training.precision: " in text
    assert "has no matrix unit for fp8" in text
    assert "naive: 6·parameters·tokens FLOPs" in text
    assert "need more memory" not in text
    assert run(["validate", write(ROWS.replace("16,1024,64,", "16,200000,64,"), "rows.csv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["not_fitting"] == ["c"]
    assert run(["validate", write(ROWS.replace("16,1024,64,", "16,200000,64,"), "rows.csv")]) == 0
    said = "1 scored although, by the prediction, they need more memory than their chips have: c"
    assert said in " ".join(capsys.readouterr().out.split())
    write(ROWS, "rows.csv")
    with out.open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [row["source_id"] for row in written] == ["a", "b", "c"]
    assert written[0]["model"] == "GPT, small"
    low, step, high = (float(written[0][f"predicted_{name}_s"]) for name in ("low", "step_time", "high"))
    assert low <= step <= high
    assert float(written[0]["time_error_pct"]) == pytest.approx(100 * (step / 0.25 - 1), rel=1e-4)
    assert float(written[0]["predicted_peak_mem_gib"]) > 0
    assert written[1]["predicted_step_time_s"] == ""
    assert written[1]["assumptions"].startswith("skipped: ")
    assert "n_kv_heads" in written[0]["assumptions"] or written[0]["assumptions"]


def test_validate_says_what_it_does_not_read_and_scores_nothing_where_nothing_is_predicted(write, capsys):
    header, first = ROWS.replace("n_gpus", "n_gpu").splitlines()[:2]
    assert run(["validate", write(f"{header},\n{first.replace('A100-80GB', 'H300')}\n", "rows.csv")]) == 1
    captured = capsys.readouterr()
    unread, nothing = captured.err.splitlines()
    assert unread == "not read: columns n_gpu (did you mean n_gpus?), (without a name)"
    assert nothing.endswith("rows.csv: no row could be predicted; every row says why under skipped")
    assert captured.out.startswith("0 of 1 row predicted; errors in percent\n\nskipped:\n  a: cluster.chip: 'H300' is")
    assert run(["validate", write(ROWS.replace(",0.25,14", ",-0.25,14"), "rows.csv")]) == 0
    assert "a: measured_step_time_s is -0.25, below 0" in capsys.readouterr().out
    unnamed = f"{header},\n,{first.partition(',')[2].replace('A100-80GB', 'H300')}\n"
    assert run(["validate", write(unnamed, "rows.csv")]) == 1
    assert "skipped:\n  row 1: cluster.chip" in capsys.readouterr().out
    assert run(["validate", write(unnamed, "rows.csv"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["skipped"][0]["reason"].startswith("cluster.chip")


def test_validate_says_what_it_assumed(write, capsys):
    """A row that leaves out its micro-batch must not look as if it had stated one."""
    header = "hardware,n_layers,d_model,n_heads,seq_len,global_batch,micro_batch,measured_step_time_s"
    row = "A100-80GB,12,1024,16,512,4"
    assert run(["validate", write(f"{header}\n{row},,0.2\n{row},2,0.2\n{row},2,0.2\n", "rows.csv")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    often, also = said.partition("In 3 rows something was assumed, most often ")[2].split(". Also: ")
    assert often.count("(3 rows)") == 3
    assert "micro_batch" in also.partition(".")[0]


@pytest.mark.parametrize(
    ("calibration", "said"),
    [
        ([], "has no object 'ranges'. Write {"),
        ({"ranges": {"gemm": 3}}, "ranges.gemm: unknown key. "),
        ({"ranges": {}, "tables": [1]}, "tables: must be a JSON object. "),
        ({"ranges": {}, "tables": {"gemm": {}}}, "tables.gemm: unknown key. "),
        ({"ranges": {"gemm_matrix_frac": 3}}, "ranges.gemm_matrix_frac: must be a JSON object. "),
        ({"base": "zen", "ranges": {}}, "base: 'zen' is not known. One of: a100-40gb-pcie, "),
        ({"ranges": {"gemm_matrix_frac": {"value": 2, "low": 0.1, "high": 1, "unit": "1", "source": ""}}},
         "ranges.gemm_matrix_frac.value: must lie between its low and its high"),
    ],
)  # fmt: skip
def test_a_calibration_that_cannot_be_used_is_named(write, capsys, calibration, said):
    assert run(["validate", write(ROWS, "rows.csv"), "--calibration", write(calibration, "calibration.json")]) == 2
    assert said in capsys.readouterr().err


def test_validate_with_a_calibration_changes_the_prediction(write, capsys):
    rows = write(ROWS, "rows.csv")
    slow = {"value": 0.1, "low": 0.05, "high": 0.2, "unit": "fraction", "source": "test"}
    calibration = write({"ranges": {"gemm_matrix_frac": slow}}, "calibration.json")
    assert run(["validate", rows, "--json"]) == 0
    before = json.loads(capsys.readouterr().out)["time"]["bias"]
    assert run(["validate", rows, "--json", "--calibration", calibration]) == 0
    assert json.loads(capsys.readouterr().out)["time"]["bias"] > before


def test_the_calibration_in_the_documents_is_one(write, capsys):
    (given,) = [one for block in blocks(ROOT / "docs" / "measuring.md", "json") if "ranges" in (one := block.json())]
    found = read_calibration(Path(write(given, "calibration.json")))
    assert (found.name, found.gemm_matrix_frac, found.link_frac) == ("our cluster", 0.70, 0.75)
    assert found.memory_frac == efficiencies("hopper").memory_frac


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        ("a,b\n1,2\n", "has no column hardware"),
        ("a,b\n1,2\n", "is read by headroom import "),
        ("a;b\n1;2\n", "is read by headroom import "),
        (ROWS.replace(",", ";"), "Separate the columns by commas, not by ';'."),
        (ROWS.splitlines()[0], "has a header and no rows. Give one line per measured run."),
        (ROWS + "d" + "," * 20 + "\n", "line 5 has 21 cells"),
        (ROWS + '"open', "is not CSV"),
        (ROWS.replace("source,", "model,"), "has column model twice"),
    ],
)
def test_bad_input_is_one_line_per_problem(refused, content, words):
    refused(["validate"], content, words)


def test_a_folder_of_measured_steps_is_told_which_command_scores_it(tmp_path, capsys):
    assert run(["validate", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "is a folder. A table of measured runs is a file" in said
    assert f"scored by headroom predict --results {tmp_path}" in said
