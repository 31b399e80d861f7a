"""headroom calibrate: files to a calibration, which predictions take."""

from __future__ import annotations

import json
from pathlib import Path

from app.cli import run
from tests.app.importers.kineto import made

REFERENCE = Path(__file__).parents[2] / "reference"
PROBES = REFERENCE / "h200_programs" / "launches.json"


def test_probes_become_a_file_that_estimates_take(tmp_path, capsys):
    assert run(["calibrate", str(PROBES), "--out", str(tmp_path / "calibration.toml")]) == 2
    assert "--out: calibration.toml would be TOML, a calibration is JSON. End it with .json." in capsys.readouterr().err
    out = tmp_path / "calibration.json"
    assert run(["calibrate", str(PROBES), "--out", str(out), "--name", "our H200"]) == 0
    said = capsys.readouterr().out
    assert "our H200, from launches.json" in said
    assert "host_forward_s" in said
    assert "gemm_matrix_frac: nothing of products was measured alone" in said
    document = json.loads(out.read_text())
    assert document["device"] == "NVIDIA H200"
    assert document["host"] == "Intel(R) Xeon(R) Processor, 64 cores"
    scenario = tmp_path / "scenario.json"
    scenario.write_text(
        json.dumps(
            {
                "model": "gpt2",
                "cluster": {"chip": "h200-sxm", "chips_per_node": 1},
                "training": {"seq_len": 128, "global_batch": 1, "precision": "bf16"},
            }
        )
    )
    steps = []
    for options in ([], ["--calibration", str(out)]):
        assert run(["estimate", str(scenario), "--json", *options]) == 0
        found = json.loads(capsys.readouterr().out)
        steps.append(found["step_time_s"])
    assert steps[1] > 1.05 * steps[0], "launch-bound, on a host slower than most"
    assert "our H200" in found["assumptions"][0]
    scaled = [name for name, one in document["ranges"].items() if not one["points"]]
    assert "host_put_off_s" in scaled
    assert "host_forward_s" not in scaled
    own = len(document["ranges"]) - len(scaled)
    assert f"{own} of their constants were measured" in found["assumptions"][0], "what was scaled was not measured"
    assert run(["estimate", str(scenario), "--calibration", str(PROBES)]) == 2
    assert "It is a measurement: give it to `headroom calibrate`" in capsys.readouterr().err


def test_what_determines_nothing_is_refused_in_one_line(tmp_path, capsys):
    step = tmp_path / "step.json"
    step.write_text(json.dumps(json.loads(PROBES.read_text()) | {"rows": []}))
    assert run(["calibrate", str(step), "--out", str(tmp_path / "out.json")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("headroom: step.json: determines no constant: no kernels, launches or collectives were")
    assert "python -m runners probes" in error
    step.write_text(json.dumps(json.loads(PROBES.read_text()) | {"device": {}}))
    assert run(["calibrate", str(step)]) == 2
    assert capsys.readouterr().err.startswith("headroom: step.json: no device is named. Give one that says")
    assert not (tmp_path / "out.json").exists()


def test_a_profile_of_no_chip_of_the_catalogue_is_named_by_its_file(tmp_path, capsys):
    document = made.trace()
    document["traceEvents"] = [event for event in document["traceEvents"] if event.get("cat") != "kernel"]
    hosts = tmp_path / "host.json"
    hosts.write_text(json.dumps(document))
    assert run(["calibrate", str(hosts)]) == 2
    assert capsys.readouterr().err.startswith(f"headroom: {hosts}: is a profile without kernels, which says nothing")
    other = tmp_path / "other.json"
    other.write_text(json.dumps(made.trace(deviceProperties=[{"id": 0, "name": "Chip 9000"}])))
    assert run(["calibrate", str(other)]) == 2
    assert "is a profile of Chip 9000, which is no chip of the catalogue" in capsys.readouterr().err
    assert run(["import", str(hosts)]) == 0
    assert "own prediction: none, as no kernels of its device were recorded" in capsys.readouterr().out


def test_the_same_probes_twice_are_refused_and_a_step_that_gives_nothing_is_named(tmp_path, capsys):
    document = json.loads(PROBES.read_text())
    again = tmp_path / "launches.json"
    again.write_text(json.dumps(document))
    assert run(["calibrate", str(PROBES), str(again)]) == 2
    said = capsys.readouterr().err
    assert f"{PROBES}, {again}: are the same measurements twice. Give them once" in said
    document["rows"][0]["median_s"] *= 1.01
    again.write_text(json.dumps(document))
    step = tmp_path / "step.json"
    step.write_text(json.dumps(document | {"rows": [], "steps_s": [0.1, 0.1]}))
    assert run(["calibrate", str(PROBES), str(again), str(step)]) == 0
    said = capsys.readouterr().out
    assert f"from {PROBES}, {again}\n" in said, "files of one name are told apart"
    assert "nothing taken from step.json: whole steps say nothing of single kernels" in said
    table = [line.split() for line in said.splitlines() if line.startswith("host_")]
    # name, value, low "to" high, residual where there is one, points, unit
    residuals = {(line[6] if line[5].endswith("%") else line[5], line[5].endswith("%")) for line in table}
    assert residuals >= {("1", False), ("scaled", False)}
    with_one = {points for points, has in residuals if has}
    assert all(points.isdigit() and int(points) > 1 for points in with_one), "a single point has no residual"
