"""Many steps in one process."""

from __future__ import annotations

import shutil

import pytest

from estimator.scenario.parameters import model_flops_per_token
from estimator.scenario.problems import InputProblems
from runners.benchmarks.grid import cells_of
from runners.benchmarks.step import run
from runners.job import Job
from runners.model.by_name import model_of
from runners.options import StepOptions


def measure(**options):
    job = Job(
        benchmark="step", device="cpu", warmup=1, steps=3, options={"models": ["tiny"], "seq_lens": [32]} | options
    )
    return run(job, lambda event: None)


def test_every_cell_is_a_row_with_phases_that_add_up():
    options = {"precisions": ["fp32", "bf16-amp"], "modes": ["forward", "forward-backward", "step"]}
    result = measure(**options, micro_batches=[1, 2])
    assert len(result.rows) == 12
    for row in result.rows:
        assert row["status"] == "ok"
        phases = row["forward_s"] + row["backward_s"] + row["optimizer_s"]
        # Half of the steps have each phase as long as its median, so however busy the machine is:
        assert row["minimum_s"] / 2 < phases <= 2 * row["mean_s"]
        assert (row["backward_s"] > 0) == (row["mode"] != "forward")
        assert (row["optimizer_s"] > 0) == (row["mode"] == "step")
        assert row["tokens_per_s"] == pytest.approx(32 * row["micro_batch"] / row["step_s"])
        flops = model_flops_per_token(model_of("tiny"), 32) * 32 * row["micro_batch"]
        assert row["model_flops"] == pytest.approx(flops / 3 if row["mode"] == "forward" else flops)
    assert result.scenario == {}


def test_what_cannot_run_is_a_row_and_the_rest_goes_on():
    rows = measure(graphs=["yes", "no"], precisions=["fp32"]).rows
    assert [(row["graph"], row["status"]) for row in rows] == [(True, "unsupported"), (False, "ok")]
    assert "CUDA graphs need a GPU" in rows[0]["message"]


def test_optimizer_kernels_and_categories():
    rows = measure(
        precisions=["fp32"], optimizer_kernels=["default", "foreach", "fused", "for-loop"], profile=True
    ).rows
    assert [row["status"] for row in rows] == ["ok"] * 4
    assert all(row["matmul_s"] > 0 and row["kernels"] > 50 for row in rows)


@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="no C++ compiler for torch.compile")
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of torch itself, when it first compiles
def test_compiled_cells_run_beside_eager_ones():
    rows = measure(layers=1, precisions=["fp32"], modes=["forward"], compiles=["no", "yes"]).rows
    assert [(row["compile"], row["status"]) for row in rows] == [(False, "ok"), (True, "ok")]
    assert rows[1]["first_step_s"] > 10 * rows[1]["step_s"]


def test_a_grid_is_the_product_of_its_axes():
    cells = cells_of(StepOptions(models=("tiny", "gpt2"), seq_lens=(8, 16), compiles=("no", "yes"), modes=("step",)))
    assert len(cells) == len({str(cell) for cell in cells}) == 8
    assert [cell.model.name for cell in cells] == ["tiny"] * 4 + ["gpt2"] * 4
    with pytest.raises(InputProblems):
        cells_of(StepOptions(models=("gtp2",)))
