"""docs/measuring.md: every command and job in it is one that the runners take."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields

import pytest

from estimator.scenario.catalog import model
from estimator.scenario.codec import decode
from estimator.validation.predicted_rows import PREDICTED
from runners.__main__ import _parser
from runners.job import BENCHMARKS, Job
from runners.options import TINY, from_arguments, options_of
from runners.parallel.variants import parse
from runners.program.command import split
from runners.reference.jobs import entries, job_of
from runners.row_status import STATUSES
from tests.markdown import blocks
from tests.runners.examples import ROOT

TEXT = (ROOT / "docs" / "measuring.md").read_text(encoding="utf-8")


def commands() -> list[list[str]]:
    """Arguments behind ``-m runners`` of every command in a block of code that names a benchmark."""
    blocks = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    found = [shlex.split(line, comments=True) for line in lines if "-m runners" in line]
    return [words[words.index("runners") + 1 :] for words in found if "NAME" not in words]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_is_understood(words):
    options = _parser().parse_args(split(words)[0])
    chosen = options_of(words[0], from_arguments(options))
    for name in getattr(chosen, "models", ()):
        assert name == TINY or model(name).layers
    for variant in getattr(chosen, "variants", ()):
        assert parse(variant).text == variant


def test_the_reference_jobs_are_in_the_table_with_their_bounds():
    for ranks, words in ((1, "1"), (2, "2 or more")):
        for entry in entries(ranks):
            name = "compiled-MODEL" if entry.name.startswith("compiled-") else entry.name
            bound_s = job_of(entry, ranks).time_limit_s
            assert re.search(rf"^\| `{name}` \| {words} \| .+ \| {bound_s:.0f} \|$", TEXT, re.MULTILINE), entry.name


def test_every_benchmark_and_status_is_in_the_table():
    assert {words[0] for words in commands()} >= set(BENCHMARKS) - {"attention"}
    for name in (*BENCHMARKS, *STATUSES):
        assert f"| `{name}` |" in TEXT


def test_the_job_is_one_and_every_field_is_in_the_table():
    job = decode(Job, blocks(ROOT / "docs" / "measuring.md", "json")[0].json())
    assert options_of(job.benchmark, job.options).sizes_bytes == (2**10, 2**20)
    table = TEXT.partition("## A job\n")[2].partition("\n## ")[0]
    first = " ".join(re.findall(r"^\| (`.+?`) \|", table, re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", first)) == {field.name for field in fields(Job)}


def test_every_benchmark_is_said_to_be_predicted_or_not():
    told = TEXT.partition("## Beside its prediction\n")[2].partition("\n## ")[0]
    predicted = set(re.findall(r"^\| `(\w+)", told, re.MULTILINE))
    assert predicted == {name for name in PREDICTED if not name.startswith("text/")}
    for name in set(BENCHMARKS) - predicted:
        assert f"`{name}`" in told.partition("have no predictions")[0].rpartition("|")[2]
