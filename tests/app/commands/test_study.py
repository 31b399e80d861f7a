"""``headroom study``: the list, one study for people and as JSON, and inputs that are refused."""

from __future__ import annotations

import json
import re

import pytest

from app.cli import run
from app.commands.files import WIDTH
from app.commands.study import verdict
from estimator.studies import STUDIES, study
from estimator.studies.study import Figure, Result


def test_without_a_name_all_studies_are_listed(capsys):
    assert run(["study"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == list(STUDIES)
    assert max(map(len, lines)) <= WIDTH
    assert run(["study", "--json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == list(STUDIES)


@pytest.mark.parametrize(("name", "agree"), [("ulysses-16", 79), ("transformer-tables", 454)])
def test_the_verdict_comes_first_and_every_figure_with_all(name, agree, capsys):
    assert run(["study", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    verdict = lines.index(f"{agree} of {agree} printed figures agree to the digits printed")
    assert verdict < 8
    assert max(map(len, lines)) <= WIDTH
    figures = study(name).figures
    groups = {one.group for one in figures}
    start = next(at for at, line in enumerate(lines) if line.split() == ["figures", "printed", "agree"])
    summary = lines[start + 1 : lines.index("", start)]
    assert len(summary) == len(groups)
    assert all(any(line.startswith(group) for line in summary) for group in groups)
    assert f"--all prints each of the {len(figures)} figures." in lines
    assert "notes:" in lines

    assert run(["study", name, "--all"]) == 0
    every = capsys.readouterr().out.splitlines()
    assert every[verdict] == lines[verdict]
    assert sum(line.startswith("  ") for line in every[: every.index("notes:")]) >= len(figures)
    assert sum(line.endswith("  ok") for line in every) == agree
    assert max(map(len, every)) <= WIDTH


def test_figures_that_differ_stand_under_the_verdict():
    figures = (
        Figure(group="a", name="right", value=1.004, unit="s", printed=1.0, decimals=2),
        Figure(group="a", name="wrong", value=1.2, unit="s", printed=1.0, decimals=1),
        Figure(group="b", name="not printed", value=3),
    )
    result = Result(study="ulysses-16", inputs=None, figures=figures)
    assert verdict(result) == [
        "1 of 2 printed figures agree to the digits printed",
        "  DIFFERS: a, wrong: 1.2 s, printed 1.0",
    ]


def test_other_inputs_are_summed_up_by_how_far_they_moved_each_group(capsys):
    assert run(["study", "ulysses-16", "--set", "N=120000"]) == 0
    out = capsys.readouterr().out
    assert "Nothing to agree with: " in out
    rows = {line[:22].strip(): line for line in out.splitlines()}
    squared = r" 5 +5  \+300 %  FLOPs of all ranks: 117\.96 → 471\.86 TFLOP$"
    assert re.search(squared, rows["5. compute attention"]), "scores grow with the square of the tokens"
    assert "  +100 %  FLOPs of all ranks: 96.64 → 193.27 TFLOP" in rows["2. compute q, k, v"]
    assert run(["study", "ulysses-16", "--set", "N=120000", "--all"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"value +unit +reference's inputs$", out, re.MULTILINE)
    assert re.search(r"tokens per GPU +7500 +3750$", out, re.MULTILINE)


def test_json_is_one_document_and_set_changes_an_input(capsys):
    assert run(["study", "ulysses-16", "--set", "N=30000", "--set", "P=8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["inputs"]["N"] == 30_000
    assert found["inputs"]["P"] == 8
    assert {"inputs", "figures", "series", "notes"} <= set(found)


@pytest.mark.parametrize(("arguments", "said"), [
    (["study", "nothing"], "study: 'nothing' is not known."),
    (["study", "ulysses-16", "--set", "N"], "--set: 'N' is not key=value. Write, for example, --set N=60000."),
    (["study", "cs336-4d", "--set", "layers"], "--set: 'layers' is not key=value. Write, for example, --set layers=12"),
    (["study", "cs336-4d", "--set", "layer=3"], "layer: unknown key. Did you mean 'layers'?"),
    (["study", "transformer-tables", "--set", "m=3"], "l: 2048 is not a multiple of m = 3. Set l to a multiple of 3,"),
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
