"""Host pace: how fast a host was beside a step, and what the step takes then."""

from __future__ import annotations

import pytest

from estimator.cost.efficiency import efficiencies
from estimator.cost.host import slowest_of
from estimator.estimate.host_pace import FACTORS, at_pace, over_paces, pace_factor, read_off


def test_the_pace_beside_a_step_is_the_mean_over_ranks_steps_and_threads():
    own = {"host_paces_by_rank_s": [[3e-6, 5e-6], [3e-6, 5e-6]]}
    assert pace_factor(own, 4e-6) == pytest.approx(1.0)
    both = own | {"host_backward_paces_by_rank_s": [[6e-6, 8e-6], [6e-6, 8e-6]]}
    assert pace_factor(both, 4e-6, 5e-6) == pytest.approx((1.0 + 1.4) / 2)
    assert pace_factor(both, 4e-6) == pytest.approx(1.0), "what was not calibrated tells nothing"
    assert pace_factor({"host_paces_s": [3e-6, 5e-6]}, 4e-6) == pytest.approx(1.0), (
        "older results have the first rank's"
    )


def test_a_rank_that_stays_slow_keeps_the_others_waiting():
    apart = {"host_paces_by_rank_s": [[3e-6], [6e-6]]}
    assert pace_factor(apart, 4e-6) == pytest.approx(1.5 / slowest_of(2, efficiencies("default")))
    assert pace_factor({"host_paces_by_rank_s": [[4.5e-6], [5e-6]]}, 4e-6) == pytest.approx(4.75 / 4), "near enough"


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
