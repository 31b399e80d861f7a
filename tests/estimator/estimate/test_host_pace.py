"""Host pace: how fast a host was beside a step, and what the step takes then."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.cost.efficiency import efficiencies
from estimator.cost.host import slowest_of
from estimator.estimate.host_pace import FACTORS, at_pace, over_paces, pace_factor, read_off

USUALLY = slowest_of(2, efficiencies("default"))
"""By what the slowest of two ranks is usually above their mean."""


def test_the_pace_beside_a_step_is_the_mean_over_steps_and_threads():
    own = {"host_paces_by_rank_s": [[3e-6, 5e-6]]}
    assert pace_factor(own, 4e-6) == pytest.approx(1.0)
    both = own | {"host_backward_paces_by_rank_s": [[6e-6, 8e-6]]}
    assert pace_factor(both, 4e-6, 5e-6) == pytest.approx((1.0 + 1.4) / 2)
    assert pace_factor(both, 4e-6) == pytest.approx(1.0), "what was not calibrated tells nothing"
    assert pace_factor({"host_paces_s": [3e-6, 5e-6]}, 4e-6) == pytest.approx(1.0), (
        "older results have the first rank's"
    )


def test_ranks_wait_for_whichever_is_slowest_at_each_moment():
    apart = {"host_paces_by_rank_s": [[3e-6], [6e-6]]}
    assert pace_factor(apart, 4e-6) == pytest.approx(1.5 / USUALLY)
    in_turns = {"host_paces_by_rank_s": [[3e-6, 6e-6], [6e-6, 3e-6]]}
    assert pace_factor(in_turns, 4e-6) == pytest.approx(1.5 / USUALLY), "one of them is slow all the while"
    together = {"host_paces_by_rank_s": [[3e-6, 6e-6], [3e-6, 6e-6]]}
    assert pace_factor(together, 4e-6) == pytest.approx(4.5 / 4 / USUALLY)


@given(st.lists(st.lists(st.floats(1e-6, 1e-5), min_size=3, max_size=3), min_size=1, max_size=4))
def test_no_rank_that_is_slower_makes_a_step_faster(paces):
    slower = [[pace_s * 1.1 for pace_s in paces[0]], *paces[1:]]
    before, after = (pace_factor({"host_paces_by_rank_s": one}, 4e-6) for one in (paces, slower))
    assert after >= before


def test_a_thread_that_was_interrupted_is_no_slower_than_a_busy_neighbour_makes_it():
    assert pace_factor({"host_paces_by_rank_s": [[4e-6, 400e-6]]}, 4e-6) == pytest.approx((1 + 2) / 2)


def test_nothing_is_known_of_a_host_whose_pace_one_side_does_not_say():
    assert pace_factor({}, 4e-6, 4e-6) is None
    assert pace_factor({"host_paces_by_rank_s": [[4e-6]]}, 0.0) is None


def test_a_step_at_a_pace_is_read_off_between_those_at_which_it_is_predicted():
    e = efficiencies("hopper")
    assert at_pace(e, 2.0).host_forward_s == 2 * e.host_forward_s
    assert at_pace(e, 2.0).host_spread == e.host_spread, "no time"
    curve = over_paces(lambda e: 1.0 + 1e5 * e.host_launch_s, e)
    assert [factor for factor, _ in curve] == list(FACTORS)
    assert read_off(curve, 1.1) == pytest.approx(1.0 + 1.1e5 * e.host_launch_s)
