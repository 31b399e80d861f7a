"""Zero-bubble V: the ways through a step, and steps by hand: equal stages, a slow first one, one micro-batch."""

import numpy as np
import pytest

from estimator.schedule.micro_batch import Stages, StageTimes
from estimator.schedule.zero_bubble_v import AT_ONCE, MORE, ROUND, TWO, WORK, counts, zero_bubble_v


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


def test_counts_are_read_with_and_without_stages():
    (found,) = counts(("F0 2p-1  B0 p  W0 -p  F -2p+3  S 4",)).tolist()
    written = {name: tuple(pair) for name, pair in zip(WORK, found, strict=True) if any(pair)}
    assert written == {"F0": (-1, 2), "B0": (0, 1), "W0": (0, -1), "F": (3, -2), "S": (4, 0)}
    assert not counts(("",)).any()


@pytest.mark.parametrize("paths", [TWO, MORE])
def test_every_rank_has_ways_there_and_on_and_no_way_twice(paths):
    assert set(paths.begin) == set(paths.end)
    for ways in (*paths.begin.values(), *paths.end.values(), paths.one, paths.as_many):
        assert ways
        assert len(set(ways)) == len(ways)


def test_two_stages_have_none_between():
    for ways in (*TWO.begin.values(), *TWO.end.values(), TWO.one, TWO.as_many):
        assert not counts(ways)[:, 3:6].any()


@pytest.mark.parametrize("p", [3, 4, 8])
def test_whole_paths_pass_every_rank_forward_and_backward(p):
    # Down the ranks and back up: each has a forward and a backward of both chunks on the way of one micro-batch.
    found = counts(MORE.one) @ [1, p]
    assert (found[:, [0, 3, 6]] == [2, 2 * p - 4, 2]).all()
    assert (counts((ROUND,)) @ [1, p])[0].sum() == 2 + 2 + 2 * (p - 1) + 2 * p - 4 + 2 + 2
