"""The attention benchmark in this process, on the CPU."""

from __future__ import annotations

import shutil

import pytest
import torch

from estimator.scenario.codec import decode, encode
from estimator.scenario.measurement import Measurement
from estimator.scenario.problems import InputProblems
from runners.benchmarks.attention import PASSES, configurations, forward_flops, run
from runners.job import Job
from runners.options import AttentionOptions


def measure(events=None, steps=3, **options):
    job = Job(benchmark="attention", device="cpu", warmup=1, steps=steps, options=options)
    return run(job, (events if events is not None else []).append)


@pytest.fixture(scope="module")
def result():
    names = ["naive", "sdpa-flash", "sdpa-cudnn", "sdpa-math", "triton"]
    return measure(implementations=names, dims=[16], seq_lens=[100], precisions=["fp32", "bf16"])


def of(result, **wanted):
    return [row for row in result.rows if all(row[key] == value for key, value in wanted.items())]


def test_every_pass_of_every_configuration_is_a_row(result):
    assert len(result.rows) == 5 * 2 * 2 * 3
    assert {row["pass"] for row in result.rows} == set(PASSES)
    assert result.origin.format == "attention"
    assert decode(Measurement, encode(result)) == result
    assert set(result.samples["definitions"]) >= {"flops", "memory_before_backward_bytes", "speedup_over_naive"}


@pytest.mark.parametrize("name", ["naive", "sdpa-flash", "sdpa-math"])
def test_what_runs_on_a_cpu_is_timed(result, name):
    rows = of(result, implementation=name)
    assert len(rows) == 12
    for row in rows:
        assert row["status"] == "ok", row
        assert 0 < row["minimum_s"] <= row["median_s"] <= row["maximum_s"] < 10
        assert row["samples"] == 3
        assert row["flops_per_s"] == pytest.approx(row["flops"] / row["median_s"])
        assert row["peak_bytes"] is None  # nobody counts a CPU's


def test_speed_ups_are_over_naive_in_the_same_configuration(result):
    same = {"precision": "fp32", "causal": True, "pass": "backward"}
    (naive,), (flash,) = (of(result, implementation=name, **same) for name in ("naive", "sdpa-flash"))
    assert naive["speedup_over_naive"] == 1.0
    assert flash["speedup_over_naive"] == naive["median_s"] / flash["median_s"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("triton", "the Triton kernels need a GPU"),
        ("sdpa-cudnn", "torch has no such kernel for torch.float32, head dimension 16, on cpu"),
    ],
)
def test_what_is_not_there_is_a_row_that_says_so(result, name, message):
    rows = of(result, implementation=name)
    assert {row["status"] for row in rows} == {"unsupported"}
    assert message in rows[0]["message"]


def test_flops_are_those_of_the_definition(result):
    (row,) = of(result, implementation="naive", precision="bf16", causal=False, **{"pass": "forward"})
    assert (row["batch"], row["heads"]) == (1, 4)
    assert row["flops"] == 4 * 1 * 4 * 100**2 * 16 == forward_flops(row)
    (causal,) = of(result, implementation="naive", precision="bf16", causal=True, **{"pass": "both"})
    assert causal["flops"] == 3.5 * row["flops"] / 2


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of torch itself, when it first compiles
def test_compiled_is_measured_where_there_is_a_compiler():
    found = measure(implementations=["compiled"], dims=[16], seq_lens=[32], precisions=["fp32"], causals=["yes"])
    expected = "ok" if shutil.which("g++") or shutil.which("clang++") else "unsupported"
    assert [row["status"] for row in found.rows] == [expected] * 3


def test_too_little_memory_is_a_row_and_the_next_one_comes():
    found = measure(
        implementations=["naive"], dims=[16], seq_lens=[4_000_000, 32], precisions=["fp32"], causals=["no"], batch=64
    )
    assert [row["status"] for row in found.rows] == ["oom"] * 3 + ["ok"] * 3


def test_the_time_is_bounded():
    found = measure(implementations=["naive", "sdpa-math"], dims=[16], seq_lens=[1500], limit_s=1, heads=4, steps=20)
    statuses = [row["status"] for row in found.rows]
    assert statuses[0] == "ok"
    assert statuses[-1] == "not_run"


def test_tf32_is_asked_for_and_taken_back():
    before = torch.get_float32_matmul_precision()
    found = measure(implementations=["sdpa-math"], dims=[16], seq_lens=[32], precisions=["tf32"], causals=["no"])
    assert [row["precision"] for row in found.rows] == ["tf32"] * 3
    assert torch.get_float32_matmul_precision() == before


def test_defaults_of_a_gpu_keep_tokens_and_width():
    rows = list(configurations(AttentionOptions(), cuda=True))
    assert {row["batch"] * row["seq_len"] for row in rows} == {16384}
    assert {row["heads"] * row["head_dim"] for row in rows} == {2048}
    assert len(rows) == 2 * 3 * 2


def test_unknown_names_are_refused():
    with pytest.raises(InputProblems, match="Did you mean 'sdpa-flash'"):
        measure(implementations=["sdpa-flahs"])
