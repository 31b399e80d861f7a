"""Schedules' forms by hand: the papers' equal stages, and when W is the longer or the shorter part of backward."""

import pytest

from estimator.scenario.plan import SCHEDULES
from estimator.schedule.micro_batch import Stages, StageTimes
from estimator.schedule.schedules import FORMULAS, chunks_in_flight, head_in_flight


def forms(schedule: str, own: tuple[float, float, float], p: int, m: int, v: int = 1, send_s: float = 0.0):
    """Return the form's seconds without and with messages, all stages alike."""
    stages = Stages(first=times(own), middle=times(own), last=times(own), count=p)
    return FORMULAS[schedule].beyond_s(stages, m, v, send_s)


def times(found) -> StageTimes:
    forward_s, input_s, weight_s = found
    return StageTimes(forward_s=forward_s, input_s=input_s, weight_s=weight_s)


def test_every_schedule_has_its_formulas():
    assert tuple(FORMULAS) == SCHEDULES


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_the_bubble_of_gpipe_and_1f1b_is_one_pass_of_every_other_stage(schedule):
    assert forms(schedule, (1.0, 1.5, 0.5), 4, 8)[0] == 3 * 3.0


@pytest.mark.parametrize("chunks", [1, 2, 4])
def test_interleaving_divides_the_bubble_and_multiplies_the_messages(chunks):
    idle_s, both_s = forms("interleaved", (1.0, 1.5, 0.5), 4, 8, chunks, send_s=0.1)
    assert idle_s == 3 * 3.0 / chunks
    messages = 2 * (4 * chunks - 1) if chunks > 1 else 2 * 3 + 2 * 7
    assert both_s - idle_s == pytest.approx(0.1 * messages)


def test_messages_longer_than_a_chunk_hold_up_every_micro_batch():
    hidden = forms("interleaved", (2.0, 1.0, 1.0), 4, 64, 2, send_s=1.0)
    slow = forms("interleaved", (2.0, 1.0, 1.0), 4, 64, 2, send_s=1.5)
    assert hidden[1] - hidden[0] == 2 * 7 * 1.0
    assert slow[1] - slow[0] > 2 * 7 * 1.5 + 30 * 0.5


def test_zero_bubble_h1_is_the_papers_form_where_weight_gradients_are_shortest():
    # Qi 2023, of its handcrafted schedules: (p − 1)(F + B − W).
    assert forms("zero-bubble", (3.0, 4.0, 2.0), 4, 8)[0] == 3 * (3.0 + 4.0 - 2.0)
    # A longer W cannot start before there is work: the longer of F and B stays.
    assert forms("zero-bubble", (3.0, 4.0, 9.0), 4, 8)[0] == 3 * 4.0
    # Fewer micro-batches than stages hide less.
    assert forms("zero-bubble", (3.0, 4.0, 2.0), 4, 2)[0] == 3 * 7.0 - 2.0


def test_ramps_wait_for_what_the_bubble_holds_of_a_stage():
    one = times((1.0, 2.0, 4.0))
    ramps = {schedule: FORMULAS[schedule].ramp_s(one, 2) for schedule in SCHEDULES}
    assert ramps == {
        "gpipe": 7.0, "1f1b": 7.0, "interleaved": 3.5, "zero-bubble": 1 + 2 - 1, "zero-bubble-v": 0.5
    }  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_free_messages_cost_nothing(schedule):
    idle_s, both_s = forms(schedule, (1.0, 1.2, 0.8), 4, 8, 2)
    assert idle_s == both_s


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_equal_passes_order_the_schedules(schedule):
    assert forms(schedule, (1.0, 1.0, 1.0), 8, 32, 2)[0] <= forms("1f1b", (1.0, 1.0, 1.0), 8, 32)[0]


def test_behind_an_interleaved_head_waits_what_is_not_of_earlier_chunks():
    # Nine chunks in flight on the last of four stages: eight of the two chunks before, one behind the head.
    assert head_in_flight("interleaved", 3.0, 4, 3) == 1.0
    assert head_in_flight("interleaved", 4.0, 4, 2) == 4.0
    assert head_in_flight("1f1b", 3.0, 4, 1) == 3.0


@pytest.mark.parametrize(
    ("held", "stages", "micro_batches", "first", "last"),
    [
        # Of two chunks the first runs twice, the second twice, and the first once more
        (2.5, 2, 4, 3, 2),
        (1.5, 2, 4, 2, 1),
        (5.5, 4, 8, 7, 4),
        (2.5, 4, 8, 4, 1),
        # No more micro-batches than there are
        (2.0, 4, 2, 2, 2),
    ],
)
def test_chunks_take_turns_of_as_many_micro_batches_as_there_are_stages(held, stages, micro_batches, first, last):
    assert chunks_in_flight("interleaved", held, stages, micro_batches, 2) == (first, last)
    assert chunks_in_flight("1f1b", held, stages, micro_batches, 1) == (held, held)
