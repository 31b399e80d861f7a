from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.importers.kineto.nesting import enclosing, innermost


def nested(draw, low, high, depth):
    """Intervals inside low..high, properly nested, as a thread's calls are."""
    found = []
    at = low
    while at < high - 1 and draw(st.booleans()):
        begin = draw(st.integers(at, high - 2))
        end = draw(st.integers(begin + 1, high))
        found.append((begin, end))
        if depth:
            found += nested(draw, begin, end, depth - 1)
        at = end
    return found


CALLS = st.composite(lambda draw: nested(draw, 0, 30, 3))()


@given(CALLS)
def test_every_moment_belongs_to_the_innermost_call(calls):
    start, end = (np.array([float(pair[i]) for pair in calls]) for i in (0, 1))
    begins, ends, owners, parents = innermost(start, end)
    assert (ends - begins).sum() == len({cell for low, high in calls for cell in range(low, high)})
    assert all(ends[:-1] <= begins[1:])
    for low, high, owner in zip(begins, ends, owners, strict=True):
        around = [i for i in range(len(calls)) if start[i] <= low and end[i] >= high]
        assert owner in around
        assert end[owner] - start[owner] == min(end[i] - start[i] for i in around)
    for i, (low, high) in enumerate(calls):
        inside = any(low <= other[0] and other[1] <= high and other != (low, high) for other in calls)
        assert parents[i] or not inside or calls.count((low, high)) > 1


def test_the_call_around_a_moment():
    start, end = np.array([0.0, 10.0, 12.0]), np.array([30.0, 20.0, 15.0])
    assert enclosing(start, end, np.array([5.0, 13.0, 18.0, 25.0, 40.0])).tolist() == [0, 2, 1, 0, -1]
    assert enclosing(np.zeros(0), np.zeros(0), np.array([1.0])).tolist() == [-1]


def test_calls_that_overlap_without_nesting_do_no_harm():
    begins, ends, owners, _ = innermost(np.array([0.0, 5.0]), np.array([8.0, 12.0]))
    assert (ends - begins).sum() == 12.0
    assert set(owners.tolist()) == {0, 1}
