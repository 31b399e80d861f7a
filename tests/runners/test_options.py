"""Options of benchmarks: the same from a job and from the command line, and refused with a remedy."""

from __future__ import annotations

import argparse

import pytest

from estimator.problems import InputProblems
from runners.job import BENCHMARKS
from runners.options import OPTIONS, CollectivesOptions, about, add_arguments, from_arguments, options_of


def parsed(benchmark: str, *arguments: str):
    parser = argparse.ArgumentParser()
    add_arguments(parser, benchmark)
    return options_of(benchmark, from_arguments(parser.parse_args(arguments)))


def test_a_command_line_gives_what_a_job_would_hold():
    flags = ("--kinds", "all-reduce,p2p", "--sizes-bytes", "4KiB, 1MiB,12", "--limit-s", "2.5")
    assert parsed("collectives", *flags) == CollectivesOptions(
        kinds=("all-reduce", "p2p"), sizes_bytes=(4096, 2**20, 12), limit_s=2.5
    )
    assert parsed("collectives") == CollectivesOptions()
    assert parsed("memory", "--snapshot").snapshot
    assert not parsed("ulysses", "--no-ring").ring


@pytest.mark.parametrize(
    ("benchmark", "values", "message"),
    [
        ("collectives", {"kinds": ["all-reduse"]}, "options.kinds: 'all-reduse' is not known. Did you mean"),
        ("collectives", {"sizes_bytes": [0]}, "options.sizes_bytes: 0 is out of range"),
        ("collectives", {"colour": 1}, "options.colour: unknown key"),
        ("memory", {"limit_s": 0}, "options.limit_s: 0 is out of range"),
        ("sort", {"any": 1}, "options.any: unknown key"),
    ],
)
def test_bad_options_name_field_and_remedy(benchmark, values, message):
    with pytest.raises(InputProblems) as refused:
        options_of(benchmark, values)
    assert message in str(refused.value)


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_every_benchmark_says_what_it_covers_and_every_option_has_help(benchmark):
    assert about(benchmark).endswith(".")
    parser = argparse.ArgumentParser()
    add_arguments(parser, benchmark)
    assert all(action.help for action in parser._actions)
    assert options_of(benchmark, {}) == OPTIONS[benchmark]()
