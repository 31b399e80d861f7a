"""``headroom run``: shown, measured, kept and held against its prediction; jobs that are refused, runs that fail."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from types import SimpleNamespace

import pytest

from app.cli import run
from app.commands.running import _text, _watch
from app.runs.run import Run
from estimator.scenario.measurement import Warning
from runners.job import progress, state
from tests.app.examples import LLAMA, MEASUREMENT, knows_cpu, scenario

pytestmark = pytest.mark.usefixtures("warm_python")

JOB = {"scenario": scenario(), "device": "cpu", "warmup": 1, "steps": 2}
ROWS_JOB = {
    "benchmark": "attention",
    "device": "cpu",
    "warmup": 0,
    "steps": 1,
    "options": {
        "implementations": ["naive"],
        "dims": [16],
        "seq_lens": [64],
        "precisions": ["fp32"],
        "causals": ["no"],
    },
}


def test_run_measures_keeps_the_result_and_lays_it_beside_its_prediction(write, capsys, tmp_path):
    assert run(["run", write(JOB), "--dry-run", "--json"]) == 0
    request = json.loads(capsys.readouterr().out)
    assert request["command"][4:7] == ["-m", "runners", "step"]
    assert run(["run", write(JOB), "--dry-run"]) == 0
    captured = capsys.readouterr()
    assert "-m runners step" in captured.out
    assert "does not exist yet" in captured.err
    assert list((tmp_path / "data" / "runs").iterdir()) == []

    assert run(["run", write(JOB)]) == 0
    captured = capsys.readouterr()
    assert "measure 2/2" in captured.err
    (folder,) = (tmp_path / "data" / "runs").iterdir()
    assert len(json.loads((folder / "result.json").read_text())["steps_s"]) == 2
    found = re.search(r"^predicted    \d\S* ms on a100-80gb-sxm(, [+-]\d+\.\d%)?$", captured.out, re.MULTILINE)
    assert found, "the scenario's chip is named, whatever measured"
    assert bool(found[1]) is ("disturbed: steps differ by" not in captured.out)
    assert ("of the median step" in captured.out) is ("disturbed: steps differ by" in captured.out)


def test_disturbed_steps_are_said_with_the_fastest_and_are_no_error_of_the_prediction():
    for steps_s, words, error in (
        ((0.02, 0.01, 0.05), "10 ms  (disturbed: steps differ by 5.0×; the fastest is shown)", False),
        ((0.02, 0.019, 0.021), "20 ms  (19 ms to 21 ms)", True),
    ):
        _, step, predicted, *rest = _text(Run(id="r1", state="ok"), dataclasses.replace(MEASUREMENT, steps_s=steps_s))
        assert step == f"step time    {words}"
        assert ("%" in predicted) is error
        assert ("by phase, of the median step:" in rest) is not error


def test_warnings_of_a_run_are_told_with_its_figures_and_why_it_failed_is_not_among_them():
    busy, why = Warning(code="busy_machine", message="other programs kept 1.4 of 2 processors busy meanwhile"), "oom"
    one = dataclasses.replace(MEASUREMENT, status=why, warnings=(busy, Warning(code=why, message="no room")))
    said = _text(Run(id="r1", state="oom"), one)
    assert said[-1] == f"warning      {busy.message}"
    assert "no room" not in " ".join(said)


def test_rows_are_counted_and_stand_beside_their_predictions(write, capsys, tmp_path):
    knows_cpu(tmp_path / "data")
    assert run(["run", write(ROWS_JOB)]) == 0
    text, told = capsys.readouterr()
    shape = "naive, fp32, batch 2, heads 4, seq len 64, head dim 16, forward"
    assert re.search(rf"^measure 1/3  \d\S* \ws  {shape}$", told, re.MULTILINE), "what tells a row apart"
    assert told.splitlines()[:3] == ["queued", "running", "build 1/1"]
    assert re.search(r"^rows         3: 3 ok$", text, re.MULTILINE), text
    assert re.search(r"^predicted    on This CPU", text, re.MULTILINE), text
    errors = r"^  median_s  3 rows: median error ±\d+\.\d%, on average \d+\.\d% too (low|high)$"
    assert re.search(errors, text, re.MULTILINE), text

    assert run(["run", write(ROWS_JOB), "--json"]) == 0
    document = capsys.readouterr().out
    found = json.loads(document)
    assert len(found["rows"]) == 3
    assert found["rows_by_status"] == {"ok": 3}
    assert found["predicted_rows"]["errors"]["median_s"]["n"] == 3
    assert all(row["median_s"] > 0 for row in found["predicted_rows"]["rows"])
    assert run(["import", write(document, "result.json"), "--json"]) == 0
    (imported,) = json.loads(capsys.readouterr().out)["measurements"]
    assert imported["rows"] == found["rows"], "what a run prints can be imported"


def test_states_of_runs_of_an_array_are_told_once_and_their_ends_by_a_word(capsys):
    class Told:
        async def events(self, run_id):
            for event in (
                state("queued", "Priority"), state("queued", "Priority"), state("running"), state("running"),
                progress("warmup", 1, 2, 0.01), state("cancelled", "stopped"), state("failed", "at its limit"),
            ):  # fmt: skip
                yield 1, json.dumps(event)

    for several, start in ((True, "mine: "), (False, "")):
        asyncio.run(_watch(Told(), SimpleNamespace(id="1", label="mine"), several))
        words = ["queued: Priority", "running", "warmup 1/2  10 ms", *["failed"] * several]
        assert capsys.readouterr().err.splitlines() == [start + word for word in words]


def test_a_number_of_processes_with_nothing_to_measure_is_refused_before_anything_starts(write, capsys, tmp_path):
    assert run(["run", write({"benchmark": "collectives"})]) == 2
    assert "world_size: one process has nobody to talk to. Set the processes to two or more" in capsys.readouterr().err
    assert run(["run", write({"options": {"models": ["tiny"]}, "world_size": 2})]) == 2
    assert "world_size: a grid runs on one rank" in capsys.readouterr().err
    assert not list((tmp_path / "data" / "runs").iterdir())


def test_a_run_that_fails_says_why(write, capsys):
    assert run(["run", write(JOB | {"steps": 100_000, "time_limit_s": 1})]) == 1
    said = capsys.readouterr().err
    assert said.splitlines()[-1].endswith(" failed: stopped at its time limit of 1 s")
    assert said.count("stopped") == 1, said
    assert run(["run", write(JOB | {"device": "cuda"})]) == 2
    assert capsys.readouterr().err.startswith("headroom: device: this machine has no GPU. ")


@pytest.mark.parametrize(
    ("options", "content", "words"),
    [
        ([], {"steps": 0}, "steps: 0 is out of range"),
        ([], LLAMA, 'is a scenario, which a job holds inside. Write {"benchmark": "step", "scenario": {...}}.'),
        ([], [{}, 1], "[1]: must be a job, a JSON object. "),
        (["--dry-run"], {"scenario": scenario(plan__dp=2)}, "scenario.plan.dp: "),
        (["--dry-run"], {"scenario": scenario(training__framework="xla")}, "scenario.training.framework: "),
    ],
)
def test_bad_input_is_one_line_per_problem(refused, options, content, words):
    refused(["run", *options], content, words)
