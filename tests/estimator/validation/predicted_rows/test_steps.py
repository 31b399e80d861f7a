"""Rows of steps: the same numbers that the estimator gives for their scenario, part by part."""

from __future__ import annotations

import pytest

from estimator.cost.efficiency import efficiencies_for
from estimator.estimate.estimate import estimate
from estimator.scenario.catalog import chip
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import scenario_from_json
from estimator.validation.predicted_rows.device import TableDevice
from estimator.validation.predicted_rows.steps import (
    grid_row,
    memory_row,
    variant_plan,
    variant_row,
)
from estimator.validation.predicted_rows.text_steps import text_data_parallel_row, text_row

MIB = 2**20
STEP = {
    "model": "cs336-small", "layers": 12, "seq_len": 256, "micro_batch": 4, "precision": "bf16-amp",
    "attention": "eager", "compile": False, "graph": False, "mode": "step", "optimizer_kernel": "default",
    "recompute": "none",
}  # fmt: skip


def place() -> TableDevice:
    return TableDevice(chip="h200-sxm", ranks=1)


def alone(ranks: int = 1, plan: dict | None = None, **training):
    return estimate(
        scenario_from_json(
            {
                "model": "cs336-small",
                "cluster": {"chip": "h200-sxm", "chips_per_node": ranks, "nodes": 1},
                "plan": {"micro_batch": 4, **(plan or {})},
                "training": {
                    "seq_len": 256,
                    "global_batch": 4,
                    "precision": "bf16-amp",
                    "attention": "eager",
                    **training,
                },
            }
        )
    )


def test_a_step_is_the_estimate_of_its_scenario():
    one, found = alone(), grid_row(STEP, place())
    assert found["step_s"] == pytest.approx(one.step_time_s)
    assert found["forward_s"] == one.phases_s["forward"] + one.host_wait_by_phase_s["forward"]
    assert found["peak_bytes"] == one.memory.peak_bytes


def test_parts_of_a_step_have_their_parts():
    whole, place_ = grid_row(STEP, place()), place()
    forward = grid_row({**STEP, "mode": "forward"}, place_)
    both = grid_row({**STEP, "mode": "forward-backward"}, place_)
    assert set(forward) == {"forward_s", "step_s"}
    assert forward["step_s"] == forward["forward_s"]
    assert both["step_s"] == pytest.approx(whole["forward_s"] + whole["backward_s"])
    assert both["peak_bytes"] < whole["peak_bytes"] - 7 * 128_625_408
    assert "optimizer_s" not in both


def test_a_forward_alone_is_not_recorded_and_takes_its_host_less():
    whole, forward = grid_row(STEP, place())["forward_s"], grid_row({**STEP, "mode": "forward"}, place())["forward_s"]
    frac = efficiencies_for(chip("h200-sxm"), None).host_unrecorded_frac
    assert forward / whole == pytest.approx(frac, rel=0.01), "the host binds, but for the start of a step"
    on_device = {**STEP, "seq_len": 1024, "precision": "fp32"}
    alone, first = (grid_row({**on_device, **mode}, place())["forward_s"] for mode in ({"mode": "forward"}, {}))
    assert 0.99 * first < alone < first, "it begins a little sooner"


def test_a_graph_waits_for_no_host_and_kernels_of_the_optimizer_are_its_own():
    one, found = alone(), grid_row({**STEP, "graph": True}, place())
    assert found["step_s"] == pytest.approx(one.step_time_s - one.phases_s["host_wait"])
    assert "peak_bytes" not in found
    fused = grid_row({**STEP, "optimizer_kernel": "fused"}, place())
    assert fused["optimizer_s"] < grid_row(STEP, place())["optimizer_s"]
    assert fused["step_s"] == pytest.approx(alone(optimizer_kernel="fused").step_time_s)


def test_memory_of_a_step_and_of_what_has_no_optimizer():
    row = {name: STEP[name] for name in ("model", "seq_len", "precision", "attention", "recompute", "micro_batch")}
    assert memory_row({**row, "pass": "step"}, place()) == {"peak_bytes": alone().memory.peak_bytes}
    assert memory_row({**row, "pass": "forward"}, place()) == {}
    both = memory_row({**row, "pass": "forward-backward"}, place())
    assert both == {"peak_bytes": alone(optimizer="sgd").memory.peak_bytes}


@pytest.mark.parametrize(
    ("variant", "plan"),
    [
        ("single", {"dp": 1}),
        ("naive", {"dp": 2, "ddp_mode": "naive", "overlap": False}),
        ("bucketed:10", {"dp": 2, "bucket_bytes": 10 * MIB}),
        ("torch-ddp", {"dp": 2, "bucket_bytes": 25 * MIB}),
        ("fsdp:no-reshard", {"dp": 2, "sharding": "zero3"}),
        ("fsdp", {"dp": 2, "sharding": "fsdp"}),
        ("tp:sequence", {"tp": 2, "sequence_parallel": True}),
        ("something", {}),
    ],
)
def test_variants_are_plans(variant, plan):
    row = {"variant": variant, "kind": variant.partition(":")[0], "ranks": 2, "precision": "bf16"}
    assert variant_plan(row) == plan


def test_fsdp_under_autocast_is_predicted_where_it_gathers_what_it_computes_in():
    row = {"kind": "fsdp", "ranks": 2, "precision": "bf16-amp"}
    assert variant_plan({**row, "variant": "fsdp"}) == {}
    assert variant_plan({**row, "variant": "fsdp:mixed"})["sharding"] == "fsdp"


def test_a_pipeline_takes_its_micro_batches():
    row = {**STEP, "variant": "pp:1f1b:4", "kind": "pp", "ranks": 2, "schedule": "1f1b", "micro_batches": 4,
           "virtual_stages": 1}  # fmt: skip
    one = alone(2, {"pp": 2, "schedule": "1f1b"}, global_batch=16)
    found = variant_row(row, place())
    assert found["step_s"] == pytest.approx(one.step_time_s)
    assert found["bubble_s"] == pytest.approx(one.phases_s["bubble"])
    assert found["peak_bytes"] == one.memory.peak_bytes


def test_the_peak_of_exchanges_with_other_buffers_is_left_out():
    row = {**STEP, "ranks": 2}
    assert "peak_bytes" not in variant_row({**row, "variant": "flat", "kind": "flat"}, place())
    assert "peak_bytes" in variant_row({**row, "variant": "torch-ddp:25", "kind": "torch-ddp"}, place())


def test_text_says_what_it_assumes():
    at = place()
    row = {"catalogue_model": "cs336-small", "model": "small", "seq_len": 256, "batch": 4, "precision": "bf16-amp"}
    found = text_row(row, at)
    assert found["step_s"] == alone().step_time_s
    assert found["forward_backward_s"] == pytest.approx(found["forward_s"] + found["backward_s"])
    assert list(at.assumed) == ["attention eager, as the table states none"]
    assert text_row({"catalogue_model": "cs336-small"}, at) == {}
    assert text_row({"model": "mine", "seq_len": 256}, at) == {}


def test_a_data_parallel_line_of_text():
    row = {
        "catalogue_model": "cs336-small",
        "seq_len": 256,
        "batch": 4,
        "precision": "bf16-amp",
        "world_size": 2,
        "ddp_mode": "naive",
    }
    found = text_data_parallel_row(row, place())
    one = alone(2, {"dp": 2, "ddp_mode": "naive", "overlap": False}, global_batch=8)
    assert found["step_s"] == pytest.approx(one.step_time_s)
    assert text_data_parallel_row({**row, "ddp_mode": "unheard of"}, place())["step_s"] == alone().step_time_s


def test_a_model_that_the_catalogue_lacks_is_refused():
    with pytest.raises(InputProblems, match="model"):
        grid_row({**STEP, "model": "tiny"}, place())
