"""Options of a job, on a command line too: each says what it is if left out, and is refused where it is wrong."""

from __future__ import annotations

import argparse
from dataclasses import fields

import pytest

from estimator.scenario.problems import InputProblems
from runners.job import BENCHMARKS
from runners.options import OPTIONS, CollectivesOptions, about, add_arguments, from_arguments, options_of


@pytest.mark.parametrize(
    ("benchmark", "values", "message"),
    [
        ("collectives", {"kinds": ["all-reduse"]}, "options.kinds: 'all-reduse' is not known. Did you mean"),
        ("collectives", {"sizes_bytes": [0]}, "options.sizes_bytes: 0 is out of range"),
        ("collectives", {"colour": 1}, "options.colour: unknown key"),
        ("memory", {"limit_s": 0}, "options.limit_s: 0 is out of range"),
        ("attention", {"dims": [16, "abc"]}, "options.dims[1]: 'abc' is not a whole number. Give a whole number."),
        ("ulysses", {"heads": "abc"}, "options.heads: 'abc' is not a whole number. Give a whole number."),
        ("collectives", {"sizes_bytes": ["1KB"]}, "options.sizes_bytes[0]: '1KB' is neither a whole number nor a size"),
        ("collectives", {"sizes_bytes": ["1e999GiB"]}, "options.sizes_bytes[0]: '1e999GiB' is neither"),
        ("collectives", {"kinds": "all-reduce"}, "options.kinds: must be a list"),
        ("memory", {"seq_lens": ["0"]}, "options.seq_lens: 0 is out of range"),
        ("memory", "all", "options: must be a JSON object"),
        ("sort", {"any": 1}, "options.any: unknown key"),
    ],
)
def test_bad_options_name_field_and_remedy(benchmark, values, message):
    with pytest.raises(InputProblems) as refused:
        options_of(benchmark, values)
    assert message in str(refused.value)


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


@pytest.mark.parametrize("text", ["1KB", "nanGiB", "1e999MiB", "", "4 096"])
def test_a_command_line_refuses_what_is_no_size_in_the_same_words(capsys, text):
    with pytest.raises(SystemExit):
        parsed("ulysses", f"--hidden={text}")
    assert f"{text!r} is neither a whole number nor a size such as 4KiB, 25MiB or 1GiB" in capsys.readouterr().err


def test_a_job_takes_sizes_as_the_command_line_does():
    job = {"sizes_bytes": ["1KiB", 4096, "0.5MiB"], "group_sizes": ["2"]}
    flags = ("--sizes-bytes", "1KiB,4096,0.5MiB", "--group-sizes", "2")
    assert options_of("collectives", job) == parsed("collectives", *flags)
    assert options_of("collectives", job).sizes_bytes == (1024, 4096, 2**19)
    assert options_of("memory", {"micro_batch": "1KiB"}).micro_batch == 1024


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_every_benchmark_says_what_it_covers_and_every_option_has_help(benchmark):
    assert about(benchmark).endswith(".")
    parser = argparse.ArgumentParser()
    add_arguments(parser, benchmark)
    assert all(action.help for action in parser._actions)
    assert options_of(benchmark, {}) == OPTIONS[benchmark]()


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_help_says_what_an_option_is_if_left_out(benchmark):
    """Switches are off, and a grid has no models, unless they are given."""
    parser = argparse.ArgumentParser()
    add_arguments(parser, benchmark)
    text = " ".join(parser.format_help().split())
    for field in fields(OPTIONS[benchmark]):
        said = {action.dest: action.help for action in parser._actions}[f"option_{field.name}"]
        assert field.default is False or "default" in said or (benchmark, field.name) == ("step", "models")
        if field.name == "limit_s":
            assert f"(default {field.default:g})" in text
