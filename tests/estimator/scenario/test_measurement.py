"""Measurement: it survives JSON whole, and every default is empty rather than guessed."""

import json
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.scenario.breakdown import PHASES
from estimator.scenario.codec import decode, encode
from estimator.scenario.measurement import (
    SCHEMA_VERSION,
    STATUSES,
    Kernel,
    MeasuredCollective,
    MeasuredMemory,
    Measurement,
    Origin,
    Warning,
    any_measured,
    disturbance,
    fullest_peak_bytes,
    rows_by_status,
    scenario_run,
    statuses_text,
    step_time_s,
)

times = st.floats(0, 1e6)
measurements = st.builds(
    Measurement,
    id=st.text(max_size=8),
    origin=st.builds(Origin, kind=st.sampled_from(["run", "upload"]), format=st.text(max_size=5)),
    device=st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=3), max_size=2),
    steps_s=st.lists(times, max_size=4).map(tuple),
    phases_s=st.dictionaries(st.sampled_from(PHASES), times),
    kernels=st.lists(
        st.builds(Kernel, name=st.text(), category=st.text(), count=st.integers(0, 100), total_s=times,
                  flops=st.none() | times, bytes=st.none() | times),
        max_size=2,
    ).map(tuple),
    collectives=st.lists(
        st.builds(MeasuredCollective, kind=st.text(), bytes=times, ranks=st.integers(1, 64), seconds=times), max_size=2
    ).map(tuple),
    memory=st.builds(MeasuredMemory, peak_bytes=st.none() | times),
    status=st.sampled_from(STATUSES),
    warnings=st.lists(st.builds(Warning, code=st.text(), message=st.text()), max_size=2).map(tuple),
)  # fmt: skip


@given(measurements)
@settings(max_examples=50, deadline=None)
def test_a_measurement_survives_json_whole(measurement):
    assert decode(Measurement, json.loads(json.dumps(encode(measurement)))) == measurement


def test_what_is_not_known_is_empty():
    empty = Measurement()
    assert (empty.steps_s, empty.phases_s, empty.kernels, empty.rows, empty.warnings) == ((), {}, (), (), ())
    assert empty.memory.peak_bytes is None
    assert empty.memory.reserved_bytes is None
    assert empty.schema_version == SCHEMA_VERSION


def test_a_scenario_ran_as_its_options_say():
    said = {"training": {"seq_len": 8}}
    assert scenario_run(Measurement(scenario=said)) == said
    assert scenario_run(Measurement(scenario=said, samples={"options": {"experts": "default"}})) == said
    ran = scenario_run(Measurement(scenario=said, samples={"options": {"experts": "grouped"}}))
    assert ran == {"training": {"seq_len": 8, "experts": "grouped"}}
    fused = scenario_run(Measurement(scenario=said, samples={"options": {"optimizer_kernel": "fused", "warmup": 3}}))
    assert fused == {"training": {"seq_len": 8, "optimizer_kernel": "fused"}}
    assert said == {"training": {"seq_len": 8}}


def test_rows_are_counted_by_what_became_of_them():
    assert any_measured([{"status": "oom"}, {}])
    assert not any_measured([{"status": "oom"}])
    counts = rows_by_status([{"status": "oom"}, {"status": "ok"}, {}])
    assert list(counts.items()) == [("ok", 2), ("oom", 1)]
    assert statuses_text(counts) == "2 ok, 1 oom"
    assert statuses_text(rows_by_status([])) == ""


def test_steps_that_differ_by_more_than_two_times_are_disturbed():
    assert (disturbance((1.0, 2.0)), disturbance((1.0, 3.1, 1.2)), disturbance(())) == (0.0, 3.1, 0.0)
    log = (*(1.0 + at / 100 for at in range(57)), 9.0, 9.0, 0.1)
    assert (disturbance(log), step_time_s(log)) == (0.0, statistics.median(log)), (
        "an evaluation in a long log disturbs no other step"
    )
    half = (*(1.0 for _ in range(30)), *(3.0 for _ in range(30)))
    assert (disturbance(half), step_time_s(half)) == (3.0, 1.0)
    assert step_time_s((1.0, 2.0, 1.4)) == 1.4
    assert step_time_s((3.1, 1.0, 1.2)) == 1.0
    assert step_time_s(()) is None


@pytest.mark.parametrize(("by_rank", "peak_bytes"), [
    ([3e9, 47e9], 47e9), ([None, 5e9], 5e9), ([None, None], 3e9), ([], 3e9), (None, 3e9), ("no list", 3e9),
])  # fmt: skip
def test_a_prediction_is_held_against_the_fullest_ranks_peak(by_rank, peak_bytes):
    measurement = Measurement(memory=MeasuredMemory(peak_bytes=3e9), samples={"peak_bytes_by_rank": by_rank})
    assert fullest_peak_bytes(measurement) == peak_bytes
