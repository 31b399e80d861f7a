"""Splits: curves are the core's own numbers, cross-overs lie where curves cross, refusals say why."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.estimate.estimate import estimate
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import Scenario, scenario_from_json
from estimator.search.splits import CROSSED, METRICS, TensorSplit, crossover_rows, parallelism, stack_elements


def scenario(model: str = "llama3-70b", **plan: object) -> Scenario:
    chips = plan.get("tp", 1) * plan.get("cp", 1)
    return scenario_from_json(
        {
            "model": model,
            "cluster": {"chip": "h200-sxm", "chips_per_node": chips, "nodes": 1},
            "plan": plan,
            "training": {"seq_len": 4096, "global_batch": plan.get("micro_batch", 1), "precision": "bf16",
                         "framework": "megatron"},
        }
    )  # fmt: skip


@pytest.mark.parametrize("name", ["1d", "2.5d", "3d"])
def test_a_curve_is_the_estimate_of_its_plan(name):
    found = parallelism(scenario(), 8).tensor
    way = next(way for way in found.ways if way.name == name)
    curve = next(curve for curve in found.curves if curve.name == name)
    at = int(np.flatnonzero(found.x == 4 * 4096)[0])
    one = scenario(tp=8, tp_kind=way.plan.tp_kind, tp_depth=way.plan.tp_depth, micro_batch=4,
                   sequence_parallel=way.plan.sequence_parallel)  # fmt: skip
    alone = estimate(one)
    layers = one.model.layers
    sends = [c for c in alone.collectives if c.axis == "tp" and c.count % layers == 0]
    assert curve.communication_s[at] == pytest.approx(sum(c.seconds for c in sends) / layers, rel=1e-9)
    busy = [op for op in alone.ops if op.layer == "layer"]
    total = sum(op.seconds for op in busy) + sum(c.exposed_s for c in sends)
    assert curve.block_s[at] == pytest.approx(total / layers, rel=1e-9)
    assert curve.activations_bytes[at] == pytest.approx(sum(op.saved_bytes for op in busy) / layers, rel=1e-9)


def test_searched_volumes_meet_the_closed_form():
    found = parallelism(scenario("gpt3-175b"), 16).tensor
    closed = {c.then: c.at for c in found.crossovers if c.metric == "linears"}
    searched = {c.then: c.at for c in found.crossovers if c.metric == "communication_bytes" and c.before == "1d"}
    assert set(closed) == set(searched) == {"2d", "2.5d"}
    for kind, at in closed.items():
        # The curve has the sums of norms and the gathers of keys and values too.
        assert searched[kind] == pytest.approx(at, rel=0.12)
        assert searched[kind] > at
    h, f = 12288, 4 * 12288
    linears = [(h, 3 * h), (h, h), (h, f), (f, h)]
    assert closed["2d"] == crossover_rows(
        TensorSplit(kind="1d", side=16), TensorSplit(kind="2d", side=4), linears, keep=False
    )


def test_a_crossover_is_where_the_curves_change_places():
    comparison = parallelism(scenario(), 8)
    for part in (comparison.tensor, comparison.sequence):
        curves = {curve.name: curve for curve in part.curves}
        for found in part.crossovers:
            if found.closed:
                continue
            assert found.metric in CROSSED
            then, before = (getattr(curves[name], found.metric) for name in (found.then, found.before))
            beyond = part.x > found.at
            apart = np.abs(then - before) > 1e-9 * before
            assert np.all(then[beyond & apart] < before[beyond & apart])
            last = np.flatnonzero((part.x <= found.at) & apart)[-1]
            assert then[last] > before[last]
            assert found.first <= found.at


def test_a_metric_without_crossing_has_none():
    found = parallelism(scenario(), 8).sequence
    assert [c for c in found.crossovers if c.metric == "communication_bytes"] == [], "all grow with the length"
    for curve in found.curves:
        for metric in METRICS:
            assert len(getattr(curve, metric)) == len(found.x)


def test_refused_ways_say_why_and_have_no_curve():
    found = parallelism(scenario("mixtral-8x7b"), 8)
    refused = {way.name: way.problems[0].message for way in found.tensor.ways if way.problems}
    assert "not q²" in refused["2d"]
    assert "experts" in refused["3d"]
    assert [curve.name for curve in found.tensor.curves] == ["1d"]
    many = parallelism(scenario(), 128)
    assert "does not divide 64 heads" in next(w for w in many.sequence.ways if w.name == "ulysses").problems[0].message
    assert {curve.name for curve in many.sequence.curves} == {"ring", "all-gather"}


def test_the_group_is_the_scenario_s_or_a_node():
    assert parallelism(scenario(tp=4)).ranks == 4
    assert parallelism(scenario()).ranks == 8
    deep = replace(scenario(tp=16, tp_kind="2.5d", tp_depth=4, micro_batch=8))
    way = next(way for way in parallelism(deep).tensor.ways if way.name == "2.5d")
    assert (way.plan.tp, way.plan.tp_depth) == (16, 4)


@pytest.mark.parametrize("ranks", [1, -4, 1_000_000])
def test_a_group_that_is_none_is_refused(ranks):
    with pytest.raises(InputProblems) as caught:
        parallelism(scenario(), ranks)
    assert caught.value.problems[0].field == "ranks"


E = 12_288
MLP = [(E, 4 * E), (4 * E, E)]


def test_2d_beats_1d_in_an_mlp_from_114_percent_of_the_width_at_q_8_and_never_at_q_2():
    one, two = TensorSplit(kind="1d", side=64), TensorSplit(kind="2d", side=8)
    assert crossover_rows(one, two, MLP) / E == pytest.approx(168 / 147)
    assert crossover_rows(one, two, MLP) / E == pytest.approx(1.14, abs=0.005)
    assert crossover_rows(TensorSplit(kind="1d", side=4), TensorSplit(kind="2d", side=2), MLP) == math.inf
    m = 20_000
    assert stack_elements(two, MLP, m) == pytest.approx(3 * 7 / 64 * (5 * m * E + 8 * E * E))
    assert stack_elements(one, MLP, m) == pytest.approx(4 * m * E * 63 / 64)


@given(
    st.sampled_from(
        [TensorSplit(kind="2d", side=8), TensorSplit(kind="2.5d", side=4, depth=4), TensorSplit(kind="3d", side=4)]
    )
)
def test_volumes_are_equal_where_they_cross(grid):
    one = TensorSplit(kind="1d", side=64)
    rows = crossover_rows(one, grid, MLP)
    assert stack_elements(one, MLP, rows) == pytest.approx(stack_elements(grid, MLP, rows))
    assert stack_elements(one, MLP, 0.9 * rows) < stack_elements(grid, MLP, 0.9 * rows)
    assert stack_elements(one, MLP, 1.1 * rows) > stack_elements(grid, MLP, 1.1 * rows)


def test_what_is_smaller_from_the_start_crosses_at_zero():
    slow, fast = TensorSplit(kind="1d", side=64), TensorSplit(kind="1d", side=1)
    assert crossover_rows(slow, fast, MLP) == 0.0
