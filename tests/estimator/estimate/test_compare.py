"""Comparing is subtraction: deltas add up, like is compared with like, and what is not known stays out."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.estimate.compare import (
    ComparedMemory,
    Item,
    compare,
    differences,
    fold_host_wait,
    of_estimate,
    of_measurement,
)
from estimator.estimate.estimate import estimate
from estimator.scenario.breakdown import CATEGORIES, MEMORY_KINDS, PHASES
from estimator.scenario.measurement import MeasuredMemory, Measurement
from estimator.scenario.scenario import scenario_from_json

LLAMA = {
    "model": "llama3-8b",
    "cluster": {"chip": "h200-sxm", "chips_per_node": 8, "nodes": 1},
    "plan": {"dp": 8, "sharding": "fsdp", "micro_batch": 1},
    "training": {"seq_len": 4096, "global_batch": 8, "precision": "bf16"},
}


def amounts(names):
    return st.dictionaries(st.sampled_from(names), st.floats(0, 1e12))


known = st.none() | st.floats(1e-9, 1e12)
items = st.builds(
    Item,
    label=st.text(max_size=5),
    kind=st.sampled_from(["measured", "predicted"]),
    step_time_s=known,
    tokens_per_s=known,
    phases_s=amounts(PHASES),
    breakdown_s=amounts(CATEGORIES),
    memory=st.builds(ComparedMemory, peak_bytes=known, by_kind=amounts(MEMORY_KINDS)),
    host_wait_by_phase_s=amounts(("forward", "backward", "optimizer")),
)


@given(st.lists(items, min_size=1, max_size=4), st.data())
def test_deltas_are_differences_of_the_items_shown(given_items, data):
    baseline = data.draw(st.integers(0, len(given_items) - 1))
    found = compare(given_items, baseline)
    base = found.items[baseline]
    for item, delta in zip(found.items, found.deltas, strict=True):
        for name, value in delta.phases_s.items():
            assert value == item.phases_s[name] - base.phases_s[name]
        for name, value in delta.breakdown_s.items():
            assert value == item.breakdown_s[name] - base.breakdown_s[name]
        for name, value in delta.memory_bytes.items():
            assert value == item.memory.by_kind[name] - base.memory.by_kind[name]
        assert set(delta.phases_s) == set(item.phases_s) & set(base.phases_s)
        assert (delta.step_time_frac is None) == (item.step_time_s is None or base.step_time_s is None)
    assert all(value == 0 for value in found.deltas[baseline].phases_s.values())
    assert found.deltas[baseline].step_time_frac in (None, 0.0)


def test_the_sign_says_slower_and_larger_than_the_baseline():
    base = Item(label="a", kind="predicted", step_time_s=2.0, tokens_per_s=10.0, memory=ComparedMemory(peak_bytes=4.0))
    slow = Item(label="b", kind="measured", step_time_s=3.0, tokens_per_s=5.0, memory=ComparedMemory(peak_bytes=5.0))
    delta = compare([base, slow]).deltas[1]
    assert (delta.step_time_s, delta.step_time_frac, delta.tokens_per_s_frac) == (1.0, 0.5, -0.5)
    assert delta.peak_bytes_frac == 0.25


def test_an_estimate_keeps_its_sums():
    scenario = scenario_from_json(LLAMA)
    prediction = estimate(scenario)
    item = of_estimate(prediction, scenario, "llama")
    assert sum(item.phases_s.values()) == pytest.approx(prediction.step_time_s)
    assert sum(item.breakdown_s.values()) == pytest.approx(prediction.step_time_s)
    assert sum(item.memory.by_kind.values()) == pytest.approx(prediction.memory.peak_bytes)
    assert item.scenario["model"]["layers"] == 32


def test_a_measurement_of_the_predicted_step_shows_no_difference():
    scenario = scenario_from_json(LLAMA)
    prediction = estimate(scenario)
    measurement = Measurement(
        label="as predicted",
        scenario=LLAMA,
        steps_s=(prediction.step_time_s,),
        phases_s=prediction.phases_s,
        breakdown_s=prediction.breakdown_s,
        memory=MeasuredMemory(peak_bytes=prediction.memory.peak_bytes),
    )
    found = compare([of_estimate(prediction, scenario, "predicted"), of_measurement(measurement)])
    assert found.deltas[1].step_time_frac == 0
    assert found.deltas[1].tokens_per_s_frac == pytest.approx(0)
    assert set(found.deltas[1].breakdown_s) == set(CATEGORIES)
    assert found.items[1].mfu == pytest.approx(prediction.mfu)
    assert found.items[1].memory.capacity_bytes == prediction.memory.capacity_bytes
    assert found.differences == ()


def test_the_median_step_stands_for_a_measurement():
    assert of_measurement(Measurement(steps_s=(1.9, 1.0, 1.2))).step_time_s == 1.2


def test_the_peak_beside_a_prediction_is_the_fullest_ranks_and_kinds_are_of_the_rank_that_told_them():
    memory = MeasuredMemory(peak_bytes=3e9, reserved_bytes=4e9, by_kind={"parameters": 3e9})
    first = of_measurement(Measurement(memory=memory, samples={"peak_bytes_by_rank": [3e9, 2e9]})).memory
    assert (first.peak_bytes, first.reserved_bytes, first.by_kind) == (3e9, 4e9, {"parameters": 3e9})
    other = of_measurement(Measurement(memory=memory, samples={"peak_bytes_by_rank": [3e9, 47e9]})).memory
    assert (other.peak_bytes, other.reserved_bytes, other.by_kind) == (47e9, None, {})


def test_a_disturbed_measurement_is_its_fastest_step_and_has_no_time_beside_others():
    disturbed = of_measurement(Measurement(label="disturbed", steps_s=(9.0, 1.0, 2.0), phases_s={"forward": 1.0}))
    calm = of_measurement(Measurement(label="calm", steps_s=(2.0, 2.1), phases_s={"forward": 0.5}))
    assert (disturbed.step_time_s, disturbed.disturbance, calm.disturbance) == (1.0, 9.0, 0.0)
    for items in ([disturbed, calm], [calm, disturbed]):
        found = compare(items)
        assert found.deltas[0].step_time_frac == 0
        assert (found.deltas[1].step_time_s, found.deltas[1].step_time_frac) == (None, None)
        assert found.deltas[1].phases_s == {}
    assert of_measurement(Measurement(status="oom")).step_time_s is None
    assert of_measurement(Measurement(status="oom")).status == "oom"


PREDICTED = Item(
    label="p",
    kind="predicted",
    step_time_s=10.0,
    phases_s={
        "forward": 2.0,
        "backward": 4.0,
        "optimizer": 1.0,
        "exposed_communication": 0.5,
        "bubble": 0.0,
        "host_wait": 2.5,
    },
    host_wait_by_phase_s={"forward": 1.5, "backward": 0.75, "optimizer": 0.25},
)


def test_host_wait_is_folded_where_the_measurement_does_not_tell_it_apart():
    measured = Item(label="m", kind="measured", phases_s={"forward": 3.5, "backward": 5.0, "optimizer": 1.0})
    found = compare([PREDICTED, measured])
    assert found.items[0].phases_s == {
        "forward": 3.5,
        "backward": 4.75,
        "optimizer": 1.25,
        "exposed_communication": 0.5,
        "bubble": 0.0,
        "host_wait": 0.0,
    }
    assert found.deltas[1].phases_s == {"forward": 0.0, "backward": 0.25, "optimizer": -0.25}
    assert len(found.notes) == 1


def test_a_log_is_compared_with_phases_that_hold_what_they_wait_for():
    scenario = scenario_from_json(LLAMA)
    predicted = of_estimate(estimate(scenario, interval=False), scenario, "p")
    exposed_s = predicted.phases_s["exposed_communication"]
    assert exposed_s > 0.01 * predicted.step_time_s
    assert math.fsum(predicted.exposed_by_phase_s.values()) == pytest.approx(exposed_s, rel=1e-12)
    # figures of few digits add to a little more than their step
    log = of_measurement(
        Measurement(scenario=LLAMA, steps_s=(1.0, 1.0), phases_s={"forward": 0.3, "backward": 0.65, "optimizer": 0.06})
    )
    found = compare([predicted, log])
    assert [note.split(" is ")[0] for note in found.notes] == ["Waiting for the host", "Communication that shows"]
    causes = found.deltas[1].causes
    assert [one.name for one in causes] == ["forward", "backward", "optimizer"]
    assert all(one.a_s > 0 and one.b_s > 0 for one in causes)
    assert math.fsum(one.a_s for one in causes) == pytest.approx(predicted.step_time_s, rel=1e-9)
    assert math.fsum(one.b_s for one in causes) == pytest.approx(1.0, rel=1e-9)
    assert math.fsum(one.seconds for one in causes) == pytest.approx(1.0 - predicted.step_time_s, rel=1e-9)
    # what tells communication apart is compared with it apart
    apart = dataclasses.replace(log, phases_s={**log.phases_s, "exposed_communication": 0.0})
    assert compare([predicted, apart]).items[0].phases_s["exposed_communication"] == exposed_s


def test_host_wait_stays_apart_where_the_measurement_has_it():
    measured = Item(label="m", kind="measured", phases_s={"forward": 2.0, "host_wait": 2.0})
    found = compare([PREDICTED, measured])
    assert found.deltas[1].phases_s == {"forward": 0.0, "host_wait": -0.5}
    assert found.notes == ()


def test_folding_keeps_the_step_time_and_what_has_no_phase():
    partly = dataclasses.replace(PREDICTED, host_wait_by_phase_s={"forward": 1.0})
    folded = fold_host_wait(partly)
    assert sum(folded.phases_s.values()) == sum(PREDICTED.phases_s.values())
    assert folded.phases_s["host_wait"] == 1.5
    assert fold_host_wait(folded) is folded


def test_differences_name_flattened_fields_and_say_none_where_unknown():
    found = differences(
        [
            {"plan": {"dp": 8, "tp": 1}, "training": {"seq_len": 4096}},
            {"plan": {"dp": 4, "tp": 1}, "training": {"seq_len": 4096, "precision": "bf16"}},
        ]
    )
    assert [(difference.field, difference.values) for difference in found] == [
        ("plan.dp", (8, 4)),
        ("training.precision", (None, "bf16")),
    ]


def test_a_catalogue_name_and_what_it_names_are_no_difference():
    scenario = scenario_from_json(LLAMA)
    named = of_measurement(Measurement(scenario=LLAMA))
    inline = of_estimate(estimate(scenario), scenario, "inline")
    assert compare([named, inline]).differences == ()
