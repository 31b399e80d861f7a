"""Models by name: the catalogue's, the tiny one, and the first blocks of either."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from estimator.scenario import catalog
from estimator.scenario.problems import InputProblems
from runners.model.by_name import TINY_MODEL, model_of, unknown_models
from runners.options import OPTIONS
from tests.runners.examples import ROOT


def test_models_come_by_name_whole_or_cut():
    assert model_of("tiny") == TINY_MODEL
    assert model_of("gpt2") == replace(catalog.model("gpt2"), name="gpt2")
    assert model_of("gpt2", 3) == replace(model_of("gpt2"), layers=3)


def test_an_unknown_model_is_refused():
    with pytest.raises(InputProblems, match="no-such-model"):
        model_of("no-such-model")


def test_names_that_no_model_has_are_refused_with_the_nearest_ones():
    def refused(benchmark, *names):
        return unknown_models(OPTIONS[benchmark](models=names))

    assert refused("memory", "gpt2", "tiny", "GPT-2") == []
    nearest, small = refused("ddp", "lama3-8b", "tinny")
    assert (nearest.field, small.field) == ("options.models", "options.models")
    assert nearest.remedy.startswith("Did you mean llama3-8b")
    assert small.remedy == "Did you mean tiny?"
    assert unknown_models(OPTIONS["collectives"]()) == []


def test_jobs_are_named_without_torch():
    code = "import sys, runners.reference.jobs; assert 'torch' not in sys.modules"
    subprocess.run((sys.executable, "-c", code), cwd=ROOT, check=True)
