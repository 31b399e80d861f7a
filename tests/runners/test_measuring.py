"""docs/measuring.md: every command in it is one that the runners take."""

from __future__ import annotations

import re
import shlex

import pytest

from estimator.catalog import model
from runners.__main__ import _parser
from runners.flags import from_arguments
from runners.job import BENCHMARKS
from runners.options import TINY, options_of
from runners.outcomes import STATUSES
from runners.parallel import parse
from runners.reference import entries, job_of
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
    options = _parser().parse_args(words)
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
