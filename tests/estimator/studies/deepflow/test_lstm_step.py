"""Step of an LSTM: prices of single pieces, the schedule, plans that cannot be, arrays of machines as machines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from estimator.scenario.problems import InputProblems
from estimator.studies.deepflow.kernel_split import KernelCollective, KernelSplit, split_of
from estimator.studies.deepflow.lstm import Lstm, Pointwise, Product
from estimator.studies.deepflow.lstm_plan import LstmPlan, check
from estimator.studies.deepflow.lstm_price import collective_s, price_pointwise, price_product, rates, transfer_s
from estimator.studies.deepflow.lstm_step import backward_waves_s, step, waves_s
from estimator.studies.deepflow.technology import Technology, machine

MODEL = Lstm(batch=64, vocab=4096, layers=4, hidden=512, projection=128, sequence=5)
ALONE = rates(machine(Technology()), 4)
LINKED = rates(machine(Technology(), links=2), 4)


def test_a_product_takes_the_faster_loop_order_and_one_launch():
    priced = price_product(Product(name="C", a=64, b=5000, c=3000), ALONE)
    assert priced.seconds == min(priced.as_is.seconds, priced.transposed.seconds) + ALONE.launch_s


def test_pointwise_work_pays_memory_latency_and_each_launch():
    work = Pointwise(name="", flops=1e6, bytes=1e9, launches=15)
    expected = 1e9 / ALONE.memory.bytes_per_s + 50e-9 + 15 * 37e-6
    assert price_pointwise(work, ALONE).seconds == pytest.approx(expected, rel=1e-12)


def test_collectives_are_rings_of_messages():
    words = 1e6
    message_s = transfer_s(words / 4, LINKED)
    gather = KernelCollective(name="", kind="all-gather", ranks=4, words=words)
    assert collective_s(gather, LINKED) == pytest.approx(3 * message_s)
    add_s = price_pointwise(Pointwise(name="", flops=words / 4, bytes=3 * words, launches=1), LINKED).seconds
    scatter = KernelCollective(name="", kind="reduce-scatter", ranks=4, words=words)
    assert collective_s(scatter, LINKED) == pytest.approx(3 * (message_s + add_s))
    reduce = KernelCollective(name="", kind="all-reduce", ranks=4, words=words)
    assert collective_s(reduce, LINKED) == pytest.approx(6 * message_s + 3 * add_s)
    shift = KernelCollective(name="", kind="shift", ranks=4, words=words)
    assert collective_s(shift, LINKED) == pytest.approx(message_s)


def simulated_waves_s(cell_s, hand_over_s, layers, stages, steps):
    """Finish of the last time step on the last stage, stage by stage; a link carries one hand-over at a time."""
    work = cell_s * layers / stages
    arrived = [0.0] * steps
    for stage in range(stages):
        free, done = 0.0, []
        for at in range(steps):
            free = max(free, arrived[at]) + work
            done.append(free)
        if stage == stages - 1:
            return done[-1]
        link, arrived = 0.0, []
        for finish in done:
            link = max(link, finish) + hand_over_s
            arrived.append(link)
    return 0.0


@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("hand_over_s", [0.0, 0.3, 0.9])
def test_waves_that_compute_bound_are_those_of_a_simulated_pipeline(stages, hand_over_s):
    expected = simulated_waves_s(1.0, hand_over_s, 4, stages, 6)
    assert waves_s(1.0, hand_over_s, 4, stages, 6) == pytest.approx(expected)


@pytest.mark.parametrize("stages", [2, 4])
def test_waves_that_links_bound_are_those_of_a_simulated_pipeline(stages):
    expected = simulated_waves_s(1.0, 9.0, 4, stages, 6)
    assert waves_s(1.0, 9.0, 4, stages, 6) == pytest.approx(expected)


def test_updates_hide_behind_the_next_layers_cell_or_show():
    hidden = backward_waves_s(1.0, 0.5, 0.0, MODEL, 1)
    assert hidden == 4 * 5 * 1.0 + 0.5
    shown = backward_waves_s(1.0, 3.0, 0.0, MODEL, 1)
    assert shown == (4 * 4 + 1) * 1.0 + 4 * 3.0
    assert backward_waves_s(1.0, 1.0 + 1e-12, 0.0, MODEL, 1) == pytest.approx(backward_waves_s(1.0, 1.0, 0.0, MODEL, 1))


def test_an_array_of_machines_is_priced_like_each_of_them():
    shares = np.array([0.05, 0.2, 0.4])
    together = step(MODEL, rates(machine(replace(Technology(), dram_power_frac=shares)), 4)).seconds
    for at, share in enumerate(shares):
        one = step(MODEL, rates(machine(replace(Technology(), dram_power_frac=float(share))), 4)).seconds
        assert together[at] == pytest.approx(one, rel=1e-14)


def test_with_the_projection_the_softmax_is_narrower():
    with_it, without = step(MODEL, ALONE, projected=True), step(MODEL, ALONE)
    assert with_it.softmax_f.seconds < without.softmax_f.seconds
    assert with_it.projection_f.seconds == without.projection_f.seconds > 0


def test_chips_count_the_groups_of_a_chain():
    split = KernelSplit(kind="row-column", first=2, second=4)
    assert LstmPlan(dp=2, lp=2, hlp=2, hidden=split).chips == 32
    assert LstmPlan(dp=2, lp=3, hlp=2, hidden=split, softmax=split).chips == 48
    assert LstmPlan(dp=1, lp=4, hlp=2, hidden=split, softmax=split, embedding=split).chips == 32
    assert split_of("none", 1, 1).label == "–"
    assert split.label == "RC 2 × 4"


@pytest.mark.parametrize(
    ("plan", "field"),
    [
        (LstmPlan(dp=65), "dp"),
        (LstmPlan(lp=3, hlp=3), "hlp"),
        (LstmPlan(lp=1, hlp=2), "lp"),
        (LstmPlan(hidden=KernelSplit(kind="row-column", first=3)), "kp_hidden_1"),
        (LstmPlan(softmax=KernelSplit(kind="row-column", first=1, second=3)), "kp_softmax_2"),
        (LstmPlan(embedding=KernelSplit(kind="column-row", first=3)), "kp_embedding_1"),
        (LstmPlan(projection=KernelSplit(kind="column-row", first=2, second=2)), "kp_projection_2"),
    ],
    ids=str,
)
def test_degrees_that_cannot_be_are_named(plan, field):
    with pytest.raises(InputProblems) as caught:
        check(MODEL, LINKED, plan)
    assert [problem.field for problem in caught.value.problems] == [field]


def test_processors_without_a_link_are_refused():
    with pytest.raises(InputProblems) as caught:
        step(MODEL, ALONE, LstmPlan(dp=2))
    assert [problem.field for problem in caught.value.problems] == ["link_power_frac"]
