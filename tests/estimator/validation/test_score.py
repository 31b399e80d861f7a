"""Score: errors in percent by hand, the naive baseline, and groups that add up to the whole."""

from __future__ import annotations

import pytest

from estimator.estimate.estimate import estimate
from estimator.scenario.parameters import parameters
from estimator.validation.score import Predicted, Skipped, errors, naive_step_s, predict_rows, validate
from tests.estimator.examples import LLAMA, scenario
from tests.estimator.validation.rows import ROW


def test_errors_by_hand():
    found = errors([10.0, -20.0, None, 30.0, -40.0])
    assert (found.n, found.mape, found.median_ape, found.max_ape, found.bias) == (4, 25.0, 25.0, 40.0, -5.0)


def test_the_ninetieth_percentile_is_one_of_the_errors():
    assert errors([float(i) for i in range(1, 101)]).p90_ape == 91.0
    assert errors([5.0]).p90_ape == 5.0


def test_no_measurement_no_score():
    found = errors([None, None])
    assert (found.n, found.mape, found.bias) == (0, None, None)


def test_the_naive_formula_by_hand():
    one = scenario(LLAMA, plan={"dp": 2, "pp": 2}, global_batch=8)
    # 6·N·tokens at half of 8 TFLOP/s on 4 chips; 4 micro-batches through 2 stages.
    expected = 6 * parameters(one.model) * 8 * 128 / (0.5 * 8e12 * 4) * 5 / 4
    assert naive_step_s(one) == pytest.approx(expected)
    again = scenario(LLAMA, plan={"dp": 2, "pp": 2, "recompute": "full"}, global_batch=8)
    assert naive_step_s(again) == pytest.approx(expected * 8 / 6)


def rows() -> list[dict[str, str]]:
    return [
        {**ROW, "source_id": "a", "source": "paper one, table 1"},
        {**ROW, "source_id": "b", "source": "paper two", "hardware": "A100-80GB", "measured_peak_mem_gib": "30"},
        {**ROW, "source_id": "c", "source": "other", "measured_step_time_s": "", "measured_peak_mem_gib": "30"},
        {**ROW, "source_id": "d", "precision": "int3"},
    ]


def test_every_row_is_predicted_or_skipped_in_order():
    found = predict_rows(rows())
    assert [type(item) for item in found] == [Predicted, Predicted, Predicted, Skipped]
    assert (found[3].row, found[3].source_id) == (4, "d")
    assert found[3].reason


def test_a_prediction_is_the_estimate_of_the_rows_scenario():
    (item,) = predict_rows(rows()[:1])
    again = estimate(item.row.scenario)
    assert (item.step_s, item.low_s, item.high_s) == (again.step_time_s, *again.interval_s)
    assert item.time_error_pct == pytest.approx(100 * (again.step_time_s - 1.25) / 1.25)
    assert item.naive_error_pct == pytest.approx(100 * (naive_step_s(item.row.scenario) / 1.25 - 1))
    assert item.memory_error_pct is None


def test_the_interval_of_memory_is_of_what_the_row_measured():
    notes = ("", "max memory reserved", "nvml used memory (about 1024 MiB context)")
    peak, held, device = predict_rows([{**ROW, "measured_peak_mem_gib": "30", "notes": one} for one in notes])
    of_peak, of_held = (one.peak_high_bytes / one.peak_bytes for one in (peak, held))
    assert of_held > of_peak > 1 > peak.peak_low_bytes / peak.peak_bytes > held.peak_low_bytes / held.peak_bytes
    for end in ("peak_low_bytes", "peak_bytes", "peak_high_bytes"):
        assert getattr(device, end) - getattr(held, end) == pytest.approx(2**30)


def test_the_score_counts_each_measurement_once():
    found = validate(rows())
    assert (found.rows, found.predicted, len(found.skipped)) == (4, 3, 1)
    assert (found.time.n, found.memory.n, found.baseline["naive"].n) == (2, 2, 2)
    assert {name: errors.n for name, errors in found.by["hardware"].items()} == {
        "a100-80gb-sxm": 1, "h100-sxm": 1,
    }  # fmt: skip
    assert {name: errors.n for name, errors in found.by["source"].items()} == {"paper": 2}
    by_hardware = [errors.mape for errors in found.by["hardware"].values()]
    assert found.time.mape == pytest.approx(sum(by_hardware) / 2)


def test_spellings_of_a_chip_are_one_group():
    spelled = [{**ROW, "hardware": name} for name in ("H100 SXM", "h100-sxm", "8x H100-80GB (SXM)")]
    assert {name: errors.n for name, errors in validate(spelled).by["hardware"].items()} == {"h100-sxm": 3}


def test_larger_micro_batches_are_taken_where_they_are_faster_and_fit():
    tuned = {**ROW, "micro_batch": "", "framework": "megatron"}
    (item,) = predict_rows([tuned])
    (least,) = predict_rows([{**tuned, "micro_batch": "1"}])
    assert item.row.scenario.plan.micro_batch > 1
    assert item.step_s == estimate(item.row.scenario).step_time_s < least.step_s
    assert item.open_frac[0] == 1.0 < item.open_frac[1]
    assert any("the fastest that fits" in words for words in item.row.assumptions)


def test_an_empty_table_has_an_empty_score():
    found = validate([])
    assert (found.rows, found.predicted, found.time.n, found.by["model"]) == (0, 0, 0, {})


def test_phases_inference_and_the_predictions_of_others_are_scored_too():
    times = {"measured_step_time_s": "", "measured_forward_s": "0.3", "measured_backward_s": "0.6"}
    both, backward, forward = predict_rows(
        [
            {**ROW, **times, "measured_forward_backward_s": "0.8", "naive_s": "1.2"},
            {**ROW, **times, "quality_flags": "forward_too_long"},
            {**ROW, **times, "mode": "inference", "measured_backward_s": ""},
        ]
    )
    parts = both.parts_s
    assert both.step_s == pytest.approx(parts["forward"] + parts["backward"])
    assert both.time_error_pct == pytest.approx(100 * (both.step_s / 0.8 - 1))
    assert both.parts_error_pct == pytest.approx(
        {"forward": 100 * (parts["forward"] / 0.3 - 1), "backward": 100 * (parts["backward"] / 0.6 - 1)}
    )
    assert both.peers_error_pct == pytest.approx({"naive": 50.0})
    assert (both.low_s <= both.step_s <= both.high_s, both.naive_error_pct) == (True, None)
    assert (backward.time_error_pct, backward.covered, [*backward.parts_error_pct]) == (None, None, ["backward"])
    assert forward.step_s == forward.parts_s["forward"]
    assert forward.step_s < parts["forward"], "autograd records nothing, so that the host is done earlier"
    result = validate([{**ROW, **times, "mode": "inference"}])
    assert (result.interval.n, result.forward.n, result.backward.n, result.optimizer.n) == (1, 1, 1, 0)


def test_one_chips_row_that_did_not_fit_ran_with_less_or_is_not_told():
    large = {**ROW, "n_gpus": "1", "tp": "1", "pp": "1", "dp": "1", "ep": "", "global_batch": "1", "micro_batch": "1",
             "model": "Llama 8B", "n_layers": "32", "d_model": "4096", "n_heads": "32", "n_kv_heads": "8",
             "d_ff": "14336", "vocab": "128256", "seq_len": "512", "precision": "bf16", "framework": "pytorch-eager",
             "recompute": "", "sharding": "", "sequence_parallel": ""}  # fmt: skip
    stated, small, none = predict_rows(
        [{**large, "hardware": "H100-80GB", "recompute": "none"}, {**large, "hardware": "A6000"},
         {**large, "hardware": "RTX 4090"}]
    )  # fmt: skip
    assert isinstance(stated, Predicted)
    assert isinstance(small, Predicted)
    assert stated.row.scenario.plan.recompute == "none"
    assert (small.row.scenario.plan.recompute, small.row.scenario.training.optimizer) == ("full", "adamw-8bit")
    assert "8-bit moments" in small.row.assumptions[-1]
    assert isinstance(none, Skipped)
    assert "give recompute and optimizer" in none.reason
