"""``headroom import``: measurements of files, and the names of those that cannot be read."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from app.cli import run
from app.commands.settings import settings_from
from app.disk import DataFolder, write_json
from app.this_cpu import ThisCpu
from estimator.scenario import catalog
from estimator.scenario.codec import encode
from estimator.scenario.op_list import from_json
from tests.app.examples import MEASUREMENT

CPU_TRACE = Path(__file__).parents[2] / "reference" / "cpu_step" / "trace.json.gz"
OPS = Path(__file__).parents[2] / "reference" / "ops" / "gpt2.json"
TRACE = Path(__file__).parents[2] / "reference" / "h200" / "trace-short-1.trace.json.gz"


def test_import_gives_measurements_and_names_files_that_cannot_be_read(write, capsys):
    good, bad = write(encode(MEASUREMENT), "good.json"), write("nothing here", "bad.txt")
    assert run(["import", good, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"measurements", "warnings", "skipped"}
    assert found["measurements"][0]["steps_s"] == [0.011, 0.010, 0.012]
    assert run(["import", good, bad, "--json"]) == 2
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["measurements"]) == 1
    assert captured.err.startswith(f"headroom: {bad}: ")
    assert len(captured.err.splitlines()) == 1
    assert run(["import", good]) == 0
    assert "step 11 ms" in capsys.readouterr().out


def test_a_disturbed_step_is_said(write, capsys):
    assert run(["import", write(encode(replace(MEASUREMENT, steps_s=(0.05, 0.01, 0.012))), "disturbed.json")]) == 0
    assert "step 10 ms  disturbed: steps differ by 5.0×; the fastest is shown" in capsys.readouterr().out


def test_a_profile_is_shown_beside_its_own_prediction_with_the_scenario_it_may_be_of(tmp_path, capsys):
    out = tmp_path / "ops.json"
    assert run(["import", str(TRACE), "--ops", str(out)]) == 0
    said = capsys.readouterr().out
    assert "own prediction on h200-sxm: step 5" in said
    assert "matmul" in said
    assert "model.hidden" in said
    assert "guessed: " not in said.split("model.hidden")[1].splitlines()[0]
    assert from_json(json.loads(out.read_text())).source == "profile"
    assert run(["estimate", str(out), "--json"]) == 0
    step_s = json.loads(capsys.readouterr().out)["step_time_s"]
    for chip, told in (
        ("h200", r"measured +57.2 ms; predicted [+-]\d+%\n"),
        ("b200", r"measured +57.2 ms on NVIDIA H200 .*B\n"),
    ):
        assert run(["estimate", str(out), "--chip", chip]) == 0
        assert re.search(told, capsys.readouterr().out), "what another chip takes is no error"
    assert run(["import", str(TRACE), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["measurements"]
    assert found["expected"]["estimate"]["step_time_s"] == step_s
    assert found["proposed"]["scenario"]["model"]["layers"] == 2
    again = tmp_path / "measurements.json"
    again.write_text(json.dumps(found))
    assert run(["import", str(again), "--json"]) == 0  # what is shown beside a measurement is no part of it


@pytest.mark.usefixtures("catalogue_as_before")
def test_a_profile_of_a_cpu_is_predicted_where_that_is_measured_and_else_says_which_command_does(tmp_path, capsys):
    assert run(["import", str(CPU_TRACE)]) == 0
    said = capsys.readouterr().out
    assert "own prediction: none yet" in said
    assert "headroom estimate OPS.json does" in said
    assert "nothing can be predicted" not in said
    settings = settings_from({})
    folder = DataFolder(settings.data)
    folder.create()
    chip = replace(catalog.chip("h100-sxm"), kind="cpu")
    write_json(ThisCpu(folder, settings.probe_seconds).cache_file, {"chip": encode(chip)})
    assert run(["import", str(CPU_TRACE)]) == 0
    assert "own prediction on cpu: step" in capsys.readouterr().out
    ops = str(tmp_path / "ops.json")
    assert run(["import", str(CPU_TRACE), "--ops", ops]) == 0
    for share_frac, doubted in ((0.9, False), (0.11, True)):
        kept = {"chip": encode(chip), "samples": {"cpu_share_frac": share_frac}}
        write_json(ThisCpu(folder, settings.probe_seconds).cache_file, kept)
        capsys.readouterr()
        assert run(["import", str(CPU_TRACE)]) == 0
        assert ("its prediction says nothing" in " ".join(capsys.readouterr().out.split())) == doubted
        assert run(["estimate", ops]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert ("it says nothing, as this CPU was busy when it was measured" in said) == doubted
        assert "A profile does not say which CPU it ran on" in said


@pytest.mark.parametrize(
    ("device", "said"),
    [({}, "it does not say its GPU. headroom estimate OPS.json --chip KEY does"), ({"name": "MTIA"}, "called MTIA")],
)
def test_why_a_profile_has_no_prediction_of_its_own_is_said(write, capsys, device, said):
    document = json.loads(OPS.read_text(encoding="utf-8")) | {"chip": str(device.get("name", ""))}
    assert run(["import", write(document, "unnamed.ops.json")]) == 0
    assert said in " ".join(capsys.readouterr().out.split())


def test_an_op_list_is_written_of_one_profile(write, tmp_path, capsys):
    good = write(encode(MEASUREMENT), "good.json")
    assert run(["import", good, "--ops", str(tmp_path / "ops.json")]) == 2
    assert "--ops" in capsys.readouterr().err
    assert not (tmp_path / "ops.json").exists()
