"""The step benchmark in this process: what a result holds, for every precision and kind of attention."""

from __future__ import annotations

import shutil

import pytest

from estimator.scenario.breakdown import CATEGORIES, PHASES
from estimator.scenario.codec import decode, encode
from estimator.scenario.measurement import SCHEMA_VERSION, Measurement
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import scenario_from_json
from runners.benchmarks import step
from runners.benchmarks.step import is_out_of_memory, run
from runners.job import Job
from runners.trace.reduced import Reduced
from tests.runners.examples import run_module, scenario, scenario_json, write_scenario


def measure(events=None, **changes):
    job = Job(scenario=scenario_json(**changes), device="cpu", warmup=1, steps=3, label="small")
    return run(job, (events if events is not None else []).append)


def test_a_result_holds_all_that_was_measured():
    events: list[dict] = []
    result = measure(events)
    assert (result.status, result.label, result.schema_version) == ("ok", "small", SCHEMA_VERSION)
    assert (result.origin.kind, result.origin.format) == ("run", "step")
    assert len(result.steps_s) == 3
    assert tuple(result.phases_s) == PHASES
    assert tuple(result.breakdown_s) == CATEGORIES
    median_s = result.samples["spread"]["step"]["median_s"]
    assert sum(result.phases_s.values()) == pytest.approx(median_s)
    assert sum(result.breakdown_s.values()) == pytest.approx(median_s)
    assert min(result.breakdown_s.values()) >= 0
    assert result.breakdown_s["matmul"] > 0
    assert result.breakdown_s["attention"] > 0
    assert result.memory.peak_bytes == sum(result.memory.by_kind.values())
    assert scenario_from_json(result.scenario) == scenario()
    assert {warning.code for warning in result.warnings} - {"busy_machine"} == {"other_chip"}
    assert decode(Measurement, encode(result)) == result
    assert events[0]["phase"] == "build"
    assert events[-1]["phase"] == "profile"


def test_phases_of_every_sample_add_to_its_step():
    result = measure()
    for sample in result.samples["ranks"][0]:
        assert sample["forward"] + sample["backward"] + sample["optimizer"] == pytest.approx(sample["step"])
        assert min(sample.values()) > 0


@pytest.mark.parametrize("precision", ["tf32", "fp16-amp", "bf16-amp", "bf16"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_every_precision_and_attention_is_measured(precision, attention):
    result = measure(training={"precision": precision, "attention": attention, "global_batch": 4})
    assert result.status == "ok"
    assert result.breakdown_s["attention"] > 0
    assert 0 < result.samples["loss"] < 10


@pytest.mark.parametrize("recompute", ["selective", "full"])
def test_recompute_is_measured(recompute):
    assert measure(plan={"recompute": recompute}, training={"attention": "eager"}).status == "ok"


COMPILED = {
    "model": {"layers": 1, "position": "learned", "gated_ffn": False, "activation": "relu"},  # each kernel is compiled
    "training": {"framework": "pytorch-compile"},
}


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of torch itself, when it first compiles
def test_a_compiled_model_is_measured_where_there_is_a_compiler():
    if not (shutil.which("g++") or shutil.which("clang++")):
        with pytest.raises(InputProblems, match="needs a C"):
            measure(**COMPILED)
        return
    result = measure(**COMPILED)
    assert result.status == "ok"
    assert result.memory.peak_bytes is None
    assert "memory_kinds_unknown" in [warning.code for warning in result.warnings]
    assert result.breakdown_s["matmul"] > 0


def test_compiling_without_a_compiler_is_refused(tmp_path):
    out = tmp_path / "r.json"
    arguments = ("--scenario", str(write_scenario(tmp_path, scenario_json(**COMPILED))), "--out", str(out))
    done = run_module("step", *arguments, "--device", "cpu", environment={"PATH": str(tmp_path), "CXX": ""})
    assert done.returncode == 2
    assert not out.exists()
    assert done.stderr.startswith("training.compile: torch.compile needs a C++ compiler on a CPU")


def test_a_profiler_that_sees_no_kernel_leaves_the_phases_whole(monkeypatch):
    monkeypatch.setattr(step, "profile", lambda *_, **__: Reduced(kernels=(), phases_s={}))
    result = measure()
    assert "no_kernels" in [warning.code for warning in result.warnings]
    assert result.breakdown_s == {}
    assert sum(result.phases_s.values()) == pytest.approx(result.samples["spread"]["step"]["median_s"])
    assert "host_wait" not in result.phases_s


def test_what_cannot_run_here_is_refused():
    with pytest.raises(InputProblems, match=r"plan\.dp: dp = 2, but 1 process runs"):
        measure(dp=2)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried"),
            True,
        ),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
    ],
)
def test_out_of_memory_is_told_from_other_errors(error, expected):
    assert is_out_of_memory(error) == expected


def measure_with(trace=None, **options):
    job = Job(scenario=scenario_json(), options=options, device="cpu", warmup=1, steps=3)
    return run(job, lambda event: None, trace)


@pytest.mark.parametrize("mode", ["forward", "forward-backward"])
def test_a_part_of_a_step_is_measured(mode):
    result = measure_with(mode=mode)
    assert result.phases_s["optimizer"] == 0
    assert (result.phases_s["backward"] > 0) == (mode != "forward")
    assert sum(result.phases_s.values()) == pytest.approx(result.samples["spread"]["step"]["median_s"])
    assert result.breakdown_s["optimizer"] == 0


@pytest.mark.parametrize("kernel", ["foreach", "fused", "for-loop"])
def test_the_optimizers_kernels_can_be_chosen(kernel):
    result = measure_with(optimizer_kernel=kernel)
    fused = any("fused_adamw" in one.name for one in result.kernels)
    assert fused == (kernel == "fused")
    assert result.scenario["training"]["optimizer_kernel"] == kernel


def test_rates_follow_from_the_median_step_and_mfu_needs_the_scenarios_chip():
    result = measure_with()
    rates, step_s = result.samples["throughput"], result.samples["spread"]["step"]["median_s"]
    assert rates["tokens_per_s"] == pytest.approx(2 * 32 / step_s)
    assert rates["model_flops_per_s"] == pytest.approx(rates["model_flops"] / step_s)
    assert rates["mfu_frac"] is None
    assert 0 < rates["kernel_flops_per_rank"] < 2 * rates["model_flops"]
    assert result.samples["clocks"]


def test_graphs_and_snapshots_need_what_they_need(tmp_path):
    with pytest.raises(InputProblems, match=r"options\.graph: CUDA graphs need a GPU"):
        measure_with(graph=True)
    with pytest.raises(InputProblems, match=r"options\.snapshot: has no place to go"):
        measure_with(snapshot=True)
    result = measure_with(tmp_path / "trace.json.gz", snapshot=True)
    assert "no_snapshot" in [warning.code for warning in result.warnings]
