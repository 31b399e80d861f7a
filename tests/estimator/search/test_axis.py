"""Axis: each value is the scenario that it stands for, and a refused value carries the reason."""

from __future__ import annotations

import copy

import pytest

from estimator.estimate.estimate import estimate
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import scenario_from_json
from estimator.search.axis import AXIS_FIELDS, Axis, Point, axis

BASE = {
    "model": "llama3.2-1b",
    "cluster": {"chip": "h100-sxm", "chips_per_node": 8, "nodes": 1},
    "plan": {"dp": 4, "tp": 2, "micro_batch": 1},
    "training": {"seq_len": 2048, "global_batch": 16, "precision": "bf16"},
}


def along(field: str, document: dict | None = None) -> Axis:
    return axis(document or BASE, field)


def changed(**plan: object) -> dict:
    return {**BASE, "plan": {**BASE["plan"], **plan}}


def plans(field: str, document: dict) -> dict[object, dict]:
    """Plan of every legal point."""
    return {point.value: point.scenario["plan"] for point in along(field, document).points if point.estimate}


def points(field: str) -> dict[object, Point]:
    return {point.value: point for point in along(field).points}


@pytest.mark.parametrize("field", AXIS_FIELDS)
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
    one_chunk = changed(schedule="interleaved", pp=2, dp=2)
    here = next(point for point in along("plan.schedule", one_chunk).points if point.value == "interleaved")
    assert scenario_from_json(here.scenario) == scenario_from_json(one_chunk)


def test_names_of_the_catalogue_stay_names():
    for point in along("plan.tp").points:
        assert point.scenario["model"] == "llama3.2-1b"
        assert point.scenario["cluster"]["chip"] == "h100-sxm"


@pytest.mark.parametrize("field", ["plan.tp", "plan.cp", "plan.pp"])
def test_tp_cp_and_pp_keep_the_chips_and_dp_takes_the_rest(field):
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
    # 16 sequences do not divide over 256 ranks: one for each of them is the next batch that does
    assert scenario_from_json(found[64].scenario).training.global_batch == 256


def test_the_batch_follows_dp():
    data = {**BASE, "plan": {"dp": 4, "micro_batch": 4}, "cluster": {"chip": "h100-sxm", "chips_per_node": 4}}
    found = {point.value: point for point in along("plan.dp", data).points}
    batches = {}
    for dp, point in found.items():
        read = scenario_from_json(point.scenario)
        batches[dp] = (read.plan.micro_batch, read.training.global_batch)
    assert {dp: batches[dp] for dp in (1, 2, 4, 8, 16, 32)} == {
        1: (4, 16), 2: (4, 16), 4: (4, 16), 8: (2, 16), 16: (1, 16), 32: (4, 128),
    }  # fmt: skip
    fewer = along("plan.tp", {**BASE, "plan": {"dp": 2, "tp": 4, "micro_batch": 8}})
    assert {point.value: point.scenario["plan"]["micro_batch"] for point in fewer.points if point.estimate} == {
        1: 2, 2: 4, 4: 8, 8: 8,
    }  # fmt: skip


def test_a_scenario_that_is_impossible_has_axes_that_lead_out_of_it():
    data = {**BASE, "plan": {"dp": 8, "micro_batch": 4}}
    with pytest.raises(InputProblems):
        scenario_from_json(data)
    for field, legal in (("plan.micro_batch", [1, 2]), ("training.global_batch", [32, 64]), ("plan.tp", [2, 4, 8])):
        found = along(field, data).points
        assert [point.value for point in found if point.estimate][: len(legal)] == legal
    (here,) = [point for point in along("plan.dp", data).points if point.value == 8]
    assert here.estimate is None
    assert here.problems[0].field == "training.global_batch"


def test_a_refused_degree_says_why():
    found = points("plan.tp")
    # llama3.2-1b: 32 heads, 8 key/value heads, 16 layers.
    assert [value for value, point in found.items() if point.estimate is not None] == [1, 2, 4, 8]
    pipeline = points("plan.pp")
    refused = pipeline[8].problems
    assert refused[0].field == "plan.pp"
    assert refused[0].remedy


def test_schedule_and_chunks_move_one_another():
    found = plans("plan.schedule", changed(pp=2, dp=2))
    assert found["interleaved"]["virtual_stages"] == 2
    interleaved = changed(pp=2, dp=2, schedule="interleaved", virtual_stages=4)
    assert {name: plan["virtual_stages"] for name, plan in plans("plan.schedule", interleaved).items()} == {
        "gpipe": 1, "1f1b": 1, "interleaved": 4, "zero-bubble": 1, "zero-bubble-v": 1
    }  # fmt: skip
    chunks = plans("plan.virtual_stages", interleaved)
    assert {n: plan["schedule"] for n, plan in chunks.items()} == {
        1: "1f1b", 2: "interleaved", 4: "interleaved", 8: "interleaved"
    }  # fmt: skip
    assert plans("plan.virtual_stages", changed(pp=2, dp=2))[2]["schedule"] == "interleaved"


def test_a_grid_takes_its_depth_and_splits_tokens_itself():
    found = plans("plan.tp_kind", changed(tp=8, dp=1, sequence_parallel=True))
    assert (found["2.5d"]["tp_depth"], found["2.5d"]["sequence_parallel"]) == (2, False)
    assert "tp_depth" not in found["3d"]
    back = plans("plan.tp_kind", changed(tp=8, dp=1, tp_kind="2.5d", tp_depth=2))
    assert back["1d"]["tp_depth"] == 1
    tall = changed(tp=8, dp=1, tp_kind="2.5d", tp_depth=2)
    assert {tp: plan["tp_depth"] for tp, plan in plans("plan.tp", tall).items()} == {1: 1, 2: 2, 4: 1, 8: 2}
    assert [point.value for point in along("plan.tp_depth", tall).points] == [2, 8]


def test_blocks_per_checkpoint_and_full_recomputation_move_one_another():
    assert plans("plan.recompute_every", BASE)[4]["recompute"] == "full"
    every = changed(recompute="full", recompute_every=4)
    assert {name: plan["recompute_every"] for name, plan in plans("plan.recompute", every).items()} == {
        "none": 1, "selective": 1, "full": 4
    }  # fmt: skip


def test_experts_are_laid_over_ranks_that_they_divide():
    experts = {**BASE, "model": "qwen3-30b-a3b", "plan": {"dp": 8, "ep": 2, "sharding": "fsdp"}}
    found = along("plan.ep", experts).points
    assert [point.value for point in found] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert [point.value for point in found if point.estimate] == [1, 2, 4, 8]
    assert "does not divide" in found[-1].problems[0].message
    assert [point.value for point in along("plan.ep").points] == [1]


def test_states_are_shared_by_a_part_of_the_ranks():
    sharded = changed(sharding="fsdp", tp=1, dp=8)
    assert list(plans("plan.shard_ranks", sharded)) == [0, 2, 4]
    refused = [point for point in along("plan.shard_ranks").points if point.problems]
    assert refused[0].problems[0].field == "plan.shard_ranks"


def test_stages_may_be_uneven():
    uneven = plans("plan.pp", {**BASE, "model": "gpt2", "plan": {"dp": 8}})
    assert 8 in uneven, "12 layers on 8 stages"


def test_placements_differ_for_the_plan():
    assert list(plans("plan.placement", changed(tp=1, dp=8))) == ["tp-cp-dp-pp"]
    assert len(plans("plan.placement", changed(tp=2, cp=2, pp=2, dp=1))) == 6
    here = changed(tp=2, dp=4, placement="pp-dp-tp-cp")
    assert list(plans("plan.placement", here)) == ["tp-cp-dp-pp", "pp-dp-tp-cp"]


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
