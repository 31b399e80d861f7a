"""Stages: the slowest of them, and all together."""

import numpy as np

from estimator.schedule.micro_batch import Stages, StageTimes


def times(seconds) -> StageTimes:
    return StageTimes(forward_s=seconds / 4, input_s=seconds / 2, weight_s=seconds / 4)


def test_a_stage_is_forward_and_both_halves_of_backward():
    assert StageTimes(forward_s=1.0, input_s=2.0, weight_s=4.0).seconds == 7.0


def test_two_stages_have_no_middle_that_sets_the_pace():
    assert [Stages(first=times(2.0), middle=times(8.0), last=times(4.0), count=n).slowest_s for n in (2, 3)] == [
        4.0,
        8.0,
    ]
    found = Stages(first=times(2.0), middle=times(8.0), last=times(4.0), count=np.array([2, 3]))
    assert list(found.slowest_s) == [4.0, 8.0]


def test_all_stages_together():
    total = Stages(first=times(2.0), middle=times(8.0), last=times(4.0), count=5).total
    assert (total.forward_s, total.input_s, total.weight_s) == (7.5, 15.0, 7.5)
    assert total.seconds == 2 + 3 * 8 + 4
