"""The split attention layer between real processes: right values, shapes and FLOPs of the first reference report."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from estimator.scenario.problems import InputProblems
from runners.benchmarks.ulysses import Layer, made_inputs, ring_pass, run, ulysses_pass
from runners.job import Job
from runners.parallel.ring import eager_block, merged
from runners.ranks import Ranks
from tests.forks import run_in_fork
from tests.runners.benchmarks import ulysses_ranks
from tests.runners.benchmarks.on_ranks import measure
from tests.runners.examples import ROOT

STEPS = ["init", "q, k, v", "all-to-all q, k, v", "reshape q, k, v"]
AFTER = ["transpose c", "all-to-all c", "reshape c", "output", "layer"]


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    flags = ("--seq-len", "96", "--hidden", "32", "--heads", "4", "--precision", "fp32")
    return measure(tmp_path_factory.mktemp("ulysses"), 2, "ulysses", *flags)


def steps(result, core):
    return {row["step"]: row for row in result.rows if row["core"] == core}


def test_every_step_of_every_core_is_a_row(result):
    assert list(steps(result, "scores")) == [*STEPS, "A = q·kᵀ", "c = A·v", *AFTER]
    assert list(steps(result, "eager")) == [*STEPS, "A = q·kᵀ", "softmax", "c = A·v", *AFTER]
    assert list(steps(result, "fused")) == [*STEPS, "fused attention", *AFTER]
    assert list(steps(result, "ring")) == ["init", "q, k, v", "ring attention", "reshape c", "output", "layer"]
    assert {row["status"] for row in result.rows} == {"ok"}
    for row in result.rows:
        assert row["step"] == "init" or 0 < row["minimum_s"] <= row["median_s"] <= row["maximum_s"]


def test_shapes_and_flops_follow_the_layers_size(result):
    n, d, h, p = 96, 32, 4, 2
    found = steps(result, "scores")
    assert found["q, k, v"]["shape"] == f"{h}x{n // p}x{d // h}"
    assert found["all-to-all q, k, v"]["shape"] == f"{p}x{h // p}x{n // p}x{d // h}"
    assert found["reshape q, k, v"]["shape"] == f"{h // p}x{n}x{d // h}"
    assert found["A = q·kᵀ"]["shape"] == f"{h // p}x{n}x{n}"
    assert found["A = q·kᵀ"]["bytes"] == 4 * h // p * n * n
    assert found["transpose c"]["shape"] == f"{n}x{h // p}x{d // h}"
    assert found["output"]["shape"] == f"{n // p}x{d}"
    for core in ("scores", "eager", "fused", "ring"):
        assert steps(result, core)["layer"]["flops_all_ranks"] == 8 * n * d * d + 4 * n * n * d
    t = 4 * n * d / p
    assert found["layer"]["sent_bytes"] == 4 * (p - 1) / p * t
    assert steps(result, "ring")["layer"]["sent_bytes"] == (p - 1) * 2 * t


def test_the_formulas_give_the_first_reference_reports_figures():
    """N = 60 000, d = 16 384, h = 128, P = 16: 96.64, 117.96, 117.96, 32.21 TFLOPs over all ranks."""
    n, d = 60_000, 16_384
    counts = [3 * 2 * n * d**2, 2 * n**2 * d, 2 * n**2 * d, 2 * n * d**2]
    assert [round(count / 1e12, 2) for count in counts] == [96.64, 117.96, 117.96, 32.21]
    assert sum(counts) == 8 * n * d**2 + 4 * n**2 * d


@pytest.mark.parametrize("processes", [2, 4])
def test_all_cores_give_what_one_rank_would(processes):
    done = run_in_fork(ulysses_ranks.main, (str(processes),), ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("as one rank") == processes  # their lines may meet


def test_one_rank_alone_copies():
    layer = Layer(ranks=Ranks(), seq_len=16, hidden=8, heads=2, dtype=torch.float32)
    inputs = made_inputs(layer)
    ring = ring_pass(layer, "ring", *inputs)
    torch.testing.assert_close(ulysses_pass(layer, "fused", *inputs), ring, rtol=1e-4, atol=1e-5)


def test_blocks_merge_to_the_whole():
    q, k, v = (torch.randn(2, 8, 4, dtype=torch.float64) for _ in range(3))
    halves = [eager_block(q, k[:, part], v[:, part], False) for part in (slice(0, 3), slice(3, 8))]
    out, sums = merged(halves[0][0], halves[0][1], *halves[1])
    scores = q @ k.transpose(1, 2) / math.sqrt(4)
    torch.testing.assert_close(out.double(), F.softmax(scores, -1) @ v, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(sums.double(), torch.logsumexp(scores, -1), rtol=1e-5, atol=1e-6)


def test_sizes_that_do_not_divide_are_refused():
    with pytest.raises(InputProblems, match=r"options\.heads: 3 heads do not divide hidden = 64"):
        run(Job(benchmark="ulysses", device="cpu", options={"heads": 3}), lambda event: None)
