"""Stage pass: device and host side by side for one micro-batch of one stage."""

import numpy as np
import pytest

from estimator.schedule.micro_batch import Part, slowest, stage_pass
from tests.estimator.examples import flawless

E = flawless()
PART = Part(
    forward_s=4.0, input_s=5.0, weight_s=3.0, products_forward_s=1.0, products_backward_s=6.0,
    host_forward_s=2.0, host_backward_s=6.0, launches_forward=10.0, launches_backward=20.0,
    inline_forward_s=0.5, inline_backward_s=0.25,
)  # fmt: skip


def test_a_host_that_runs_ahead_leaves_device_and_collectives():
    found = stage_pass(PART, E)
    assert (found.wait_forward_s, found.wait_backward_s) == (0.0, 0.0)
    assert found.backward_s == 8.0
    times = found.times
    assert (times.forward_s, times.input_s, times.weight_s) == (4.5, 5.25, 3.0)
    assert times.seconds == 12.75
    # Ahead by what the device takes longer: 4.5 − 2 in forward, 8.25 − 6 in backward.
    assert found.lead_s == 4.75


def test_a_slow_host_sets_the_pace():
    found = stage_pass(Part(forward_s=4.0, host_forward_s=10.0, input_s=5.0, host_backward_s=7.0), E)
    assert found.window_forward_s == 10.0
    assert found.window_backward_s == 7.0
    assert found.lead_s == 0.0


def test_collectives_in_line_cover_a_host_that_lags():
    found = stage_pass(Part(forward_s=4.0, inline_forward_s=5.0, host_forward_s=10.0), E)
    assert found.wait_forward_s == 1.0
    assert found.times.forward_s == 10.0


def test_every_launch_leaves_a_gap():
    found = stage_pass(PART, flawless(kernel_gap_s=0.01))
    assert found.wait_forward_s == pytest.approx(0.1)
    assert found.wait_backward_s == pytest.approx(0.2)


def test_products_are_a_share_of_the_window():
    found = stage_pass(PART, E)
    assert found.products_forward_frac == 1 / 4
    assert found.products_backward_frac == 6 / 8
    assert stage_pass(Part(), E).products_forward_frac == 0.0


def test_offload_shows_what_compute_does_not_hide():
    found = stage_pass(PART, E, offload_s=5.0)
    assert (found.transfer_forward_s, found.transfer_backward_s) == (1.0, 0.0)
    assert found.times.forward_s == 5.5


def test_the_slowest_stage_sets_the_pace_and_the_first_among_equals():
    passes = [stage_pass(Part(forward_s=seconds), E) for seconds in (1.0, 3.0, 3.0)]
    assert slowest(passes) == (1, passes[1])


def test_each_of_many_plans_has_its_own_slowest_stage():
    columns = ([1.0, 5.0, 2.0], [2.0, 2.0, 2.0], [3.0, 1.0, 2.0])
    passes = [stage_pass(Part(forward_s=np.array(column)), E) for column in columns]
    index, one = slowest(passes)
    assert list(index) == [2, 0, 0]
    assert list(one.times.forward_s) == [3.0, 5.0, 2.0]
