"""Scenario: from names or inline objects to one frozen object; what cannot be is named by field, all of it at once."""

from __future__ import annotations

import copy
import json
import re

import pytest

from estimator.scenario import catalog
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import cluster_from_json, scenario_from_json, scenario_to_json
from tests.estimator.examples import CHIP, GPT, LINK, LLAMA, NETWORK, document, scenario

NAMED = {
    "model": "llama3-8b",
    "cluster": {"chip": "h100-sxm", "nodes": 2},
    "plan": {"dp": 2, "tp": 8, "micro_batch": 2},
    "training": {"seq_len": 4096, "global_batch": 24},
}


def fields_of(data: object) -> set[str]:
    with pytest.raises(InputProblems) as caught:
        scenario_from_json(data)
    return {problem.field for problem in caught.value.problems}


def changed(path: str, value: object) -> dict:
    data = copy.deepcopy(NAMED)
    part, name = path.split(".")
    data[part] = {**(data[part] if isinstance(data[part], dict) else {}), name: value}
    return data


def test_names_of_the_catalogue_become_their_values():
    found = scenario_from_json(NAMED)
    assert found.model == catalog.model("llama3-8b")
    assert found.cluster.chip == catalog.chip("h100-sxm")
    assert found.cluster.link == catalog.link(catalog.chip("h100-sxm").link)
    assert found.cluster.chips == 16


def test_micro_batches_and_tokens():
    found = scenario_from_json(NAMED)
    assert found.micro_batches == 24 // (2 * 2)
    assert found.tokens == 24 * 4096


def test_a_chips_name_alone_is_one_usual_node():
    found = cluster_from_json("gb200")
    assert (found.chips_per_node, found.nodes) == (catalog.chip("gb200").chips_per_node, 1)


def test_inline_objects_need_no_catalogue():
    found = scenario(GPT)
    assert found.cluster.chip.memory_bytes_per_s == CHIP["memory_bytes_per_s"]
    assert found.cluster.link.bytes_per_s == LINK["bytes_per_s"]
    assert found.cluster.network.latency_s == NETWORK["latency_s"]


def test_a_scenario_written_out_reads_back_as_itself():
    found = scenario_from_json(NAMED)
    assert scenario_from_json(json.loads(json.dumps(scenario_to_json(found)))) == found


def test_the_plan_may_be_left_out():
    data = {**document(LLAMA)}
    del data["plan"]
    assert scenario_from_json(data).plan.chips == 1


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("plan.dp", 4, "plan.dp"),
        ("plan.micro_batch", 5, "training.global_batch"),
        ("training.global_batch", 23, "training.global_batch"),
        ("plan.schedule", "2f2b", "plan.schedule"),
        ("training.precision", "int3", "training.precision"),
        ("plan.offload", "tape", "plan.offload"),
        ("plan.ep", 2, "plan.ep"),
        ("plan.shard_ranks", 3, "plan.shard_ranks"),
        ("training.precison", "fp32", "training.precison"),
        ("cluster.chip", "h1000-sxm", "cluster.chip"),
        ("cluster.link", "nvlink44", "cluster.link"),
        ("cluster.network", {"bytes_per_s": 0, "latency_s": 0}, "cluster.network.bytes_per_s"),
        ("cluster.node", 2, "cluster.node"),
        ("plan.tp", "8", "plan.tp"),
    ],
)
def test_a_mistake_is_named_by_its_field(path, value, field):
    assert field in fields_of(changed(path, value))


@pytest.mark.parametrize("part", ["model", "cluster", "training"])
def test_a_missing_part_is_named(part):
    assert part in fields_of({key: value for key, value in NAMED.items() if key != part})


def test_mistakes_of_all_parts_are_reported_together():
    data = {**NAMED, "model": "lama3-8b", "cluster": "h100", "training": {"seq_len": 0}, "plans": {}}
    assert fields_of(data) == {"model", "plans", "training.seq_len", "training.global_batch"}


def with_plan(model: dict, seq_len: int = 128, **plan) -> set[str]:
    return fields_of(document({**LLAMA, **model}, plan=plan, seq_len=seq_len))


def test_tp_must_divide_heads_and_the_inner_width():
    assert with_plan({"heads": 8, "kv_heads": 8, "hidden": 256}, tp=3) == {"plan.tp"}
    assert with_plan({"ffn": 703}, tp=2) == {"plan.tp"}


def test_tp_and_key_value_heads_divide_one_another():
    # 6 heads over 3: tp 6 holds each key/value head twice, tp 2 would split heads in halves.
    assert with_plan({"heads": 6, "kv_heads": 3, "head_dim": 32, "ffn": 720}, tp=2) == {"plan.tp"}
    assert scenario({**LLAMA, "heads": 6, "kv_heads": 3, "head_dim": 32, "ffn": 720}, plan={"tp": 6}).plan.tp == 6


def test_sequence_parallelism_splits_the_sequence_evenly():
    assert with_plan({}, seq_len=127, tp=2, sequence_parallel=True) == {"plan.tp"}


def test_stages_hold_nearly_equal_numbers_of_layers():
    assert scenario({**LLAMA, "layers": 4}, plan={"pp": 3}).plan.pp == 3
    assert with_plan({"layers": 4}, pp=8) == {"plan.pp"}
    # 8 chunks of two blocks for 9 blocks: seven would be short, more than one on each of two ranks.
    assert with_plan({"layers": 9}, pp=2, virtual_stages=4) == {"plan.virtual_stages"}


def test_offload_needs_a_known_way_to_host_memory():
    assert with_plan({}, offload="optimizer") == {"plan.offload"}


@pytest.mark.parametrize("data", [None, 3, "llama3-8b", [NAMED], {}, {"model": None, "cluster": [], "training": 1}])
def test_what_is_no_scenario_is_a_problem(data):
    assert fields_of(data)


@pytest.mark.parametrize(
    ("plan", "batch", "fitting"),
    [
        ({"dp": 3, "tp": 5}, 64, {"dp": 2, "tp": 4}),
        ({"dp": 4}, 64, {"dp": 8}),
        ({"dp": 2, "tp": 2, "pp": 3}, 6, {"tp": 4, "pp": 1}),
        ({"dp": 16, "micro_batch": 3}, 64, {"dp": 8, "micro_batch": 1}),
        ({"dp": 3}, 7, {"dp": 1, "tp": 8}),  # a batch that only one rank can have
    ],
)
def test_degrees_of_another_number_of_chips_are_answered_by_a_plan_that_is_legal(plan, batch, fitting):
    given = {
        "model": "llama3-8b",
        "cluster": {"chip": "h100-sxm", "chips_per_node": 8},
        "training": {"seq_len": 4096, "global_batch": batch},
    }
    with pytest.raises(InputProblems) as refused:
        scenario_from_json({**given, "plan": plan})
    (problem,) = (one for one in refused.value.problems if "but the cluster has 8 chips" in one.message)
    chosen = {name: int(value) for name, value in re.findall(r"(\w+) (\d+)", problem.remedy.split(", or ")[0])}
    assert chosen == fitting
    assert scenario_from_json({**given, "plan": {**plan, **chosen}}).plan.chips == 8


@pytest.mark.parametrize(
    ("plan", "ways"),
    [({"dp": 2, "tp": 3}, "dp 4 and tp 2, or tp 4"), ({"dp": 8, "tp": 3}, "dp 4 and tp 2, or dp 2 and tp 4")],
)
def test_a_tp_that_a_model_cannot_have_is_answered_by_the_same_degrees_everywhere(plan, ways):
    given = {"model": "llama3-8b", "cluster": {"chip": "h100-sxm", "chips_per_node": 8}, "plan": plan}
    with pytest.raises(InputProblems) as refused:
        scenario_from_json({**given, "training": {"seq_len": 4096, "global_batch": 16}})
    of_chips = f"Choose {ways}, or change cluster.nodes or cluster.chips_per_node."
    assert {one.remedy for one in refused.value.problems} == {"Choose tp 2 or 4.", of_chips}


def test_where_no_plan_is_legal_none_is_named():
    given = {"model": "llama3-8b", "cluster": {"chip": "h100-sxm", "chips_per_node": 7}, "plan": {"dp": 8}}
    with pytest.raises(InputProblems, match=r"has 7 chips\. Change a degree, "):
        scenario_from_json({**given, "training": {"seq_len": 4096, "global_batch": 8}})
