"""``headroom study``: the list, one study for people and as JSON, and inputs that are refused."""

from __future__ import annotations

import json

import pytest

from app.cli import run
from estimator.studies import STUDIES


def test_without_a_name_all_studies_are_listed(capsys):
    assert run(["study"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(STUDIES)
    assert run(["study", "--json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == list(STUDIES)


def test_one_study_for_people(capsys):
    assert run(["study", "ulysses-16"]) == 0
    out = capsys.readouterr().out
    assert "peak memory allocation" in out
    assert "79 of 79 printed figures agree to the digits printed" in out
    assert "notes:" in out


def test_json_is_one_document_and_set_changes_an_input(capsys):
    assert run(["study", "ulysses-16", "--set", "N=30000", "--set", "P=8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["inputs"]["N"] == 30_000
    assert found["inputs"]["P"] == 8
    assert {"inputs", "figures", "series", "notes"} <= set(found)


@pytest.mark.parametrize(("arguments", "said"), [
    (["study", "nothing"], "study: 'nothing' is not known."),
    (["study", "ulysses-16", "--set", "N"], "--set: 'N' is not key=value."),
    (["study", "ulysses-16", "--set", "N=x"], "N: must be a whole number, not 'x'."),
    (["study", "ulysses-16", "--set", "N=16", "--set", "N=32"], "N: is set twice."),
    (["study", "--set", "N=16"], "--set: needs the name of a study."),
])  # fmt: skip
def test_bad_input_is_one_line_and_status_2(arguments, said, capsys):
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"headroom: {said}")
    assert captured.err.count("\n") == 1
