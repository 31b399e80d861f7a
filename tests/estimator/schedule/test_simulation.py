"""Timeline: orders as the papers draw them, and steps that can be added up by hand."""

from itertools import pairwise

import pytest

from estimator.scenario.plan import SCHEDULES as PLANNED
from estimator.schedule.schedules import StageTimes
from estimator.schedule.simulation.orders import SCHEDULES, schedule_named
from estimator.schedule.simulation.simulate import simulate


def times(forward_s: float, input_s: float, weight_s: float) -> StageTimes:
    return StageTimes(forward_s=forward_s, input_s=input_s, weight_s=weight_s)


def names(schedule: str, rank: int, stages: int, micro_batches: int, chunks: int = 1) -> str:
    """Write an order as in the papers' drawings: F0 F1 B0, with a letter for the chunk where there are several."""
    found = schedule_named(schedule, chunks).order(rank, stages, micro_batches, chunks)
    return " ".join(f"{work.kind}{'abcd'[work.chunk] if chunks > 1 else ''}{work.micro_batch}" for work in found)


def test_every_schedule_of_a_plan_is_there():
    assert tuple(SCHEDULES) == PLANNED


def test_gpipe_and_1f1b_orders():
    assert names("gpipe", 0, 2, 3) == "F0 F1 F2 B0 B1 B2"
    assert names("1f1b", 0, 3, 4) == "F0 F1 F2 B0 F3 B1 B2 B3"
    assert names("1f1b", 2, 3, 4) == "F0 B0 F1 B1 F2 B2 F3 B3"


def test_interleaved_orders_warm_up_as_megatron_does():
    # 4 ranks, 8 micro-batches, two chunks: 2(p − 1 − rank) + (v − 1)p forwards of a chunk come first.
    assert names("interleaved", 3, 4, 8, 2).startswith("Fa0 Fa1 Fa2 Fa3 Fb0 Bb0 Fb1 Bb1 Fb2 Bb2 Fb3 Bb3 Fa4 Ba0")
    assert names("interleaved", 0, 4, 8, 2).startswith("Fa0 Fa1 Fa2 Fa3 Fb0 Fb1 Fb2 Fb3 Fa4 Fa5 Fa6 Bb0 Fa7 Bb1")
    assert names("interleaved", 1, 2, 4, 1) == names("1f1b", 1, 2, 4)


def test_zero_bubble_h1_delays_weight_gradients_by_the_rank():
    # Qi 2023, handcrafted ZB-H1: the last of four devices computes its first W after its fourth B.
    assert names("zero-bubble", 3, 4, 5) == "F0 B0 F1 B1 F2 B2 F3 B3 W0 F4 B4 W1 W2 W3 W4"
    assert names("zero-bubble", 0, 4, 5) == "F0 F1 F2 F3 B0 W0 F4 B1 W1 B2 W2 B3 W3 B4 W4"


def test_zero_bubble_v_goes_down_and_back():
    assert (
        names("zero-bubble-v", 1, 2, 3, 2) == "Fa0 Fb0 Fa1 Fb1 Bb0 Wb0 Fa2 Ba0 Wa0 Fb2 Bb1 Wb1 Ba1 Bb2 Ba2 Wa1 Wb2 Wa2"
    )
    assert [SCHEDULES["zero-bubble-v"].position(rank, chunk, 3) for chunk in (0, 1) for rank in range(3)] == [
        0,
        1,
        2,
        5,
        4,
        3,
    ]


@pytest.mark.parametrize("schedule", PLANNED)
@pytest.mark.parametrize(("stages", "groups"), [(1, 3), (2, 1), (3, 2), (4, 3)])
def test_every_rank_does_everything_once(schedule, stages, groups):
    chunks, m = (2 if schedule in ("interleaved", "zero-bubble-v") else 1), stages * groups
    kinds = "FBW" if SCHEDULES[schedule].split else "FB"
    everything = sorted((kind, chunk, k) for kind in kinds for chunk in range(chunks) for k in range(m))
    for rank in range(stages):
        assert sorted(SCHEDULES[schedule].order(rank, stages, m, chunks)) == everything


def test_one_micro_batch_through_two_stages_by_hand():
    found = simulate("1f1b", [times(1, 1, 1), times(2, 1, 1)], micro_batches=1, send_s=0.5)
    assert [(e.rank, e.kind, e.start_s, e.end_s) for e in found.events] == [
        (0, "F", 0.0, 1.0),
        (1, "F", 1.5, 3.5),
        (1, "B", 3.5, 5.5),
        (0, "B", 6.0, 8.0),
    ]
    assert found.total_s == 8.0
    assert found.idle_s == (5.0, 4.0)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_two_stages_by_hand(schedule):
    # Forward 1, backward 2, two micro-batches: F F, then B B; stage 0 ends at 2 + 1·3 + 4 = 9.
    assert simulate(schedule, [times(1, 1, 1)] * 2, micro_batches=2).total_s == 9.0
    # A slow last stage: its work fills the time between its first forward and its last backward.
    assert simulate(schedule, [times(1, 1, 1), times(2, 2, 2)], micro_batches=4).total_s == 1.0 + 4 * 6.0 + 2.0


def test_a_slow_first_stage_hides_what_others_do_under_1f1b():
    assert simulate("1f1b", [times(10, 10, 10), times(1, 1, 1)], micro_batches=4).total_s == 4 * 30.0


def test_overlapped_messages_leave_the_sender_free():
    found = simulate("zero-bubble", [times(1, 1, 1)] * 2, micro_batches=2, send_s=0.5)
    first = [(e.kind, e.start_s) for e in found.events if e.rank == 0]
    assert first[:2] == [("F", 0.0), ("F", 1.0)]
    in_line = simulate("1f1b", [times(1, 1, 1)] * 2, micro_batches=2, send_s=0.5)
    assert [e.start_s for e in in_line.events if e.rank == 0][:2] == [0.0, 1.5]


def test_the_fold_of_zero_bubble_v_needs_no_message():
    found = simulate("zero-bubble-v", [times(2, 2, 2)] * 2, micro_batches=1, send_s=1.0)
    last = {(e.kind, e.chunk): e.start_s for e in found.events if e.rank == 1}
    assert last["F", 1] == last["F", 0] + 1.0
    assert found.total_s == 4 * 2.0 + 4 * 1.0 + 2.0


def test_ranks_do_one_thing_at_a_time_and_the_same_every_time():
    ranks = [times(1, 1.2, 0.7), times(0.9, 1.1, 0.8), times(1.3, 1.5, 0.6)]
    found = simulate("interleaved", ranks, micro_batches=6, virtual_stages=2, send_s=0.1)
    for rank in range(3):
        own = [event for event in found.events if event.rank == rank]
        assert all(before.end_s <= after.start_s for before, after in pairwise(own))
        busy = sum(event.end_s - event.start_s for event in own)
        assert found.idle_s[rank] == pytest.approx(found.total_s - busy)
    assert found == simulate("interleaved", ranks, micro_batches=6, virtual_stages=2, send_s=0.1)
