"""Zero-bubble V by hand: equal stages, a slow first stage, one micro-batch, and rows of different plans together."""

import numpy as np
import pytest

from estimator.schedule.micro_batch import Stages, StageTimes
from estimator.schedule.zero_bubble_v import AT_ONCE, zero_bubble_v


def times(forward_s: float, input_s: float, weight_s: float) -> StageTimes:
    return StageTimes(forward_s=forward_s, input_s=input_s, weight_s=weight_s)


def equal(p: int, m: int, send_s: float = 0.0) -> tuple[float, float]:
    return zero_bubble_v(Stages(first=EVEN, middle=EVEN, last=EVEN, count=p), m, 2, send_s)


EVEN = times(2.0, 2.0, 2.0)


@pytest.mark.parametrize("m", [7, 8, 100])
def test_equal_passes_leave_the_stagger_of_half_a_forward(m):
    assert equal(4, m) == (3 * 1.0, 3 * 1.0)


def test_one_micro_batch_goes_through_everything():
    # p(F + B) and the first rank's last weight gradients, less a rank's own time; 4(p − 1) messages on the way.
    assert equal(4, 1, 0.25) == (4 * 4.0 + 1.0 - 6.0 + 1.0, pytest.approx(4 * 4.0 + 1.0 - 6.0 + 1.0 + 12 * 0.25))


@pytest.mark.parametrize(("m", "low", "high"), [(2, 1, 4), (3, 1, 4), (5, 4, 7), (6, 4, 7)])
def test_few_micro_batches_lie_between_those_that_are_counted(m, low, high):
    ends = [equal(4, n)[0] for n in (low, high)]
    assert equal(4, m)[0] == pytest.approx(ends[0] + (ends[1] - ends[0]) * (m - low) / (high - low))


def test_a_slow_first_rank_never_waits():
    # It starts at once, and the last backward ends on it: only its own last weight gradients come after.
    stages = Stages(first=times(8.0, 8.0, 8.0), middle=times(1.0, 1.0, 1.0), last=times(1.0, 1.0, 1.0), count=4)
    assert zero_bubble_v(stages, 16, 2, 0.0) == (0.0, 0.0)


def test_a_slow_last_rank_waits_for_its_first_forward():
    slow = times(8.0, 8.0, 8.0)
    stages = Stages(first=EVEN, middle=EVEN, last=slow, count=4)
    # Three chunks' forward down to it; from it, more than its own last work takes two chunks' backward and W of others.
    assert zero_bubble_v(stages, 16, 2, 0.0)[0] == 3 * 1.0
    assert zero_bubble_v(stages, 16, 2, 0.5)[1] == 3 * 1.0 + 3 * 0.5


def test_rows_of_all_numbers_of_stages_are_priced_as_each_alone():
    random = np.random.default_rng(5)
    count = 2 * AT_ONCE + 100
    first, middle, last = (times(*random.uniform(0.1, 1, (3, count))) for _ in range(3))
    p, m, send_s = (
        random.integers(2, 6, count).astype(float),
        random.integers(1, 12, count),
        random.uniform(0, 1, count),
    )
    stages = Stages(first=first, middle=middle, last=last, count=p)
    together = zero_bubble_v(stages, m, 2, send_s)
    for i in range(0, count, 97):
        alone = Stages(**{name: row(getattr(stages, name), i) for name in ("first", "middle", "last")}, count=int(p[i]))
        found = zero_bubble_v(alone, int(m[i]), 2, float(send_s[i]))
        assert all(isinstance(value, float) for value in found)
        assert [values[i] for values in together] == pytest.approx(found, rel=1e-12, abs=1e-12)


def row(found: StageTimes, i: int) -> StageTimes:
    return times(*(float(x[i]) for x in (found.forward_s, found.input_s, found.weight_s)))
