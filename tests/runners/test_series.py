"""Series: many steps in one group of processes, a result for each, predictions beside them."""

from __future__ import annotations

import json
import statistics
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from app.commands.predict import predict
from estimator.cost.efficiency import efficiencies
from estimator.scenario.breakdown import Phase
from estimator.scenario.measurement import Kernel, MeasuredMemory, Measurement
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import scenario_from_json
from runners.job import read_measurement
from runners.options import ProgramOptions, options_of
from runners.program_of import program_of
from runners.reference.plans import plans
from runners.refusals import refusals
from runners.series import MOST_KERNELS, run, trimmed, without_what_was_left
from runners.series_list import entries_of
from tests.forks import run_ranks
from tests.runners.examples import ROOT, scenario_json
from tests.runners.programs import GPT2

REFERENCE = Path(__file__).parents[1] / "reference"
NAMES = ("ddp-2", "fsdp-2", "tp-sequence-2", "cp-ring-2", "ep-grouped-2", "pp-1f1b-2")
MODEL = {"name": "model", "config": GPT2, "program": {"batch": 2, "seq": 16, "precision": "bf16-amp"}, "steps": 2}
MADE = {"name": "made", "module": "tests/runners/programs.py:as_dict", "program": MODEL["program"], "steps": 2}


def start(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_ranks(2, "series", *arguments, "--device", "cpu", "--out", str(folder), cwd=ROOT)


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    """A list with steps of the small reference series, one that cannot be and one that is there already."""
    folder = tmp_path_factory.mktemp("series")
    entries = [entry for entry in plans(2, small=True) if entry["name"] in NAMES]
    entries.append({"name": "refused", "scenario": scenario_json(plan={"tp": 4}, cluster={"chips_per_node": 4})})
    entries.append({**entries[0], "name": "there"})
    entries += [MODEL, MADE]
    (folder / "list.json").write_text(json.dumps(entries), encoding="utf-8")
    (folder / "there.json").write_text(json.dumps({"label": "measured before"}), encoding="utf-8")
    done = start(folder, str(folder / "list.json"))
    return folder, done


def test_every_step_has_a_result(series):
    folder, done = series
    assert done.returncode == 1, done.stderr[-3000:]  # of the one that was refused
    for name in NAMES:
        found = read_measurement(folder / f"{name}.json")
        assert found.status == "ok", found.warnings
        assert found.world_size == 2
        assert sum(found.phases_s.values()) == pytest.approx(found.samples["spread"]["step"]["median_s"])
        assert len(found.samples["communication"]["kernels_s"]) == 2
        assert found.samples["loss"] > 0
        assert found.kernels
    refused = read_measurement(folder / "refused.json")
    assert refused.status == "failed"
    assert "plan.tp" in refused.warnings[-1].message
    assert read_measurement(folder / "there.json").label == "measured before"


def test_a_model_of_transformers_is_measured_and_predicted_from_its_config(series, tmp_path, capsys):
    folder, _ = series
    found = read_measurement(folder / "model.json")
    assert (found.status, found.scenario, len(found.steps_s)) == ("ok", {}, 2), found.warnings
    assert found.samples["program"]["config"] == GPT2
    assert found.samples["program"]["options"]["precision"] == "bf16-amp"
    made = read_measurement(folder / "made.json")
    assert (made.status, made.samples["program"]["module"]) == ("ok", MADE["module"]), made.warnings
    (tmp_path / "list.json").write_text(json.dumps([MODEL, {**MODEL, "name": "none", "config": {"model_type": "x"}}]))
    with pytest.raises(InputProblems, match="none: config: cannot be traced"):
        predict(tmp_path / "list.json", 2, "h200-sxm", None, tmp_path, as_json=False)
    assert "model" in capsys.readouterr().out, "one that cannot be predicted keeps no other from it"
    (one,) = json.loads((tmp_path / "predictions.json").read_text())
    assert one["name"] == "model"
    assert 0 < one["interval_s"][0] <= one["step_time_s"] <= one["interval_s"][1]
    parameters = sum(p.numel() for p in program_of(hf=GPT2, options=ProgramOptions(), device="cpu").module.parameters())
    assert one["peak_bytes"] > 16 * parameters  # weights, gradients and both moments in fp32
    (tmp_path / "list.json").write_text(json.dumps([MADE]))
    assert predict(tmp_path / "list.json", 1, "h200-sxm", None, tmp_path / "made", as_json=False) == 0
    (tmp_path / "list.json").write_text(json.dumps([{**MODEL, "name": "laid out"}]))
    plan = ["dp=2", "sharding=fsdp"]
    assert predict(tmp_path / "list.json", 1, "h200-sxm", None, tmp_path, as_json=False, plan=plan) == 0
    _, laid = json.loads((tmp_path / "predictions.json").read_text())
    assert laid["peak_bytes"] < one["peak_bytes"]
    with pytest.raises(InputProblems, match="laid out: --plan: stands there under dp=2 sharding=fsdp"):
        predict(tmp_path / "list.json", 1, "h200-sxm", None, tmp_path, as_json=False)
    (tmp_path / "list.json").write_text(json.dumps([{"name": "scenario", "scenario": scenario_json()}]))
    with pytest.raises(InputProblems, match="a scenario has its own"):
        predict(tmp_path / "list.json", 1, "h200-sxm", None, tmp_path, as_json=False, plan=plan)


def test_pipelines_have_bubbles_and_other_plans_exposed_communication(series):
    folder, _ = series
    assert read_measurement(folder / "pp-1f1b-2.json").phases_s[Phase.BUBBLE] > 0
    for name in ("tp-sequence-2", "cp-ring-2", "fsdp-2"):
        found = read_measurement(folder / f"{name}.json")
        assert found.phases_s[Phase.EXPOSED_COMMUNICATION] > 0, name
        assert found.samples["communication"]["exposed_minimum_s"] <= found.samples["communication"]["exposed_mean_s"]


def test_predictions_stand_beside_what_was_measured(series, tmp_path, capsys):
    folder, _ = series
    entries = [entry for entry in plans(2, small=True) if entry["name"] in NAMES]
    (tmp_path / "list.json").write_text(json.dumps(entries), encoding="utf-8")
    assert predict(tmp_path / "list.json", 1, "h200-sxm", None, tmp_path / "results", as_json=False) == 0
    first = json.loads((tmp_path / "results" / "predictions.json").read_text())
    assert [one["name"] for one in first] == [entry["name"] for entry in entries]
    assert not any(one["measured_before"] for one in first)
    for name in NAMES:
        (tmp_path / "results" / f"{name}.json").write_bytes((folder / f"{name}.json").read_bytes())
    # What was predicted first stays, with whatever it would be predicted now
    numbers = {
        "base": "hopper",
        "ranges": {"gemm_matrix_frac": {"value": 0.1, "low": 0.1, "high": 0.1, "unit": "", "source": ""}},
    }
    (tmp_path / "calibration.json").write_text(json.dumps(numbers), encoding="utf-8")
    capsys.readouterr()
    predict(tmp_path / "list.json", 1, "h200-sxm", [tmp_path / "calibration.json"], tmp_path / "results", as_json=True)
    printed = capsys.readouterr()
    many = len(entries)
    said = " ".join(printed.err.split())
    assert said.startswith(f"headroom: {many} of {many} predictions stood before in {tmp_path / 'results'}")
    assert f"stay as they are: {', '.join(NAMES)}. --calibration is not used. To predict anew, name other" in said
    compared = json.loads(printed.out)
    assert [one["step_time_s"] for one in compared] == [one["step_time_s"] for one in first]
    for one in compared:
        assert one["time_error_frac"] == pytest.approx(one["step_time_s"] / one["measured"]["step_time_s"] - 1)
    predict(tmp_path / "list.json", 1, "h200-sxm", None, folder, as_json=False)
    assert "6 steps had been measured before they were predicted" in capsys.readouterr().out


def test_a_step_is_told_at_the_pace_at_which_its_host_ran(capsys):
    folder = REFERENCE / "h200_programs"
    predict(folder / "third.json", 1, "h200-sxm", None, folder / "third_one", as_json=True)
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert len(found) == 39
    for one in found.values():
        measured = json.loads((folder / "third_one" / f"{one['name']}.json").read_text())
        paces = [min(pace_s / one["host_pace_s"], 2.0) for pace_s in measured["samples"]["host_paces_s"]]
        assert one["host_factor"] == pytest.approx(statistics.fmean(paces))
        at_pace_s = (1 + one["at_pace_error_frac"]) * one["measured"]["step_time_s"]
        # between what it takes at the next lower and the next higher of the paces at which it is predicted
        factor = min(max(one["host_factor"], one["over_paces_s"][0][0]), one["over_paces_s"][-1][0])
        quicker = [step_s for pace, step_s in one["over_paces_s"] if pace <= factor]
        slower = [step_s for pace, step_s in one["over_paces_s"] if pace >= factor]
        assert quicker[-1] * (1 - 1e-12) <= at_pace_s <= slower[0] * (1 + 1e-12)
    # A step that the host binds follows its pace, one that the device binds does not.
    assert found["smollm-135m-host"]["over_paces_s"][-1][1] > 2 * found["smollm-135m-host"]["step_time_s"]
    assert found["llama-8b-3l-bf16"]["over_paces_s"][-1][1] < 1.05 * found["llama-8b-3l-bf16"]["step_time_s"]


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_traced_step_is_told_beside_the_pace_of_a_host_that_its_own_ranks_share(ranks, tmp_path):
    """Not of all eight that a node of the chip has."""
    pace = {"value": 4e-6, "low": 4e-6, "high": 4e-6, "unit": "s", "source": "probed"}
    (tmp_path / "list.json").write_text(json.dumps([MADE]), encoding="utf-8")
    (tmp_path / "own.json").write_text(json.dumps({"base": "hopper", "ranges": {"host_pace_s": pace}}))
    predict(tmp_path / "list.json", ranks, "h200-sxm", [tmp_path / "own.json"], tmp_path, as_json=False)
    (one,) = json.loads((tmp_path / "predictions.json").read_text())
    assert one["host_pace_s"] == pytest.approx(4e-6 * ranks ** efficiencies("hopper").host_ranks_power)
    assert dict(map(tuple, one["over_paces_s"]))[1.0] == pytest.approx(one["step_time_s"])


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_the_reference_series_is_legal_and_measurable(ranks):
    for small in (False, True):
        found = entries_of(plans(ranks, small=small))
        assert len(found) >= 20
        for entry in found:
            scenario = scenario_from_json(entry.scenario)
            options = options_of("step", entry.options)
            assert refusals(scenario, world_size=ranks, cuda=not small, options=options) == [], entry.name


@pytest.mark.parametrize("entry", ["scenario", "program"])
def test_a_step_that_a_series_did_not_come_to_profile_keeps_its_pace(entry, tmp_path, monkeypatch):
    over = iter([False, True])
    monkeypatch.setattr("runners.series._over", lambda ranks, end_s: next(over))
    given = {"scenario": {"name": "one", "scenario": scenario_json(), "steps": 2}, "program": {**MADE, "name": "one"}}
    assert run(entries_of([given[entry]]), tmp_path, "cpu", print) == 0
    found = read_measurement(tmp_path / "one.json")
    assert [warning.code for warning in found.warnings][-1:] == ["not_profiled"]
    assert len(found.steps_s) == len(found.samples["host_paces_s"]) == 2
    assert [len(paces) for paces in found.samples["host_backward_paces_by_rank_s"]] == [2]
    assert ("program" in found.samples) == (entry == "program")


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"name": "one"}, "is not a list"),
        ([{"name": "one", "config": GPT2}, {"name": "one", "config": GPT2}], "'one' names two steps"),
        ([{"name": "../one", "config": GPT2}], "or a folder"),
        ([{"config": GPT2}], "name"),
        ([{"name": "one"}], "is missing, as are config and module"),
        ([{"name": "one", "config": GPT2, "module": "a.py:b"}], "stands beside module"),
        ([{"name": "one", "config": GPT2, "scenario": scenario_json()}], "stands beside config"),
    ],
)
def test_a_list_that_is_none_is_refused(document, words):
    with pytest.raises(InputProblems, match=words):
        entries_of(document)


def test_a_result_of_a_series_names_its_longest_kernels_alone():
    kernels = tuple(
        Kernel(name=f"kernel {i}" * 50, category="matmul" if i % 2 else "other", count=2, total_s=1.0 / (i + 1))
        for i in range(100)
    )
    found = trimmed(replace(Measurement(), kernels=kernels, samples={"definitions": {}, "loss": 1.0}))
    assert len(found.kernels) == MOST_KERNELS + 2
    assert sum(kernel.total_s for kernel in found.kernels) == pytest.approx(sum(k.total_s for k in kernels))
    assert sum(kernel.count for kernel in found.kernels) == 200
    assert found.samples == {"loss": 1.0}


def test_what_steps_before_left_is_taken_off_a_peak_and_said():
    found = Measurement(memory=MeasuredMemory(peak_bytes=10e9), samples={"peak_bytes_by_rank": [10e9, 9e9]})
    mended = without_what_was_left(found, [4e9, 3e9])
    assert mended.memory.peak_bytes == 6e9
    assert mended.samples["peak_bytes_by_rank"] == [6e9, 6e9]
    assert [warning.code for warning in mended.warnings] == ["memory_left"]
    assert without_what_was_left(found, [0.0, 0.0]) == found
    assert without_what_was_left(found, [1e3, 0.0]).warnings == ()
