"""Residual: kinds of steps, what is known of each, and the interval and risk that follow."""

from __future__ import annotations

import math

import pytest

from estimator.cost.efficiency import Range
from estimator.estimate.estimate import estimate
from estimator.estimate.residual import (
    ANY,
    STRUCTURE,
    Residual,
    held_interval,
    kind_of,
    kind_of_program,
    known,
    memory_interval,
    out_of_memory_frac,
    residuals,
    widened,
)
from tests.estimator.examples import LLAMA, scenario


@pytest.mark.parametrize(
    ("plan", "training", "host_share", "kind"),
    [
        ({}, {}, 0.1, "one device"),
        ({}, {}, 0.5, "one device, host near"),
        ({}, {"compile": True}, 2.0, "one device, compiled, host binds"),
        ({"dp": 4}, {}, 0.1, "data parallel"),
        ({"dp": 4, "sharding": "fsdp"}, {}, 0.1, "sharded"),
        ({"dp": 2, "tp": 2}, {}, 0.1, "split"),
        ({"dp": 2, "tp": 2}, {"framework": "megatron"}, 0.1, "tuned cluster"),
    ],
)
def test_kinds_of_steps(plan, training, host_share, kind):
    assert kind_of(scenario(LLAMA, plan=plan, global_batch=8, **training), host_share) == kind


def test_a_program_is_judged_by_its_ranks_and_its_waiting_for_the_host():
    assert kind_of_program(1, 0.0) == "one device"
    assert kind_of_program(1, 0.05) == "one device, host near"
    assert kind_of_program(4, 0.5) == "sharded, host binds"


def test_what_is_known_of_every_kind_makes_sense_and_says_where_it_is_from():
    assert ANY in residuals()
    for kind, one in residuals().items():
        assert 0.1 < one.low < 10, kind
        assert 0.1 < one.high < 20, kind
        assert 0 < one.memory_low <= one.memory_high, kind
        assert " times of " in one.source, kind


def test_a_kind_that_is_not_known_is_judged_by_the_widest_of_its_words():
    def of(low, high, memory=1.0):
        return Residual(low=low, high=high, memory_low=memory, memory_high=memory, source="")

    found = {"any": of(1, 1), "split": of(1, 2, 3), "split, experts": of(1.5, 1), "host near": of(1, 4)}
    assert known("split, experts", found) is found["split, experts"]
    assert known("split, experts, host near", found) == of(1.5, 4)
    assert known("split, host binds", found) == of(1, 2, 3)
    assert known("sharded", found) == of(1, 1)


def test_ends_move_by_their_logarithms_and_no_interval_is_narrower_than_the_models_structure():
    one = known("one device")
    low, high = widened(2.0, (1.0, 4.0), "one device")
    end = math.hypot(math.log(2), STRUCTURE)
    assert (low, high) == (pytest.approx(2 * math.exp(-end * one.low)), pytest.approx(2 * math.exp(end * one.high)))
    low, high = widened(2.0, (2.0, 2.0), "one device")
    assert (low, high) == (
        pytest.approx(2 * math.exp(-STRUCTURE * one.low)),
        pytest.approx(2 * math.exp(STRUCTURE * one.high)),
    )


def test_an_estimate_has_the_interval_of_its_kind_and_a_risk_that_grows_as_memory_shrinks():
    found = estimate(scenario(LLAMA))
    assert found.kind.startswith("one device")
    assert found.interval_s[0] < found.step_time_s < found.interval_s[1]
    low, high = found.memory.interval_bytes
    assert low <= found.memory.peak_bytes <= high
    assert (low, high) == memory_interval(found.memory.peak_bytes, found.kind)
    risks = [out_of_memory_frac(1.0, capacity, "one device") for capacity in (0.5, 0.95, 1.0, 1.1, 2.0)]
    assert risks == sorted(risks, reverse=True)
    assert risks[0] > 0.99
    assert risks[-1] < 0.01
    assert out_of_memory_frac(0.0, 1.0, "one device") == 0.0


def test_what_the_allocator_holds_widens_the_risk():
    wide = Range(value=1.1, low=1.0, high=1.3, unit="", source="")
    for capacity in (0.9, 1.1):
        known_well, less = (out_of_memory_frac(1.0, capacity, "one device", one) for one in (None, wide))
        assert abs(less - 0.5) < abs(known_well - 0.5)
    # A tenth of steps hold more than the range's upper end, where peaks are known.
    sure = out_of_memory_frac(1.0, 1.3 / 1.1, "one device", wide)
    assert 0.05 < sure < 0.2


def test_a_tenth_of_the_steps_needs_more_than_the_upper_end():
    one = known("one device")
    centre = math.sqrt(min(one.memory_low, 1.0) * max(one.memory_high, 1.0))
    assert out_of_memory_frac(1.0, centre, "one device") == pytest.approx(0.5)
    assert out_of_memory_frac(1.0, max(one.memory_high, 1.0), "one device") == pytest.approx(0.1, abs=1e-4)


def test_what_the_allocator_holds_is_known_less_well_than_the_peak():
    share = Range(value=1.07, low=1.02, high=1.23, unit="", source="")
    peak, held = memory_interval(1.0, "one device"), held_interval(1.0, "one device", share)
    assert held_interval(1.0, "one device", None) == pytest.approx(peak)
    for ours, of_peak, alone in zip(held, peak, (1.02 / 1.07, 1.23 / 1.07), strict=True):
        assert math.log(ours) ** 2 == pytest.approx(math.log(of_peak) ** 2 + math.log(alone) ** 2)
