"""Exchanges: collectives in line with compute, and those that pass beside attention."""

import numpy as np
import pytest

from estimator.communication.in_line import Message, beside, members, priced
from estimator.communication.placement import Degrees, groups_of
from estimator.cost.collectives import Group, collective_s
from tests.estimator.examples import cluster, flawless

E = flawless()
GROUPS = groups_of(Degrees(tp=4, cp=2, dp=2, pp=1, shard=4), "tp-cp-dp-pp", 8)
IDLE = {"forward": 0.0, "backward": 0.0}


def message(kind: str = "all-reduce", group: str = "tp", **rest) -> Message:
    values = {"name": "x", "axis": group, "phase": "forward", "payload_bytes": 1e9, "count": 3.0, **rest}
    return Message(kind=kind, group=group, **values)


def test_a_collective_in_line_shows_wholly():
    (found,) = priced([message()], GROUPS, cluster(), E, IDLE)
    assert found.ranks == 4
    # 2·3/4 of 1 GB at 10 GB/s.
    assert found.seconds == found.exposed_s == pytest.approx(0.15)


def test_a_ring_shows_what_lasts_longer_than_a_piece_of_attention():
    def exposed(attention_s: float) -> float:
        passing = message("p2p", "cp", beside_attention=True)
        (found,) = priced([passing], GROUPS, cluster(), E, {"forward": attention_s, "backward": 1e9})
        assert found.seconds == pytest.approx(0.1)
        return found.exposed_s

    assert exposed(0.0) == pytest.approx(0.1)
    assert 0 < exposed(0.15) < exposed(0.06) < 0.1
    assert exposed(10.0) == 0.0


def test_what_is_beside_a_piece():
    assert beside(5.0, 12.0, 3.0, 4.0) == 2.0
    assert beside(5.0, 24.0, 3.0, 4.0) == 0.0
    assert beside(5.0, 4.0, 0.0, 1.0) == 1.0
    assert list(beside(np.array([5.0, 1.0]), np.array([12.0, 12.0]), 3.0, 4.0)) == [2.0, 0.0]


def test_some_neighbours_of_a_group_are_a_smaller_group():
    group = Group(ranks=16, ranks_per_node=8)
    assert members(group, None) == group
    assert members(group, 4) == Group(ranks=4, ranks_per_node=4)
    assert members(group, 12) == Group(ranks=12, ranks_per_node=8)


def test_messages_of_some_ranks_are_priced_among_those():
    machine = cluster(8, 2)
    (found,) = priced([message("all-gather", ranks=2)], GROUPS, machine, E, IDLE)
    assert found.ranks == 2
    assert found.seconds == collective_s("all-gather", 1e9, Group(ranks=2, ranks_per_node=2), machine, E)
