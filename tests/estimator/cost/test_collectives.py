"""Collectives: traffic of nccl-tests' factors, two tiers, latency that grows with the group."""

import math
from dataclasses import replace

import pytest

from estimator.cost.collectives import TRAFFIC, Group, collective_s, exposed_s, p2p_s, ramp_frac
from tests.estimator.examples import cluster, flawless

E = flawless()
INSIDE = Group(ranks=8, ranks_per_node=8)


@pytest.mark.parametrize(
    ("kind", "ranks", "factor"),
    [
        ("all-reduce", 8, 2 * 7 / 8),
        ("all-gather", 8, 7 / 8),
        ("reduce-scatter", 4, 3 / 4),
        ("all-to-all", 2, 1 / 2),
    ],
)
def test_inside_a_node_the_link_carries_the_ring_traffic(kind, ranks, factor):
    # 10 GB/s links, no overheads: 1 GB takes factor · 0.1 s.
    group = Group(ranks=ranks, ranks_per_node=ranks)
    assert collective_s(kind, 1e9, group, cluster(), E) == pytest.approx(0.1 * factor)


def test_a_message_inside_a_node_takes_up_to_a_ramp_longer():
    ramped = flawless(collective_ramp_s=1e-4, collective_full_bytes=2e6)
    # An all-reduce sends twice its payload: 2 MB of 1 MB, half of the ramp.
    for size, frac in ((0.0, 0.0), (1e6, 0.5), (1e12, 1.0)):
        assert ramp_frac("all-reduce", size, ramped) == pytest.approx(frac, rel=1e-5)
        plain_s, longer_s = (collective_s("all-reduce", size, INSIDE, cluster(), e) for e in (E, ramped))
        assert longer_s - plain_s == pytest.approx(frac * 1e-4, rel=1e-5)
    given_s = collective_s("all-reduce", 1e6, INSIDE, cluster(), ramped, ramp=0.25)
    assert given_s == pytest.approx(collective_s("all-reduce", 1e6, INSIDE, cluster(), E) + 0.25e-4)
    assert p2p_s(2e6, False, cluster(), ramped) == pytest.approx(p2p_s(2e6, False, cluster(), E) + 0.5e-4)
    across = Group(ranks=16, ranks_per_node=8)
    assert collective_s("all-reduce", 1e6, across, cluster(8, 2), ramped) == collective_s(
        "all-reduce", 1e6, across, cluster(8, 2), E
    )
    assert p2p_s(2e6, True, cluster(8, 2), ramped) == p2p_s(2e6, True, cluster(8, 2), E)


def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather():
    assert TRAFFIC["all-reduce"] == TRAFFIC["reduce-scatter"] + TRAFFIC["all-gather"]
    whole = collective_s("all-reduce", 1e9, INSIDE, cluster(), E)
    parts = [collective_s(kind, 1e9, INSIDE, cluster(), E) for kind in ("reduce-scatter", "all-gather")]
    assert whole == pytest.approx(sum(parts))


def test_one_rank_alone_sends_nothing():
    for kind in TRAFFIC:
        assert collective_s(kind, 1e9, Group(ranks=1, ranks_per_node=1), cluster(), flawless(collective_start_s=1)) == 0


def test_between_nodes_the_group_uses_the_ports_of_its_ranks():
    # 16 ranks, 8 in each node: 15/16 GB over 8 ports of 1 GB/s; latency 2·log2(2)·10 µs.
    group = Group(ranks=16, ranks_per_node=8)
    expected = 15 / 16 / 8 + 2e-5
    assert collective_s("all-gather", 1e9, group, cluster(8, 2), E) == pytest.approx(expected)
    # One rank in each node: all traffic through its own port.
    alone = Group(ranks=16, ranks_per_node=1)
    assert collective_s("all-gather", 1e9, alone, cluster(8, 16), E) == pytest.approx(15 / 16 + 2e-5 * math.log2(16))


def test_the_slower_tier_binds():
    group = Group(ranks=16, ranks_per_node=8)
    fast_network = cluster(8, 2)
    fast_network = type(fast_network)(**{**vars(fast_network), "network": fast_network.link})
    # The ports of 8 ranks together are then faster than one rank's link.
    expected = 15 / 16 / 10 + 2e-6
    assert collective_s("all-gather", 1e9, group, fast_network, E) == pytest.approx(expected)


def test_latency_grows_with_the_ranks_of_a_node():
    e = flawless(collective_start_s=1e-5, collective_rank_s=1e-6)
    assert collective_s("all-reduce", 0.0, INSIDE, cluster(), e) == pytest.approx(1e-5 + 7e-6)


def test_shares_of_the_links_slow_them():
    assert collective_s("all-gather", 1e9, INSIDE, cluster(), flawless(link_frac=0.5)) == pytest.approx(0.2 * 7 / 8)
    group = Group(ranks=2, ranks_per_node=1)
    assert collective_s("all-gather", 1e9, group, cluster(1, 2), flawless(network_frac=0.5)) == pytest.approx(
        1.0 + 2e-5
    )


def test_an_all_to_all_sends_each_ranks_own_share_through_its_own_port():
    # 16 ranks in two nodes: 8/16 of 1 GB crosses at 1 GB/s, not shared among the node's ports; one hop between nodes.
    group = Group(ranks=16, ranks_per_node=8)
    assert collective_s("all-to-all", 1e9, group, cluster(8, 2), E) == pytest.approx(0.5 + 1e-5)


def test_tokens_that_cross_to_a_node_once_need_fewer_ports():
    group, two = Group(ranks=16, ranks_per_node=8), cluster(8, 2)
    plain = collective_s("all-to-all", 1e9, group, two, E)
    # Of four copies in 1 GB one token's row crosses where any of them does: 1/4 GB · (1 − 1/2⁴).
    once = collective_s("all-to-all", 1e9, group, two, E, copies=4)
    assert once - 1e-5 == pytest.approx(0.25 * (1 - 0.5**4))
    assert collective_s("all-to-all", 1e9, group, two, E, copies=1) == pytest.approx(plain)


def test_tokens_that_go_to_a_rank_once_pass_fewer_bytes_over_links():
    # A token's four experts lie on 8·(1 − (7/8)⁴) = 3.31 of 8 ranks in the mean, seven eighths of them others.
    once = collective_s("all-to-all", 1e9, INSIDE, cluster(), E, copies=4)
    assert once == pytest.approx(0.1 / 4 * 8 * (1 - (7 / 8) ** 4) * 7 / 8)
    fast = cluster(8, 2)
    fast = type(fast)(**{**vars(fast), "network": replace(fast.link, bytes_per_s=1e12, latency_s=0.0)})
    two = collective_s("all-to-all", 1e9, Group(ranks=16, ranks_per_node=8), fast, E, copies=4)
    assert two == pytest.approx(0.1 / 4 * 16 * (1 - (15 / 16) ** 4) * 7 / 8)


def test_tokens_that_choose_groups_of_experts_reach_fewer_nodes():
    group, eight = Group(ranks=64, ranks_per_node=8), cluster(8, 8)
    # Half of eight nodes hold the groups that a token has chosen: 4·(1 − (3/4)⁸) of them are reached, 7 of 8 others.
    found = collective_s("all-to-all", 1e9, group, eight, E, copies=8, reachable_frac=0.5)
    assert found - 7e-5 == pytest.approx(1 / 8 * 4 * (1 - (3 / 4) ** 8) * 7 / 8)


def test_a_message_between_stages_takes_latency_and_bytes_of_its_link():
    e = flawless(collective_start_s=1e-5)
    assert p2p_s(1e9, False, cluster(), e) == pytest.approx(1e-5 + 1e-6 + 0.1)
    assert p2p_s(1e9, True, cluster(), e) == pytest.approx(1e-5 + 1e-5 + 1.0)


def test_without_contention_only_what_exceeds_the_window_is_exposed():
    assert exposed_s(3.0, 5.0, 1.0, 0.0) == 0.0
    assert exposed_s(7.0, 5.0, 1.0, 0.0) == 2.0


def test_full_contention_hides_only_behind_memory_bound_kernels():
    assert exposed_s(3.0, 5.0, 1.0, 1.0) == 3.0
    assert exposed_s(3.0, 5.0, 0.5, 1.0) == 1.5
    assert exposed_s(3.0, 5.0, 0.0, 1.0) == 0.0
    assert exposed_s(3.0, 0.0, 0.0, 1.0) == 3.0
