"""Studies as a whole: what is known, how inputs are read and refused, and what an import costs."""

from __future__ import annotations

import dataclasses
import json
import random
import subprocess
import sys

import pytest

from estimator.scenario.problems import InputProblems
from estimator.studies import STUDIES, Figure, describe_study, document, study
from estimator.studies.study import printed


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_describes_itself_and_its_document_is_json(name):
    described = describe_study(name)
    assert described["title"]
    assert described["summary"].endswith(".")
    result = study(name)
    assert result.study == name
    assert {one["name"] for one in described["inputs"]} == {one.name for one in dataclasses.fields(result.inputs)}
    for one in described["inputs"]:
        assert one["help"], one["name"]
        assert one["choices"] or one["type"] == "boolean" or one["minimum"] is not None, one["name"]
        assert getattr(result.inputs, one["name"]) == one["default"]
    found = json.loads(json.dumps(document(result), allow_nan=False))
    assert {"study", "inputs", "figures", "series", "notes"} == set(found)
    assert found["figures"]
    for figure in found["figures"]:
        assert {"group", "name", "value", "unit", "printed"} <= set(figure)
    for series in found["series"]:
        assert len(series["x"]) == len(series["y"]) > 0


@pytest.mark.parametrize("name", STUDIES)
def test_what_a_reference_prints_agrees_and_figures_are_told_apart(name):
    figures = study(name).figures
    assert len({(one.group, one.name) for one in figures}) == len(figures)
    differs = [one for one in figures if one.agrees is False]
    assert not differs


@pytest.mark.parametrize("name", STUDIES)
def test_numbers_come_as_text_too(name):
    texts = {one["name"]: str(one["default"]) for one in describe_study(name)["inputs"]}
    assert study(name, texts) == study(name)


def test_problems_name_the_study_and_the_input():
    with pytest.raises(InputProblems, match="Did you mean 'ulysses-16'"):
        study("ulysses-15")
    with pytest.raises(InputProblems) as caught:
        study("ulysses-16", {"N": "many", "d": "0", "P": "1.5", "heads": "128", "h": "nan"})
    problems = {one.field: one for one in caught.value.problems}
    assert set(problems) == {"N", "d", "P", "heads", "h"}
    assert "a whole number" in problems["N"].message
    assert "out of range" in problems["d"].message
    assert "Known keys: N, d, h" in problems["heads"].remedy


def test_agreement_is_to_the_printed_digits():
    def figure(value, text):
        number, decimals = printed(text)
        return Figure(group="g", name="n", value=value, printed=number, decimals=decimals)

    assert figure(57.6, "57.60").agrees
    assert figure(60.8951, "60.90").agrees
    assert figure(60.8949, "60.90").agrees is False
    assert figure(2.45e-5, "2.5e-05").agrees
    assert figure(2.44e-5, "2.5e-05").agrees is False
    assert figure(8, "8").agrees
    assert figure("nvlink", "nvlink").agrees
    assert figure("ib", "nvlink").agrees is False
    assert Figure(group="g", name="n", value=1.0).agrees is None


@pytest.mark.parametrize("name", STUDIES)
def test_any_legal_inputs_give_finite_figures_or_named_problems(name):
    described = describe_study(name)["inputs"]
    draw = random.Random(name)
    answered, refused = 0, set()
    for _ in range(80):
        settings = {}
        for one in draw.sample(described, draw.randint(1, min(3, len(described)))):
            if one["choices"]:
                settings[one["name"]] = draw.choice(one["choices"])
            elif one["type"] == "boolean":
                settings[one["name"]] = draw.random() < 0.5
            else:
                doubled = min(one["maximum"], 2 * one["default"])
                settings[one["name"]] = draw.choice([one["minimum"], one["maximum"], one["default"], doubled])
        try:
            found = study(name, settings)
        except InputProblems as error:
            refused |= {problem.field for problem in error.problems}
            continue
        answered += 1
        json.dumps(document(found), allow_nan=False)
        assert all(abs(one.value) < 2**63 for one in found.figures if isinstance(one.value, int)), settings
    assert answered > 10
    assert refused <= {one["name"] for one in described}


def test_importing_the_studies_loads_none_of_them():
    code = "import sys, estimator.studies; print([one for one in sys.modules if one.startswith('estimator.studies.')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['estimator.studies.study']"
