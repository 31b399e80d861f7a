"""What was measured: time and memory that a row states, as a time, a rate or a utilisation."""

from __future__ import annotations

import pytest

from estimator.validation.csv_row import scenario_of_row
from estimator.validation.measured import is_inference, number
from tests.estimator.validation.rows import ROW, reason


@pytest.mark.parametrize(
    ("model", "parts"),
    [
        ("Llama3.2-1B [forward (inference)]", ("forward",)),
        ("Llama3.2-1B [forward+backward]", ("forward", "backward")),
    ],
)
def test_a_model_that_names_a_part_of_a_step_times_that_part(model, parts):
    measured = scenario_of_row({**ROW, "model": model, "measured_peak_mem_gib": "4"}).measured
    assert (measured.timed_parts, measured.step_s, measured.memory_bytes) == (parts, 1.25, None)
    assert is_inference({"model": model}) == (parts == ("forward",))


def test_the_step_time_may_come_from_throughput():
    row = scenario_of_row({**ROW, "measured_step_time_s": "", "measured_tokens_per_s_per_gpu": "2048"})
    assert row.measured_step_s == 64 * 1024 / (2048 * 16)


def test_memory_is_stated_in_gib():
    row = scenario_of_row({**ROW, "measured_step_time_s": "", "measured_peak_mem_gib": "40.5"})
    assert row.scenario is not None
    assert row.measured_step_s is None
    assert row.measured_memory_bytes == 40.5 * 2**30


def test_a_row_without_measurement_is_skipped():
    assert reason(measured_step_time_s="").startswith("no measured time or memory: give measured_step_time_s")


def test_rates_of_known_flop_conventions_are_step_times():
    cells = {"measured_step_time_s": "", "measured_tflops_per_gpu": "140", "vocab": "51200", "d_ff": "4096"}
    tokens = 64 * 1024 * 24 * 1024**2
    paper = scenario_of_row({**ROW, **cells, "notes": "formula 96BslH^2(1+s/6h+V/16lh)"})
    expected = 96 * tokens * (1 + 1 / 6 + 51200 / (16 * 24 * 1024)) / (140e12 * 16)
    assert paper.measured_step_s == pytest.approx(expected)
    counter = scenario_of_row({**ROW, **cells, "source": "NVIDIA/Megatron-LM README"})
    expected = 72 * tokens * (1 + 1 / 6 + 51200 / (12 * 24 * 1024)) / (140e12 * 16)
    assert counter.measured_step_s == pytest.approx(expected)
    assert scenario_of_row({**ROW, **cells}).measured_step_s is None


@pytest.mark.parametrize(("text", "value"), [("", None), ("nan", None), ("inf", None), ("n/a", None), ("1e3", 1000.0)])
def test_number(text, value):
    assert number(text) == value


def test_utilisation_is_a_time_by_the_convention_of_its_source():
    cells = {"measured_step_time_s": "", "measured_mfu": "40", "vocab": "51200", "d_ff": "4096"}
    blocks, head, square = 24 * 12 * 1024**2, 51200 * 1024, 24 * 1024 * 1024
    rate = 0.4 * 989.4e12 * 16
    for convention, halves in (("palm", 2), ("causal", 1)):
        found = scenario_of_row({**ROW, **cells, "flop_convention": convention}).measured.step_s
        assert found == pytest.approx(64 * 1024 * 6 * (blocks + head + halves * square) / rate)
        again = scenario_of_row({**ROW, **cells, "measured_mfu": "0.4", "flop_convention": convention}).measured.step_s
        assert again == pytest.approx(found)
    assert "FLOP convention" in reason(**cells)


def test_memory_of_the_device_or_the_allocator_is_told_from_what_was_allocated():
    cells = {"measured_peak_mem_gib": "4"}
    kinds = {
        "": "allocated",
        "max memory reserved": "reserved",
        "nvml used memory after training (about 1343 MiB context)": "device",
    }
    for notes, kind in kinds.items():
        measured = scenario_of_row({**ROW, **cells, "notes": notes}).measured
        assert measured.memory_kind == kind
    assert measured.context_bytes == 1343 * 2**20
