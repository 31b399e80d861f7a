"""Part: device seconds by direction, host time by framework, and collectives in line."""

import numpy as np
import pytest

from estimator.communication.in_line import InLine, Message
from estimator.cost.device_time import Work
from estimator.scenario.training import Training
from estimator.schedule.micro_batch import Part, part_of, total
from tests.estimator.examples import flawless

E = flawless(host_forward_s=1.0, host_backward_s=2.0, host_collective_s=10.0)
EAGER = Training(seq_len=1, global_batch=1)
WORK = Work(
    seconds={"forward": [1.0, 2.0, 3.0, 4.0, 5.0], "input": [6.0, 0.0, 0.0, 0.0, 7.0], "weight": [8.0, 0, 0, 0, 9.0]},
    launches={"forward": 1.0, "recomputed": 2.0, "input": 3.0, "weight": 4.0},
    priced=(),
)


def line(phase: str, *, count: float, exposed_s: float, host: float = 1.0) -> InLine:
    message = Message(name="x", kind="all-reduce", axis="tp", group="tp", phase=phase, payload_bytes=1.0, count=count,
                      host=host)  # fmt: skip
    return InLine(message=message, ranks=4, seconds=100.0, exposed_s=exposed_s)


def test_directions_add_their_components():
    found = part_of(WORK, [], EAGER, E)
    assert (found.forward_s, found.input_s, found.weight_s) == (15.0, 13.0, 17.0)
    # All but the memory-bound kernels fill the chip.
    assert (found.products_forward_s, found.products_backward_s) == (10.0, 14.0)


def test_recomputed_kernels_are_launched_like_forward_and_belong_to_backward():
    found = part_of(WORK, [], EAGER, E)
    assert (found.launches_forward, found.launches_backward) == (1.0, 9.0)
    assert (found.host_forward_s, found.host_backward_s) == (1.0, 2.0 + 7 * 2.0)


def test_collectives_stand_in_line_as_often_as_they_run_and_cost_the_host():
    lines = [line("forward", count=3.0, exposed_s=2.0, host=4.0), line("backward", count=2.0, exposed_s=0.5)]
    found = part_of(WORK, lines, EAGER, E)
    assert (found.inline_forward_s, found.inline_backward_s) == (6.0, 1.0)
    # Three blocking collectives of four ranks; one rank alone waits for nobody.
    assert found.host_forward_s == 1.0 + 3 * 10.0 * 3
    assert found.host_backward_s == 2.0 + 7 * 2.0


def test_components_can_be_scaled():
    found = part_of(WORK, [], EAGER, E, np.array([2.0, 2.0, 1.0, 0.0, 10.0]))
    assert found.forward_s == 2 + 4 + 3 + 0 + 50
    assert found.products_forward_s == 2 + 4 + 3
    assert found.host_forward_s == 1.0


def test_a_total_takes_each_part_as_often_as_it_runs():
    one, other = Part(forward_s=1.0, launches_forward=2.0), Part(forward_s=10.0, weight_s=3.0)
    assert total([(one, 4.0), (other, 0.5)]) == Part(forward_s=9.0, weight_s=1.5, launches_forward=8.0)
    many = total([(one, np.array([1.0, 2.0])), (other, 1.0)])
    assert many.forward_s == pytest.approx([11.0, 12.0])
