"""Parquet and Excel: what goes out comes back, text stays text, and what cannot be is said with its remedy."""

from __future__ import annotations

import json
import subprocess
import sys

import pandas as pd
import pytest

from app.cli import run
from app.tables import needs_pandas, read_cells, write_frame
from estimator.estimate.layer_table import COLUMNS, layer_table
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import scenario_from_json
from tests.app.commands.test_validate import ROWS
from tests.app.examples import LLAMA

SUFFIXES = (".parquet", ".xlsx")
FRAME = pd.DataFrame({
    "id": ["007", "=1+1", None],
    "whole": pd.array([1, None, 3], dtype="Int64"),
    "s": [0.1, 1e-30, float("nan")],
    "fits": [True, False, True],
})  # fmt: skip


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_cells_come_back_as_they_were(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    write_frame(path, FRAME)
    assert read_cells(path, 10**6) == [
        (1, ["id", "whole", "s", "fits"]),
        (2, ["007", "1", "0.1", "True"]),
        (3, ["=1+1", "", "1e-30", "False"]),
        (4, ["", "3", "", "True"]),
    ]


def test_parquet_keeps_every_type(tmp_path):
    write_frame(tmp_path / "table.parquet", FRAME)
    found = pd.read_parquet(tmp_path / "table.parquet")
    pd.testing.assert_frame_equal(found, FRAME, check_dtype=False)
    assert [str(one) for one in found.dtypes] == ["str", "Int64", "float64", "bool"]


def test_excel_holds_no_formula_and_no_control_character_of_a_table_that_came_from_elsewhere(tmp_path):
    path = tmp_path / "table.xlsx"
    long = "x" * 40_000
    write_frame(path, pd.DataFrame({"=A1": ["=HYPERLINK(1)", "a\x07b", long]}))
    assert read_cells(path, 10**6) == [(1, ["=A1"]), (2, ["=HYPERLINK(1)"]), (3, ["ab"]), (4, [long[:32_767]])]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_validated_table_goes_out_typed_and_comes_in_with_the_same_score(tmp_path, capsys, suffix):
    rows, out = tmp_path / "rows.csv", tmp_path / f"predicted{suffix}"
    rows.write_text(ROWS.replace("\na,", "\n007,"))
    assert run(["validate", str(rows), "--json", "--out", str(out)]) == 0
    score = json.loads(capsys.readouterr().out)
    found = pd.read_parquet(out) if suffix == ".parquet" else pd.read_excel(out, dtype={"source_id": str})
    assert found["source_id"].tolist() == ["007", "b", "c"]
    assert found["n_layers"].tolist() == [12, 12, 24]
    assert found["time_error_pct"].abs().mean() == pytest.approx(score["time"]["mape"], rel=1e-12)
    assert found["memory_error_pct"].notna().tolist() == [True, False, False]
    assert found["assumptions"][1].startswith("skipped: training.precision")
    assert list(found)[-7:-5] == ["predicted_step_time_s", "predicted_low_s"]
    assert run(["validate", str(out), "--json", "--out", str(tmp_path / "again.csv")]) == 0
    captured = capsys.readouterr()
    again = json.loads(captured.out)
    assert captured.err.startswith("not read: columns predicted_step_time_s")
    assert {name: again[name] for name in ("time", "memory", "by")} == {
        name: score[name] for name in ("time", "memory", "by")
    }


def test_a_layer_table_goes_out_as_parquet(tmp_path, capsys):
    (tmp_path / "scenario.json").write_text(json.dumps(LLAMA))
    out = tmp_path / "layers.parquet"
    assert run(["estimate", str(tmp_path / "scenario.json"), "--table", str(out)]) == 0
    found = pd.read_parquet(out)
    rows = layer_table(scenario_from_json(LLAMA))
    assert tuple(found) == COLUMNS
    assert found["forward_s"].tolist() == [row.forward_s for row in rows]


@pytest.mark.parametrize(("suffix", "library"), [(".parquet", "pyarrow"), (".XLSX", "openpyxl")])
def test_without_its_library_a_file_is_refused_before_anything_is_predicted(
    tmp_path, capsys, monkeypatch, suffix, library
):
    monkeypatch.setitem(sys.modules, library, None)
    (tmp_path / "rows.csv").write_text(ROWS)
    out = tmp_path / f"out{suffix}"
    assert run(["validate", str(tmp_path / "rows.csv"), "--out", str(out)]) == 2
    captured = capsys.readouterr()
    assert captured.err == (
        f"headroom: {out}: {suffix} needs {library}, which is not installed. "
        f"Install it by make run EXTRAS=tables or pip install {library}, or use CSV.\n"
    )
    assert captured.out == ""


def test_other_suffixes_are_csv(tmp_path):
    assert not needs_pandas(tmp_path / "rows.txt")
    assert not needs_pandas(tmp_path / "rows")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("content", "words"),
    [(b"no table", "cannot be read as"), (b"", "cannot be read as"), (b" " * 101, "is longer than")],
)
def test_a_damaged_or_large_file_is_named(tmp_path, suffix, content, words):
    path = tmp_path / f"rows{suffix}"
    path.write_bytes(content)
    with pytest.raises(InputProblems, match=words) as caught:
        read_cells(path, 100)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_place_that_cannot_be_written_or_read_is_named(tmp_path, suffix):
    path = tmp_path / "none" / f"rows{suffix}"
    with pytest.raises(InputProblems, match="cannot be written"):
        write_frame(path, FRAME)
    with pytest.raises(InputProblems, match="cannot be read: No such file"):
        read_cells(path, 100)


@pytest.mark.parametrize("command", ["estimate", "validate"])
def test_commands_import_pandas_only_for_its_files(tmp_path, command):
    given = tmp_path / "given"
    given.write_text(json.dumps(LLAMA) if command == "estimate" else ROWS)
    option = "--table" if command == "estimate" else "--out"
    code = (
        "import sys\nfrom app.cli import run\n"
        f"run([{command!r}, {str(given)!r}, {option!r}, {str(tmp_path / 'out.csv')!r}])\n"
        "print(sorted({'pandas', 'pyarrow', 'openpyxl', 'torch', 'scipy'} & set(sys.modules)), file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stderr.splitlines()[-1] == "[]"  # behind what is said of rows that are left out
    assert (tmp_path / "out.csv").stat().st_size > 0
