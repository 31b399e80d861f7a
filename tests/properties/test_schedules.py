"""The pipeline's closed form against an event simulation: where it is exact, and where it is a bound.

- Equal stages: exact for GPipe and 1F1B.
- Uneven stages whose backward is a fixed multiple of forward: exact for GPipe; for 1F1B exact where the last stage
  (which has the head) is the slowest, and otherwise an upper bound.
- Anything else: never below what the slowest stage and the way to and from it take.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.parallel.pipeline import in_flight, pipeline_s
from tests.estimator.parallel.simulation import simulated_in_flight, simulated_s

schedules = st.sampled_from(("gpipe", "1f1b"))
times = st.floats(0.01, 10)
stage_times = st.lists(times, min_size=1, max_size=7)
micro_batches = st.integers(1, 12)


def closed_s(forward: list[float], backward: list[float], m: int) -> float:
    return pipeline_s([f + b for f, b in zip(forward, backward, strict=True)], m)


@given(schedules, times, times, st.integers(1, 8), micro_batches)
@settings(deadline=None)
def test_equal_stages_are_exact(schedule, forward, backward, p, m):
    assert closed_s([forward] * p, [backward] * p, m) == pytest.approx(
        simulated_s(schedule, [forward] * p, [backward] * p, m)
    )


@given(stage_times, st.floats(0.5, 4), micro_batches)
@settings(deadline=None)
def test_gpipe_is_exact_where_backward_is_a_multiple_of_forward(forward, ratio, m):
    backward = [ratio * f for f in forward]
    assert closed_s(forward, backward, m) == pytest.approx(simulated_s("gpipe", forward, backward, m))


@given(stage_times, st.floats(0.5, 4), micro_batches)
@settings(deadline=None)
def test_1f1b_is_exact_where_the_last_stage_is_slowest(forward, ratio, m):
    forward = [*forward, max(forward)]
    backward = [ratio * f for f in forward]
    assert closed_s(forward, backward, m) == pytest.approx(simulated_s("1f1b", forward, backward, m))


@given(stage_times, st.floats(0.5, 4), micro_batches)
@settings(deadline=None)
def test_1f1b_is_bounded_from_above_otherwise(forward, ratio, m):
    backward = [ratio * f for f in forward]
    assert simulated_s("1f1b", forward, backward, m) <= closed_s(forward, backward, m) * (1 + 1e-9)


@given(schedules, stage_times, st.data(), micro_batches)
@settings(deadline=None)
def test_neither_is_below_the_slowest_stage_and_the_way_to_it(schedule, forward, data, m):
    backward = data.draw(st.lists(times, min_size=len(forward), max_size=len(forward)))
    both = [f + b for f, b in zip(forward, backward, strict=True)]
    least = max(sum(both[:i]) + m * both[i] for i in range(len(both)))
    assert closed_s(forward, backward, m) >= least * (1 - 1e-9)
    assert simulated_s(schedule, forward, backward, m) >= least * (1 - 1e-9)


@given(schedules, st.integers(1, 16), micro_batches, st.data())
@settings(deadline=None)
def test_micro_batches_in_flight_are_the_simulations(schedule, p, m, data):
    stage = data.draw(st.integers(0, p - 1))
    assert in_flight(schedule, stage, p, m) == simulated_in_flight(schedule, stage, p, m)
