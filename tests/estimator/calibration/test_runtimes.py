"""Runtimes: what probes tell of FSDP2 and DTensor, and how far they move the family's numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.calibration.calibrate import Source, calibrate
from estimator.calibration.host import pace_of, ranks_power
from estimator.calibration.runtimes import (
    DTENSOR_FACTOR,
    EXCHANGES,
    FAMILY_SPREAD_FRAC,
    FSDP_FACTOR,
    VISIT_SPREAD_FRAC,
    Told,
    of_family,
    told_by_probes,
    weighed,
)
from estimator.cost.efficiency import efficiencies
from estimator.cost.host import EXCHANGE_LAUNCHES, slowest_of
from estimator.cost.slowest_chip import shared_host
from estimator.scenario.measurement import Measurement

E = efficiencies("hopper")
PASSES = {"forward": 1, "forward-backward": 2, "step": 3}


def row(op: str, direction: str, layers: int, seconds: float, **more: Any) -> dict[str, Any]:
    about = {"ladder": "runtime", "op": op, "direction": direction, "layers": layers, "status": "ok"}
    return {**about, "minimum_s": seconds, "median_s": seconds, **more}


def models(each_s: dict[str, float], **more: Any) -> list[dict[str, Any]]:
    """Models of two and ten blocks, each block of which takes so long in every pass."""
    return [
        row(f"model {name}", direction, layers, 5e-3 + layers * block_s * passes, **more)
        for layers in (2, 10)
        for name, block_s in each_s.items()
        for direction, passes in PASSES.items()
    ]


def measured(rows: list[dict[str, Any]], **about: Any) -> Measurement:
    return Measurement(device={"name": "NVIDIA H200"}, rows=rows, **about)


def test_models_tell_what_a_block_more_takes_longer_under_a_runtime():
    found = told_by_probes(models({"plain": 1e-3, "fsdp": 3e-3, "dtensor": 8e-3}), E, 1e-6)
    values = {name: [one.value for one in told] for name, told in found.items()}
    assert values["host_fsdp_forward_s"] == [pytest.approx(2e-3)]
    assert values["host_fsdp_backward_s"] == [pytest.approx(2e-3)]
    assert values["host_sharded_tensor_s"] == [pytest.approx(2e-3 / 9)]
    assert values["host_dtensor_s"] == [pytest.approx(14e-3 / 2 / 7)]


def test_models_that_ranks_ran_together_go_before_those_of_one_process_less_their_exchanges():
    later, launch_s = float(slowest_of(4, E)), 1e-6
    alone = models({"plain": 1e-3, "fsdp": 99.0})
    together = models({"fsdp": 3e-3 * later}, ranks=4)
    found = told_by_probes([*alone, *together], E, launch_s)
    asked = {name: EXCHANGES["fsdp"][name] * EXCHANGE_LAUNCHES * launch_s for name in PASSES}
    (forward,), (backward,) = found["host_fsdp_forward_s"], found["host_fsdp_backward_s"]
    assert forward.value == pytest.approx(2e-3 - asked["forward"])
    assert backward.value == pytest.approx(2e-3 - asked["forward-backward"] + asked["forward"])


def test_blocks_of_linears_tell_less_than_a_model_takes():
    rows = [
        row(op, direction, 16, seconds * passes, tensors=tensors)
        for tensors in (32, 128)
        for op, seconds in (("plain", 1e-3), ("fsdp", 17e-3), ("dtensor", 1e-3 + tensors * 2e-4))
        for direction, passes in (("forward", 1), ("forward-backward", 2))
    ]
    found = told_by_probes(rows, E, 1e-6)
    assert [one.value for one in found["host_fsdp_forward_s"]] == [pytest.approx(FSDP_FACTOR * 1e-3)]
    assert [one.value for one in found["host_dtensor_s"]] == [pytest.approx(DTENSOR_FACTOR * 2e-4)]
    one_by_one = [row(op, "optimizer for-loop", 16, s, tensors=32, dispatches=320)
                  for op, s in (("plain", 2e-3), ("plain", 4e-3), ("dtensor", 4e-3), ("dtensor", 8e-3))]  # fmt: skip
    assert told_by_probes(one_by_one, E, 1e-6)["host_dtensor_op_s"][0].value == pytest.approx(3e-3 / 320)


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.01, 10)), min_size=1, max_size=5))
def test_what_several_tell_lies_between_and_is_known_better(given_):
    told = [Told(value=value, error=error) for value, error in given_]
    found = weighed(told)
    slack = 1 + 1e-9
    assert min(one.value for one in told) / slack <= found.value <= max(one.value for one in told) * slack
    assert found.error <= min(one.error for one in told) * slack


def test_few_visits_leave_the_familys_number_many_move_it():
    rows = models({"plain": 1e-3, "dtensor": 15e-3})
    (told,) = told_by_probes(rows, E, 1e-6)["host_dtensor_s"]
    assert told.error > VISIT_SPREAD_FRAC * told.value, "a difference scatters more than its rows"
    once, often = (calibrate([Source(name="p", measurement=measured(rows * n))]) for n in (1, 400))
    family = of_family("host_dtensor_s", E, 1.0)
    assert family.error == FAMILY_SPREAD_FRAC * E.host_dtensor_s
    assert once.ranges["host_dtensor_s"].value == pytest.approx(E.host_dtensor_s, rel=0.15)
    assert often.ranges["host_dtensor_s"].value == pytest.approx(2e-3, rel=0.1)


def test_rows_beside_which_the_pace_was_read_often_are_brought_to_its_mean():
    def paced(slower: float, readings: int) -> list[dict[str, Any]]:
        about = {"host_pace_s": 4e-6 * slower, "host_backward_pace_s": 5e-6 * slower, "pace_readings": readings}
        return [{**one, "median_s": one["median_s"] * slower, **about} for one in models({"plain": 1e-3, "fsdp": 3e-3})]

    def forward_s(rows: list[dict[str, Any]]) -> float:
        return calibrate([Source(name="p", measurement=measured(rows * 200))]).ranges["host_fsdp_forward_s"].value

    even = forward_s([*paced(1.0, 12), *paced(1.0, 12)])
    # Half of the visits met a host half as fast; its mean pace is 1.5 times that of the others.
    assert forward_s([*paced(1.0, 12), *paced(2.0, 12)]) == pytest.approx(1.5 * even, rel=0.06)
    fsdp_alone_slow = [
        one for slower in (1.0, 2.0) for one in paced(slower, 12) if (slower == 2.0) == ("fsdp" in one["op"])
    ]
    assert forward_s(fsdp_alone_slow) == pytest.approx(1.5 * even, rel=0.06), "of one pace, whenever it was met"


def test_a_host_that_more_ranks_share_is_slower_by_a_power_of_them():
    def at(world_size: int, slower: float) -> Measurement:
        rows = [row("op", "", 1, 1e-3, host_pace_s=4e-6 * slower, host_backward_pace_s=5e-6 * slower)]
        return measured(rows, world_size=world_size)

    family = E.ranges["host_ranks_power"]
    assert ranks_power([at(1, 1.0), at(1, 1.2)], E).points == 0, "of one size"
    found = ranks_power([at(1, 1.0), at(4, 4**0.3)] * 500, E)
    assert (found.points, found.range.value) == (1000, pytest.approx(0.3, rel=0.05))
    one = ranks_power([at(1, 1.0), at(4, 4**0.3)], E).range
    assert family.value < one.value < 0.15, "two files hardly move it"
    assert one.low <= one.value <= one.high
    faster = ranks_power([at(1, 1.0), at(4, 0.25)] * 500, E)
    assert faster.range.value == 0.0, "no host is faster for it"
    nodes = ranks_power([at(1, 1.0), at(16, 8**0.3)] * 500, E)
    assert nodes.range.value == pytest.approx(0.3, rel=0.05), "of no more than eight, as a node's host has"
    still = replace(E, ranges={**E.ranges, "host_ranks_power": replace(family, low=0.0, high=0.0)})
    assert ranks_power([at(1, 1.0), at(4, 2.0)], still).points == 0


@pytest.mark.parametrize("ranks", [1, 4, 16])
def test_launches_that_ranks_timed_without_a_pace_are_brought_to_a_host_of_ones_own(ranks):
    """So that predicting for as many ranks gives back what they took."""
    rows = [{"ladder": "launch", "op": "op", "launch_s": 1e-5, "median_s": 1e-3, "status": "ok", "precision": "fp32"}]
    found = calibrate([Source(name="p", measurement=measured(rows, world_size=ranks))]).efficiencies
    assert shared_host(found, min(ranks, 8)).host_launch_s == pytest.approx(1e-5)


def test_paces_count_that_stand_beside_probes_alone():
    probes = [row("op", "", 1, 1e-3, host_pace_s=4e-6, host_backward_pace_s=5e-6)]
    other = [{"kind": "all-reduce", "host_pace_s": 9e-6, "host_backward_pace_s": 9e-6}]
    assert pace_of([measured(probes), measured(other)]) == 4e-6
    made = calibrate([Source(name="p", measurement=measured(models({"plain": 1e-3, "fsdp": 2e-3}))),
                      Source(name="x", measurement=measured(other))])  # fmt: skip
    assert made.made_from == ("p",)
