"""headroom calibrate: files to a calibration, which predictions take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli import run
from app.commands.files import WIDTH
from estimator.cost.calibration import calibration_from_json, own_counts
from estimator.cost.efficiency import efficiencies
from estimator.scenario.units import seconds
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
    alone = "nothing of its kind was measured alone, for longer than the host needs to launch it: "
    grouped = " ".join(said.split())
    assert grouped.count(alone) == 1, "a reason is said once, for all that it holds for"
    assert "gemm_matrix_frac, gemm_start_s, gemm_overlap_power (products)" in grouped.partition(alone)[2]
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
    assert f", {len(scaled)} scaled along;" in found["assumptions"][0]
    assert f"{own} constants measured, {len(scaled)} scaled" in said, "both count the same"
    assert run(["estimate", str(scenario), "--calibration", str(PROBES)]) == 2
    said = f"headroom: --calibration {PROBES}: this is a measurement, no calibration. Give it to `headroom calibrate`"
    assert said in capsys.readouterr().err
    assert run(["estimate", str(scenario), "--calibration", str(scenario)]) == 2
    said = f"headroom: --calibration {scenario}: this is a scenario, no calibration. Predict it: "
    assert said in capsys.readouterr().err


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
    named = " ".join(said.split())
    assert f"from {PROBES}, {again} nothing taken from" in named, "files of one name are told apart"
    assert "nothing taken from step.json: whole steps say nothing of single kernels" in named
    rows = _rows(said)
    assert {points for points, residual in rows.values() if not residual} >= {"1", "scaled"}
    with_one = {points for points, residual in rows.values() if residual}
    assert all(points.isdigit() and int(points) > 1 for points in with_one), "a single point has no residual"


def _rows(said: str) -> dict[str, tuple[str, str]]:
    """Points and residual, "" where there is none, of each constant in the table."""
    header, *lines = said.split("\n\n")[1].splitlines()
    ends = [header.index(name) + len(name) for name in ("inherited", "points", "residual")]
    return {
        line.split()[0]: (line[ends[0] : ends[1]].split()[-1], line[ends[1] : ends[2]].strip())
        for line in lines
        if "rates fitted" not in line
    }


@pytest.mark.parametrize("probes", ["h200_host/probes.json", "h100_drawn/probes-one-a0.json"])
def test_what_is_printed_is_read_in_a_hundred_columns(probes, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a path of the user's own may be longer than a line
    assert run(["calibrate", str(REFERENCE / probes), "--out", "made.json"]) == 0
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= WIDTH
    document = json.loads(Path("made.json").read_text())
    own, base = document["ranges"]["host_forward_s"], efficiencies(document["base"]).host_forward_s
    (line,) = [line for line in said.splitlines() if line.startswith("host_forward_s")]
    for words in (seconds(own["value"]), f"{seconds(own['low'])} to {seconds(own['high'])}", seconds(base)):
        assert words in line
    assert f"×{own['value'] / base:.2f}" in line
    assert _rows(said).keys() == document["ranges"].keys()
    counts = own_counts(document["ranges"], len(document["tables"]))
    assert counts.measured + counts.scaled == len(_rows(said))
    tables = {0: "", 1: " and 1 table of tiles", 2: " and 2 tables of tiles"}[counts.tables]
    assert f"{counts.measured} constants{tables} measured, {counts.scaled} scaled" in said
    about = calibration_from_json(document, "made").about
    assert about.startswith(f"{counts.measured} of their constants{tables} were measured on ")
    assert "scaled: not measured, but moved along with what was" in said
    of_fp32 = "fp32 products: of fp32 vector peak"
    block = said.partition("what the constants are:\n")[2].partition("\n\n")[0]
    meanings = dict(line.strip().split(maxsplit=1) for line in block.splitlines() if line[2] != " ")
    assert meanings.keys() == document["ranges"].keys(), "each says in words what it is"
    assert meanings["host_forward_s"] == "per forward kernel of plain PyTorch"
    assert meanings.get("gemm_vector_frac", of_fp32) == of_fp32
    undetermined = {one["reason"] for one in document["undetermined"]}
    for reason in undetermined:
        assert " ".join(said.split()).count(f"{reason}: ") == 1
    assert said.endswith("headroom estimate SCENARIO.json --calibration made.json\n")
