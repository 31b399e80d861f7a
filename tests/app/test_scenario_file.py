"""A scenario that comes to the page as a file: as people write it, as the page copies it, as a search asks for it."""

from __future__ import annotations

import json

import pytest

from estimator.search.specification import KEYS
from tests.javascript import call_each

CHIPS = {"chips": [{"key": "h100-sxm", "aliases": ["H100"], "value": {"chips_per_node": 8}}]}
WRITTEN = {
    "model": "llama3-8b",
    "cluster": {"chip": "h100-sxm", "nodes": 2},
    "plan": {"dp": 16, "sharding": "fsdp"},
    "training": {"seq_len": 4096, "global_batch": 64},
}
WITHOUT_PLAN = {key: value for key, value in WRITTEN.items() if key != "plan"}
SEARCH = {**WITHOUT_PLAN, "limits": {"memory_bytes": 70e9}, "objective": "cost", "locked": {"pp": 1, "overlap": False}}


def found(*documents: object) -> list[dict[str, object] | None]:
    return call_each("scenarioFile", "scenarioIn", [[json.dumps(one, indent=1), CHIPS] for one in documents])


def test_a_scenario_is_taken_as_it_is_and_without_a_plan_all_chips_are_data_parallel():
    by_name = {**WITHOUT_PLAN, "cluster": "H100"}
    written, without, named = found(WRITTEN, WITHOUT_PLAN, by_name)
    assert written == {"scenario": WRITTEN, "search": None}
    assert without is not None
    assert without["scenario"] == {**WRITTEN, "plan": {"dp": 16}}
    assert named == {"scenario": {**by_name, "cluster": {"chip": "H100"}, "plan": {"dp": 8}}, "search": None}


def test_nodes_of_a_chip_of_ones_own_have_as_many_as_it_says():
    own = {"name": "mine", "chips_per_node": 4}
    (opened,) = found({**WITHOUT_PLAN, "cluster": {"chip": own, "nodes": 2}})
    assert opened is not None
    assert opened["scenario"]["plan"] == {"dp": 8}
    (cluster,) = call_each("scenario", "completeCluster", [[{"chip": own, "nodes": 2}, CHIPS]])
    assert cluster == {"chip": own, "chips_per_node": 4, "nodes": 2}


def test_a_search_is_taken_with_what_it_looks_for():
    one, *others = found(SEARCH, *({**WRITTEN, key: {}} for key in set(KEYS) - WRITTEN.keys()))
    assert one is not None
    assert all(other and other["search"] for other in others), "each key of a search says that it is one"
    assert one["search"] == {
        "objective": "cost", "memory_gb": 70, "slowest_s": 0, "locked": {"pp": "1", "overlap": "false"},
    }  # fmt: skip


@pytest.mark.parametrize(
    "other",
    [
        [WRITTEN],
        {**WRITTEN, "step_ms": 12.5},
        {**WRITTEN, "cluster": 8},
        {**WRITTEN, "cluster": None},
        {**WRITTEN, "training": "bf16"},
        {**WRITTEN, "plan": "ddp"},
        {"model": "llama3-8b"},
        None,
    ],
)
def test_what_is_no_scenario_is_left_to_the_importers(other):
    assert found(other) == [None]
