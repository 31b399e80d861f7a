"""Pipeline: bubbles by hand, stages of different length, rows as arrays, micro-batches held, and what is refused."""

import numpy as np
import pytest

from estimator.scenario.legality import schedule_problems
from estimator.scenario.plan import FOLDED, SCHEDULES
from estimator.schedule.micro_batch import StageTimes
from estimator.schedule.schedules import bubble_s, fullest_of, in_flight
from estimator.schedule.simulation.simulate import simulate


def times(seconds: float) -> StageTimes:
    return StageTimes(forward_s=seconds / 4, input_s=seconds / 2, weight_s=seconds / 4)


def bubble(schedule, seconds, micro_batches, virtual_stages=1, send_s=0.0):
    first, middle, last = times(seconds[0]), times(seconds[len(seconds) // 2]), times(seconds[-1])
    return bubble_s(schedule, first=first, middle=middle, last=last, stages=len(seconds), micro_batches=micro_batches,
                    virtual_stages=virtual_stages, send_s=send_s)  # fmt: skip


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_uneven_stages_wait_once_for_every_other_stage(schedule):
    # Σ stages + (m − 1) · slowest, less m · slowest.
    for seconds in ([4.0, 4.0, 4.0, 4.0], [2.0, 1.0, 1.0, 4.0], [4.0, 1.0, 2.0], [1.0, 4.0, 4.0, 1.0], [3.0, 4.0]):
        assert bubble(schedule, seconds, 9).idle_s == sum(seconds) - max(seconds)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_one_stage_has_no_bubble_and_sends_nothing(schedule):
    found = bubble(schedule, [3.0], 8, 2, send_s=0.5)
    assert (found.idle_s, found.send_s) == (0.0, 0.0)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_two_stages_have_none_between(schedule):
    quick, slow = (
        bubble_s(schedule, first=times(1.0), middle=times(between), last=times(2.0), stages=2, micro_batches=8,
                 virtual_stages=2, send_s=0.01)
        for between in (0.5, 100.0)
    )  # fmt: skip
    assert quick == slow


def test_messages_in_line_pass_on_the_way_and_once_each_way_per_further_micro_batch():
    assert bubble("1f1b", [3.0] * 4, 8, send_s=0.5).send_s == 0.5 * (2 * 3 + 2 * 7)
    # Of two stages each sends only one way.
    assert bubble("1f1b", [3.0] * 2, 8, send_s=0.5).send_s == 0.5 * (2 * 1 + 7)
    assert bubble("gpipe", [3.0] * 2, 8, send_s=0.5).send_s == 0.5 * (2 * 1 + 2 * 7)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_idle_time_and_messages_are_never_negative(schedule):
    found = bubble(schedule, [8.0, 0.01, 0.01, 0.01], 8, 2, send_s=1e-4)
    assert found.idle_s >= 0
    assert found.send_s >= 0


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_rows_give_what_each_gives_alone(schedule):
    stages, micro_batches, chunks = (
        np.array([1.0, 2, 3, 8, 4]),
        np.array([4.0, 4, 9, 8, 20]),
        np.array([1.0, 2, 3, 2, 1]),
    )
    rng = np.random.default_rng(7)
    first, middle, last = (StageTimes(forward_s=f, input_s=b, weight_s=w) for f, b, w in rng.uniform(0.1, 1, (3, 3, 5)))
    together = bubble_s(schedule, first=first, middle=middle, last=last, stages=stages, micro_batches=micro_batches,
                        virtual_stages=chunks, send_s=0.2)  # fmt: skip
    for i in range(5):
        alone = bubble_s(schedule, first=row(first, i), middle=row(middle, i), last=row(last, i),
                         stages=int(stages[i]), micro_batches=int(micro_batches[i]), virtual_stages=int(chunks[i]),
                         send_s=0.2)  # fmt: skip
        assert isinstance(alone.idle_s, float)
        assert together.idle_s[i] == pytest.approx(alone.idle_s, rel=1e-12, abs=1e-15)
        assert together.send_s[i] == pytest.approx(alone.send_s, rel=1e-12, abs=1e-15)


def row(found: StageTimes, i: int) -> StageTimes:
    forward_s, input_s, weight_s = (float(x[i]) for x in (found.forward_s, found.input_s, found.weight_s))
    return StageTimes(forward_s=forward_s, input_s=input_s, weight_s=weight_s)


@pytest.mark.parametrize("stages", [1, 2, 5])
@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_micro_batches_in_flight_are_those_of_the_schedule(schedule, stages, groups):
    for chunks in (1, 2, 3) if schedule == "interleaved" else (2,) if schedule == "zero-bubble-v" else (1,):
        m = groups * stages
        held = simulate(schedule, [times(1.0)] * stages, micro_batches=m, virtual_stages=chunks).in_flight
        assert [in_flight(schedule, i, stages, m, chunks) for i in range(stages)] == pytest.approx(held)
        rows = in_flight(
            schedule, np.arange(stages), np.full(stages, stages), np.full(stages, m), np.full(stages, chunks)
        )
        assert list(rows) == pytest.approx(held)


def test_micro_batches_in_flight_by_hand():
    assert [in_flight("1f1b", stage, 4, 8) for stage in range(4)] == [4, 3, 2, 1]
    assert [in_flight("gpipe", stage, 4, 8) for stage in range(4)] == [8, 8, 8, 8]
    # Narayanan 2021, section 2.2.2: p(1 + (p − 1)/(pv)) on the first stage.
    assert in_flight("interleaved", 0, 4, 8, 2) == 4 * (1 + 3 / (4 * 2))
    assert [in_flight("zero-bubble", stage, 4, 8) for stage in range(4)] == [4, 4, 4, 4]
    assert [in_flight("zero-bubble-v", stage, 4, 8, 2) for stage in range(4)] == [4, 4, 4, 4]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_stages_that_hold_the_most_of_their_kind_are_looked_at(schedule):
    kinds = {"first": [0], "middle": [1, 2, 3, 4], "last": [5]}
    for kind, places in kinds.items():
        held = [in_flight(schedule, place, 6, 6, 2 if schedule in FOLDED else 1) for place in places]
        looked_at = fullest_of(kind, schedule, 6)
        assert set(looked_at) <= set(places)
        assert max(held) in [held[places.index(place)] for place in looked_at]


@pytest.mark.parametrize(
    ("schedule", "stages", "micro_batches", "chunks", "fields"),
    [
        ("1f1b", 4, 6, 1, []),
        ("1f1b", 4, 6, 2, ["plan.virtual_stages"]),
        ("gpipe", 1, 6, 2, []),
        ("interleaved", 4, 8, 2, []),
        ("interleaved", 4, 6, 1, []),
        ("interleaved", 4, 6, 2, ["training.global_batch"]),
        ("zero-bubble", 4, 3, 1, []),
        ("zero-bubble", 4, 3, 2, ["plan.virtual_stages"]),
        ("zero-bubble-v", 4, 3, 1, []),
        ("zero-bubble-v", 4, 3, 2, []),
        ("zero-bubble-v", 4, 3, 3, ["plan.virtual_stages"]),
    ],
)
def test_what_a_schedule_does_not_allow(schedule, stages, micro_batches, chunks, fields):
    found = schedule_problems(schedule, stages, micro_batches, chunks)
    assert [problem.field for problem in found] == fields
    assert all(problem.message and problem.remedy.endswith(".") for problem in found)
