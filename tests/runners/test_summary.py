"""Samples become one step whose parts add up."""

from __future__ import annotations

import pytest

from estimator.scenario.breakdown import CATEGORIES, PHASES
from runners.summary import (
    exposed_by_phase,
    exposed_communication_s,
    host_bound,
    phases_and_breakdown,
    phases_with_waiting,
    slowest,
    spread,
)
from runners.trace.reduced import Reduced


def sample(forward: float, backward: float, optimizer: float) -> dict[str, float]:
    return {"step": forward + backward + optimizer, "forward": forward, "backward": backward, "optimizer": optimizer}


RANKS = [
    [sample(1, 2, 1), sample(1, 3, 1), sample(1, 2, 3)],
    [sample(1, 3, 1), sample(1, 2, 1), sample(1, 2, 1)],
]


def test_a_step_takes_as_long_as_its_slowest_rank():
    assert slowest(RANKS) == [5, 5, 6]


def test_exposed_communication_is_the_difference_of_medians_and_never_negative():
    assert exposed_communication_s([5, 6, 9], [4, 4, 8]) == 2
    assert exposed_communication_s([4], [5]) == 0
    assert exposed_communication_s([4], []) == 0


def test_phases_add_to_the_median_step():
    phases = phases_with_waiting(RANKS, 0.5)
    assert sum(phases.values()) == pytest.approx(5)
    assert phases["exposed_communication"] == 0.5
    # Medians of the ranks' means, 1 : 2.5 : 1, scaled to the slowest rank's median of 5
    assert phases["forward"] == pytest.approx(5 / 4.5)
    assert phases["backward"] == pytest.approx(2.5 * 5 / 4.5 - 0.5)


def test_communication_cannot_expose_more_than_backward():
    assert phases_with_waiting(RANKS, 50)["backward"] == 0


def profiled(**phases: dict[str, float]) -> Reduced:
    return Reduced(kernels=(), phases_s=phases)


def test_what_the_device_idles_in_a_phase_is_host_wait():
    phases = {"forward": 2.0, "backward": 4.0, "optimizer": 1.0, "exposed_communication": 0.5}
    step = profiled(
        forward={"matmul": 1.0, "host": 8.0},
        backward={"matmul": 2.0, "elementwise": 1.0, "communication": 9.0},
        optimizer={"optimizer": 1.0},
    )
    split, breakdown = phases_and_breakdown(phases, step)
    assert split == {
        "forward": 1.0,
        "backward": 3.0,
        "optimizer": 1.0,
        "exposed_communication": 0.5,
        "bubble": 0.0,
        "host_wait": 2.0,
    }
    assert breakdown["matmul"] == 3.0
    assert breakdown["communication"] == 0.5
    assert breakdown["host"] == 2.0
    assert sum(split.values()) == sum(breakdown.values()) == 7.5
    assert (tuple(split), tuple(breakdown)) == (PHASES, CATEGORIES)


def test_a_phase_that_profiling_slows_shrinks_to_its_measured_time_and_takes_nothing_from_others():
    phases = {"forward": 2.0, "backward": 4.0, "optimizer": 1.0, "exposed_communication": 0.0}
    step = profiled(forward={"matmul": 2.0}, backward={"matmul": 3.0}, optimizer={"optimizer": 4.0})
    split, breakdown = phases_and_breakdown(phases, step)
    assert (breakdown["matmul"], breakdown["optimizer"], breakdown["host"]) == (5.0, 1.0, 1.0)
    assert split["host_wait"] == 1.0
    assert sum(breakdown.values()) == 7.0


def test_an_empty_profile_leaves_all_to_the_host():
    phases = {"forward": 2.0, "backward": 4.0, "optimizer": 1.0, "exposed_communication": 0.0}
    split, breakdown = phases_and_breakdown(phases, profiled())
    assert split["host_wait"] == breakdown["host"] == 7


def test_spread_of_samples():
    assert spread([3.0, 1.0, 2.0, 4.0, 5.0]) == {
        "count": 5,
        "median_s": 3.0,
        "minimum_s": 1.0,
        "maximum_s": 5.0,
        "interquartile_range_s": 2.0,
    }
    assert spread([2.0])["interquartile_range_s"] == 0


def communication(forward: list[float], backward: list[float]) -> dict:
    exposed = {"forward": forward, "backward": backward, "optimizer": [0.0] * len(forward)}
    return {"exposed_s": exposed, "exposed_minimum_s": min(map(sum, zip(forward, backward, strict=True)))}


def test_exposed_communication_is_the_mean_over_ranks_and_no_longer_than_its_phase():
    found = communication([0.2, 0.4], [4.0, 6.0])
    step = profiled(forward={"matmul": 0.5}, backward={"matmul": 5.0})
    exposed = exposed_by_phase(RANKS, found, step)
    assert exposed["forward"] == pytest.approx(0.3)
    # Profiling made backward twice 5 s long: communication keeps its half of what was measured
    assert exposed["backward"] == pytest.approx(2.5 * 5 / 4.5 / 2)
    assert exposed["optimizer"] == 0
    phases = phases_with_waiting(RANKS, exposed)
    assert phases["exposed_communication"] == pytest.approx(sum(exposed.values()))
    assert sum(phases.values()) == pytest.approx(5)


def test_a_pipelines_bubble_is_a_phase_of_its_own():
    with_bubble = [[{**one, "bubble": 1.0, "step": one["step"] + 1.0} for one in rank] for rank in RANKS]
    phases = phases_with_waiting(with_bubble, {})
    assert phases["bubble"] == pytest.approx(6 / 5.5)
    split, breakdown = phases_and_breakdown(phases, profiled(forward={"matmul": 0.1}))
    assert split["bubble"] == breakdown["bubble"] == phases["bubble"]
    assert sum(split.values()) == pytest.approx(6)


def test_a_result_says_where_the_host_binds():
    phases = {"forward": 0.04, "exposed_communication": 0.0327, "host_wait": 0.001}
    assert host_bound(phases, {}) == []
    (warning,) = host_bound({**phases, "host_wait": 0.05}, {"exposed_minimum_s": 0.002})
    assert warning.code == "host_bound"
    assert warning.message.startswith(
        "launches take longer than the device works: it waits for the host 50 ms of 123 ms"
    )
    assert "32.7 ms of exposed communication are mostly waiting (2 ms in the rank that waits least)" in warning.message
    (alone,) = host_bound({"forward": 0.04, "exposed_communication": 0.0, "host_wait": 0.05}, {})
    assert "communication" not in alone.message
