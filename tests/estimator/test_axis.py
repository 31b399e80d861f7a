"""Axis: each value is the scenario that it stands for, and a refused value carries the reason."""

from __future__ import annotations

import copy

import pytest

from estimator.axis import FIELDS, Axis, Point, axis
from estimator.estimate import estimate
from estimator.problems import InputProblems
from estimator.scenario import scenario_from_json

BASE = {
    "model": "llama3.2-1b",
    "cluster": {"chip": "h100-sxm", "chips_per_node": 8, "nodes": 1},
    "plan": {"dp": 4, "tp": 2, "micro_batch": 1},
    "training": {"seq_len": 2048, "global_batch": 16, "precision": "bf16"},
}


def along(field: str, document: dict | None = None) -> Axis:
    return axis(document or BASE, field)


def points(field: str) -> dict[object, Point]:
    return {point.value: point for point in along(field).points}


@pytest.mark.parametrize("field", FIELDS)
def test_every_point_is_the_estimate_of_its_own_scenario(field):
    before = copy.deepcopy(BASE)
    found = along(field)
    assert before == BASE
    assert found.field == field
    present = scenario_from_json(BASE)
    part, name = field.split(".")
    assert getattr(getattr(present, part), name) in [point.value for point in found.points]
    legal = [point for point in found.points if point.estimate is not None]
    assert legal
    for point in found.points:
        assert (point.estimate is None) == bool(point.problems)
    # Two of them in full; the rest would repeat the same code.
    for point in (legal[0], legal[-1]):
        read = scenario_from_json(point.scenario)
        assert getattr(getattr(read, part), name) == point.value
        assert estimate(read).step_time_s == point.estimate.step_time_s


def test_the_present_value_leaves_the_scenario_as_it_is():
    for field, value in (("plan.tp", 2), ("plan.dp", 4), ("cluster.nodes", 1), ("plan.micro_batch", 1)):
        point = points(field)[value]
        assert scenario_from_json(point.scenario) == scenario_from_json(BASE), field


def test_names_of_the_catalogue_stay_names():
    for point in along("plan.tp").points:
        assert point.scenario["model"] == "llama3.2-1b"
        assert point.scenario["cluster"]["chip"] == "h100-sxm"


@pytest.mark.parametrize("field", ["plan.tp", "plan.pp"])
def test_tp_and_pp_keep_the_chips_and_dp_takes_the_rest(field):
    for point in along(field).points:
        if point.estimate is not None:
            assert point.estimate.chips == 8
            assert scenario_from_json(point.scenario).plan.chips == 8


def test_dp_grows_the_cluster_node_by_node():
    found = points("plan.dp")
    for dp, (per_node, nodes) in {1: (2, 1), 2: (4, 1), 4: (8, 1), 8: (8, 2), 16: (8, 4)}.items():
        cluster = scenario_from_json(found[dp].scenario).cluster
        assert (cluster.chips_per_node, cluster.nodes) == (per_node, nodes)


def test_a_part_of_a_node_grows_to_a_whole_one_first():
    data = {**BASE, "cluster": {"chip": "h100-sxm", "chips_per_node": 2}, "plan": {"dp": 2}}
    found = {point.value: point for point in along("plan.dp", data).points}
    for dp, (per_node, nodes) in {2: (2, 1), 8: (8, 1), 16: (8, 2)}.items():
        cluster = scenario_from_json(found[dp].scenario).cluster
        assert (cluster.chips_per_node, cluster.nodes) == (per_node, nodes)


def test_more_nodes_are_more_data_parallel_ranks():
    found = points("cluster.nodes")
    assert scenario_from_json(found[4].scenario).plan.dp == 16
    assert "global_batch" in found[64].problems[0].field


def test_a_refused_degree_says_why():
    found = points("plan.tp")
    # llama3.2-1b: 32 heads, 8 key/value heads, 16 layers.
    assert [value for value, point in found.items() if point.estimate is not None] == [1, 2, 4, 8]
    pipeline = points("plan.pp")
    refused = pipeline[8].problems
    assert refused[0].field == "plan.pp"
    assert refused[0].remedy


def test_a_cluster_given_by_name_alone_can_be_moved():
    data = {**BASE, "cluster": "h100-sxm"}
    assert [point.estimate.chips for point in along("cluster.nodes", data).points if point.estimate][:2] == [8, 16]


def test_a_plan_left_out_can_be_moved():
    data = {"model": "gpt2", "cluster": {"chip": "h100-sxm", "chips_per_node": 1},
            "training": {"seq_len": 1024, "global_batch": 8}}  # fmt: skip
    assert [point.value for point in along("plan.micro_batch", data).points] == [1, 2, 4, 8]


@pytest.mark.parametrize("field", ["plan.tpp", "model.layers", "", "training"])
def test_a_field_without_axis_is_refused_with_the_list(field):
    with pytest.raises(InputProblems) as caught:
        along(field)
    assert "plan.tp" in caught.value.problems[0].remedy


def test_a_broken_scenario_is_refused_not_drawn():
    with pytest.raises(InputProblems):
        along("plan.tp", {**BASE, "model": "llama"})
