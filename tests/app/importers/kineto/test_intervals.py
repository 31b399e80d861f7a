from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.importers.kineto.intervals import contains, covered, exclusive, exposed, groups, union

PAIRS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10)), max_size=12)


def arrays(pairs):
    start = np.array([float(low) for low, _ in pairs])
    return start, start + np.array([float(length) for _, length in pairs])


def cells(pairs):
    """The unit cells that intervals of whole numbers cover: the same, in the simplest way."""
    return {cell for low, length in pairs for cell in range(low, low + length)}


@given(PAIRS)
def test_union_and_exclusive_lengths(pairs):
    start, end = arrays(pairs)
    low, high = union(start, end)
    assert (high - low).sum() == len(cells(pairs))
    assert all(high[:-1] < low[1:])
    lengths = exclusive(start, end)
    assert lengths.sum() == len(cells(pairs))
    assert (lengths >= 0).all()
    assert (lengths <= end - start).all()


@given(PAIRS, PAIRS)
def test_exposed_is_what_no_work_covers(messages, work):
    assert exposed(*arrays(messages), *arrays(work)).sum() == len(cells(messages) - cells(work))


@given(PAIRS, st.integers(0, 60))
def test_covered_and_contains(pairs, at):
    low, high = union(*arrays(pairs))
    assert covered(low, high, np.array([float(at)]))[0] == len([cell for cell in cells(pairs) if cell < at])
    if at in cells(pairs):
        assert contains(low, high, np.array([float(at)]))[0]


@given(st.lists(st.integers(-3, 3)))
def test_groups(keys):
    found = dict(groups(np.array(keys, dtype=np.int64)))
    assert set(found) == set(keys)
    for key, indices in found.items():
        assert [keys[i] for i in indices] == [key] * keys.count(key)


def test_the_earlier_interval_has_the_second():
    assert exclusive(np.array([5.0, 0.0]), np.array([10.0, 7.0])).tolist() == [3.0, 7.0]
