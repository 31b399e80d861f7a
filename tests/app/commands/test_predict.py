"""headroom predict: what stands already is said before anything else, and stays."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from pathlib import Path

import pytest

from app.cli import run
from app.commands.predict import NAMED
from tests.app.examples import LLAMA

REFERENCE = Path(__file__).parents[2] / "reference"


def steps(*names):
    return [{"name": name, "scenario": LLAMA} for name in names]


def test_predictions_that_stand_are_named_before_the_others_are_made(write, tmp_path, capsys):
    results = tmp_path / "results"
    asked = ["predict", write(steps("first"), "first.json"), "--results", str(results)]
    assert run(asked) == 0
    assert capsys.readouterr().err == "", "nothing stood"
    both = ["predict", write(steps("first", "second"), "both.json"), "--results", str(results)]
    with contextlib.redirect_stderr(sys.stdout):
        assert run(both) == 0
    said = capsys.readouterr().out
    assert said.startswith("headroom: 1 of 2 predictions stood before in"), "before the table"
    note, _, table = said.partition("\nstep ")
    words = " ".join(note.split())
    assert f"{results}/predictions.json and stays as it is: first. To predict anew, name other --results" in words
    assert "calibration" not in words
    assert [line.split()[0] for line in table.splitlines()[1:3]] == ["first", "second"]
    heads = re.split(r"\s{2,}", table.splitlines()[0].strip())
    assert len(heads) == len({*heads}) == 8, "no two columns are called alike"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["first", "second"], "stays as it is: first. --calibration is of the others alone."),
        (["first"], "stays as it is: first. --calibration is not used."),
    ],
)
def test_a_calibration_is_of_those_that_do_not_stand(write, tmp_path, capsys, asked, words):
    results = str(tmp_path / "results")
    assert run(["predict", write(steps("first"), "first.json"), "--results", results]) == 0
    (first,) = json.loads((tmp_path / "results" / "predictions.json").read_text())
    half = {"value": 0.3, "low": 0.3, "high": 0.3, "unit": "", "source": ""}
    calibration = write({"base": "hopper", "ranges": {"gemm_matrix_frac": half}}, "own.json")
    capsys.readouterr()
    listed = write(steps(*asked), "asked.json")
    assert run(["predict", listed, "--results", results, "--calibration", calibration]) == 0
    assert words in " ".join(capsys.readouterr().err.split())
    found = json.loads((tmp_path / "results" / "predictions.json").read_text())
    assert found[0] == first
    assert all(one["step_time_s"] > 1.5 * first["step_time_s"] for one in found[1:])


def test_measured_steps_of_a_folder_are_predicted_by_their_own_scenarios(write, tmp_path, capsys):
    results = tmp_path / "results"
    results.mkdir()
    measured = {"label": "own", "scenario": LLAMA, "steps_s": [1.0, 1.1], "world_size": 1}
    for name, document in (("own", measured), ("else", {"rows": []}), ("list", [1])):
        (results / f"{name}.json").write_text(json.dumps(document))
    assert run(["predict", "--results", str(results)]) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert rows[0].split()[0] == "own"
    assert "1.05 s" in rows[0]
    assert not any(line.startswith(("else", "list", "ddp")) for line in rows), "nothing else, and no reference series"
    assert not (results / "predictions.json").exists()


def test_of_many_that_stand_some_are_named(write, tmp_path, capsys):
    listed = write(steps(*(f"step-{at}" for at in range(NAMED + 3))), "many.json")
    for _ in range(2):
        assert run(["predict", listed, "--results", str(tmp_path / "results")]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert f"step-{NAMED - 1}, 3 more. To predict anew" in said


def test_a_file_in_place_of_a_folder_is_refused_with_the_folder_it_lies_in(write, capsys):
    step = write({}, "step.json")
    assert run(["predict", "--results", step]) == 2
    assert f"Give the folder that it lies in: {Path(step).parent}." in " ".join(capsys.readouterr().err.split())


def test_a_folder_without_measured_steps_is_said_and_where_they_lie(tmp_path, capsys):
    steps_ = tmp_path / "series" / "steps"
    steps_.mkdir(parents=True)
    measured = sorted((REFERENCE / "h200_drawn" / "seventh" / "1" / "steps").glob("one-megatron-1.7b-6*.json"))
    for path in measured:
        (steps_ / path.name).write_bytes(path.read_bytes())
    (steps_ / "broken.json").write_text("{")
    assert run(["predict", "--results", str(steps_.parent), "--ranks", "2"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert f"{steps_.parent} holds no measured step: what follows is of the reference series for --ranks 2." in said
    assert f"Measured steps lie in {steps_}." in said
    assert run(["predict", "--results", str(steps_)]) == 0
    told = capsys.readouterr()
    assert "1 file of" in told.err
    assert "left out, as no measured step: broken.json." in " ".join(told.err.split())
    assert measured[0].stem[:20] in told.out
    assert not (steps_ / "predictions.json").exists()
