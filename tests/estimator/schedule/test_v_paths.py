"""Paths: how counts are written, and that each way fits the tables that it stands in."""

import pytest

from estimator.schedule.zero_bubble_v import MORE, ROUND, TWO, WORK, counts


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
