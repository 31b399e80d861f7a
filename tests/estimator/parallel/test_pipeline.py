"""Pipeline: the closed form against a simulation of the schedules, and the micro-batches that each stage holds."""

import pytest

from estimator.parallel.pipeline import in_flight, pipeline_s, slowest
from tests.estimator.parallel.simulation import simulated_in_flight, simulated_s


def test_equal_stages_give_the_bubble_of_gpipe():
    # Huang 2019 and Narayanan 2021: bubble time (p − 1)·t, so that T = (m + p − 1)·t.
    assert pipeline_s([3.0] * 4, 8) == (8 + 4 - 1) * 3.0
    assert pipeline_s([3.0], 8) == 24.0


def test_uneven_stages_wait_for_the_slowest():
    assert pipeline_s([1.0, 1.0, 2.0], 5) == 4.0 + 4 * 2.0
    assert slowest([1.0, 3.0, 2.0]) == 3.0


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_the_simulation_itself_by_hand(schedule):
    # Two stages, forward 1, backward 2, two micro-batches: F F, then B B; stage 0 ends at 2 + 1·3 + 4 = 9.
    assert simulated_s(schedule, [1.0, 1.0], [2.0, 2.0], 2) == 9.0
    # A slow last stage: its work fills the time between its first forward and its last backward.
    assert simulated_s(schedule, [1.0, 2.0], [2.0, 4.0], 4) == 1.0 + 4 * 6.0 + 2.0


def test_a_slow_first_stage_hides_what_others_do_under_1f1b():
    # The closed form is then above the schedule: the first stage never waits but for its last micro-batch.
    exact = simulated_s("1f1b", [10.0, 1.0], [20.0, 2.0], 4)
    assert exact == 4 * 30.0
    assert pipeline_s([30.0, 3.0], 4) == exact + 3.0


@pytest.mark.parametrize("stages", [1, 2, 5])
@pytest.mark.parametrize("micro_batches", [1, 3, 4, 9])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_micro_batches_in_flight_are_those_of_the_schedule(schedule, stages, micro_batches):
    for stage in range(stages):
        expected = simulated_in_flight(schedule, stage, stages, micro_batches)
        assert in_flight(schedule, stage, stages, micro_batches) == expected


def test_the_last_stage_of_1f1b_holds_one_and_gpipe_all():
    assert [in_flight("1f1b", stage, 4, 8) for stage in range(4)] == [4, 3, 2, 1]
    assert [in_flight("gpipe", stage, 4, 8) for stage in range(4)] == [8, 8, 8, 8]
