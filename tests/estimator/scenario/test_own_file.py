"""A file of Headroom's own where another is expected: what it is, and where it belongs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.commands.importing import measurements_of
from app.importers.imported import ImportRefused
from estimator.calibration.calibrate import Source, calibrate, to_document
from estimator.scenario.huggingface.config import read_hf
from estimator.scenario.own_file import own_file
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import scenario_from_json
from tests.app.examples import scenario

REFERENCE = Path(__file__).parents[2] / "reference"
PROBES = REFERENCE / "h200_programs" / "launches.json"


@pytest.fixture(scope="module")
def calibration():
    ((measurement, _),) = measurements_of(PROBES)
    return to_document(calibrate([Source(name=PROBES.name, measurement=measurement)]))


@pytest.mark.parametrize("kind", ["calibration", "op list", "scenario", "measurement"])
def test_a_file_of_ones_own_is_told_where_a_models_config_is_expected(calibration, kind):
    documents = {
        "calibration": calibration,
        "op list": json.loads((REFERENCE / "ops" / "gpt2.json").read_text()),
        "scenario": scenario(),
        "measurement": json.loads(PROBES.read_text()),
    }
    with pytest.raises(InputProblems) as raised:
        read_hf(documents[kind])
    (problem,) = raised.value.problems
    assert problem.message == f"this is {'an' if kind == 'op list' else 'a'} {kind}, no config.json"
    assert "headroom " in problem.remedy


def test_where_a_calibration_belongs_is_said_wherever_it_is_given(calibration, tmp_path):
    with pytest.raises(InputProblems) as raised:
        scenario_from_json(calibration)
    (problem,) = raised.value.problems
    assert (problem.field, problem.message) == ("ranges", "this is a calibration, no scenario")
    assert "--calibration FILE" in problem.remedy
    path = tmp_path / "own.json"
    path.write_text(json.dumps(calibration))
    with pytest.raises(ImportRefused) as refused:
        measurements_of(path)
    assert (refused.value.format, refused.value.remedy) == ("calibration", problem.remedy)


@pytest.mark.parametrize("names", [(), ("model_type", "architectures"), ("base", "name"), ("model",)])
def test_what_is_none_of_them_is_left_to_whoever_reads_it(names):
    assert own_file(names) is None
