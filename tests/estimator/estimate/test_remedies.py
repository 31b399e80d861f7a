"""Remedies: what is advised fits, in the order of what it saves, and the bytes that it tells are the estimate's."""

from __future__ import annotations

import pytest

from estimator.estimate.estimate import estimate
from estimator.scenario import catalog
from estimator.scenario.codec import encode
from estimator.scenario.scenario import scenario_from_json
from estimator.scenario.units import bytes_text

LARGE = {
    "model": "llama3-70b",
    "cluster": {"chip": "h200-sxm", "chips_per_node": 4},
    "plan": {"dp": 2, "tp": 2, "micro_batch": 4},
    "training": {"seq_len": 4096, "global_batch": 16},
}


def reserved(document: dict, **plan) -> float:
    return estimate(scenario_from_json({**document, "plan": {**document["plan"], **plan}})).memory.reserved_bytes


def advice(document: dict) -> str:
    (problem,) = estimate(scenario_from_json(document)).problems
    return problem.remedy


def test_what_saves_most_comes_first_with_what_it_saves():
    saved = [reserved(LARGE), reserved(LARGE, sharding="fsdp"), reserved(LARGE, sharding="fsdp", recompute="full")]
    said = advice(LARGE)
    assert said.startswith(
        f"Choose sharding fsdp (saves {bytes_text(saved[0] - saved[1])}),"
        f" recompute full (saves {bytes_text(saved[1] - saved[2])})"
    )


def test_what_is_advised_together_fits():
    data = {**LARGE, "cluster": {"chip": "h200-sxm", "nodes": 2}, "plan": {"dp": 8, "tp": 2, "micro_batch": 2}}
    said = advice(data)
    fits = reserved(data, sharding="fsdp", recompute="full")
    assert said.startswith("Choose sharding fsdp (saves ")
    assert " and recompute full (saves " in said
    assert said.endswith(f": {bytes_text(fits)}, which fits.")
    (after,) = estimate(scenario_from_json({**data, "plan": {**data["plan"], "sharding": "fsdp"}})).problems
    assert "recompute full" in after.remedy
    both = {**data, "plan": {**data["plan"], "sharding": "fsdp", "recompute": "full"}}
    assert estimate(scenario_from_json(both)).problems == ()


def test_where_one_change_is_enough_each_of_these_fits():
    data = {
        "model": "llama3-8b",
        "cluster": {"chip": "h100-sxm", "chips_per_node": 8},
        "plan": {"dp": 8, "sharding": "fsdp", "micro_batch": 4},
        "training": {"seq_len": 8192, "global_batch": 64},
    }
    said = advice(data)
    assert said.endswith("each alone fits.")
    assert reserved(data, recompute="full") < 80e9
    assert f"micro_batch 1 ({bytes_text(reserved(data, micro_batch=1))})" in said


def with_memory(document: dict, memory_bytes: float) -> dict:
    chip = {**encode(catalog.chip("h100-sxm")), "memory_bytes": memory_bytes}
    return {**document, "cluster": {**document["cluster"], "chip": chip}}


def test_experts_may_be_laid_on_more_ranks():
    data = {
        "model": "mixtral-8x7b",
        "cluster": {"chip": "h100-sxm", "chips_per_node": 8},
        "plan": {"dp": 8, "ep": 2, "sharding": "fsdp"},
        "training": {"seq_len": 65536, "global_batch": 8},
    }
    more = reserved(data, ep=4)
    assert more < reserved(data)
    assert f"ep 4 ({bytes_text(more)})" in advice(with_memory(data, 1.001 * more))


def test_what_nothing_helps_needs_another_chip():
    data = {
        "model": "gpt2",
        "cluster": {"chip": "h100-sxm", "chips_per_node": 1},
        "plan": {"recompute": "full", "offload": "optimizer"},
        "training": {"seq_len": 128, "global_batch": 1},
    }
    assert advice(with_memory(data, 1e6)) == "No change of the plan helps: take more chips, or chips with more memory."
    open_to_change = {**data, "plan": {}}
    assert advice(with_memory(open_to_change, 1e6)).endswith(
        "still too much; take more chips, or chips with more memory."
    )


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_no_change_is_advised_that_is_not_legal(tp):
    data = {**LARGE, "plan": {"dp": 4 // tp, "tp": tp}, "training": {"seq_len": 4096, "global_batch": 4}}
    said = advice(data)
    assert "micro_batch 1" not in said
    assert ("sharding fsdp" in said) == (tp < 4)
