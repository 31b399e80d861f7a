"""Remedies: neighbours that were really estimated, three ways at most, and what makes a plan fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from estimator.estimate.estimate import estimate
from estimator.scenario.breakdown import WAITING
from estimator.scenario.scenario import scenario_from_json
from estimator.scenario.units import bytes_text
from estimator.search.remedies import ALIKE_FRAC, LEAST_FRAC, REMEDY_FIELDS, FieldChange, remedies

SAMPLES = sorted((Path(__file__).parents[3] / "app" / "samples").glob("*.json"))
CLUSTER = {"chip": "h100-sxm", "chips_per_node": 8, "nodes": 8}
TRAINING = {"seq_len": 4096, "global_batch": 512, "precision": "bf16-amp"}
SLOW = {"model": "llama3-70b", "cluster": CLUSTER, "training": TRAINING,
        "plan": {"dp": 2, "tp": 8, "pp": 4, "sharding": "fsdp", "recompute": "full"}}  # fmt: skip
TOO_LARGE = {**SLOW, "plan": {"dp": 64, "sharding": "ddp"}}


def test_what_is_promised_is_what_the_estimate_says():
    own = estimate(scenario_from_json(SLOW), interval=False)
    found = remedies(SLOW)
    assert (found.over_bytes, found.binds_s) == (0.0, own.breakdown_s[found.binds])
    assert found.waits == (found.binds in WAITING)
    assert 1 <= len(found.best) <= 3
    assert found.best[0].step_time_s < 0.7 * own.step_time_s, (
        "another plan is far faster, and compiling is not the first remedy"
    )
    ways = [frozenset(change.field for change in one.changes) for one in found.best]
    assert len(set(ways)) == len(ways)
    for one in found.best:
        there = estimate(scenario_from_json(one.scenario))
        assert (one.step_time_s, one.tokens_per_s) == (there.step_time_s, there.tokens_per_s)
        assert one.peak_bytes == there.memory.peak_bytes
        assert there.memory.fits
        assert one.step_time_s < own.step_time_s * (1 - LEAST_FRAC)
        assert there.chips == own.chips


def test_every_promise_is_kept_whatever_the_plan():
    documents = [json.loads(path.read_text())["scenario"] for path in SAMPLES]
    small = {"cluster": {"chip": "a100-80gb-sxm", "nodes": 1, "chips_per_node": 4},
             "training": {"seq_len": 2048, "global_batch": 16}}  # fmt: skip
    documents += [
        {**small, "model": model, "plan": plan}
        for model in ("gpt2-medium", "qwen3-4b")
        for plan in ({"dp": 4}, {"dp": 2, "tp": 2, "recompute": "full"}, {"pp": 4, "micro_batch": 2})
    ]
    promised = []
    for document in documents:
        own, best = estimate(scenario_from_json(document), interval=False), remedies(document).best
        assert all(best[0].step_time_s <= one.step_time_s * (1 + ALIKE_FRAC) for one in best), "the best comes first"
        assert not own.memory.fits or all(one.step_time_s < own.step_time_s * (1 - LEAST_FRAC) for one in best)
        promised += best
    assert len(promised) > 2 * len(documents)
    for one in promised:
        there = estimate(scenario_from_json(one.scenario), interval=False)
        assert (one.step_time_s, one.peak_bytes) == (there.step_time_s, there.memory.peak_bytes)
        assert (one.reserved_bytes, one.tokens_per_s) == (there.memory.reserved_bytes, there.tokens_per_s)


def test_one_rank_is_not_told_to_shard():
    found = remedies({
        "model": "gpt2-xl", "cluster": {"chip": "h100-sxm", "chips_per_node": 1, "nodes": 1},
        "training": {"seq_len": 1024, "global_batch": 8, "precision": "bf16-amp"}, "plan": {"micro_batch": 8},
    })  # fmt: skip
    assert found.best
    assert not [change for one in found.best for change in one.changes if change.field == "plan.sharding"]


def test_an_odd_vocabulary_is_filled_up_and_one_of_whole_tiles_is_not():
    one_gpu = {
        "model": "gpt2", "cluster": {"chip": "h100-sxm", "chips_per_node": 1, "nodes": 1},
        "training": {"seq_len": 1024, "global_batch": 8, "precision": "bf16-amp"}, "plan": {"micro_batch": 8},
    }  # fmt: skip
    (filled,) = (one for one in remedies(one_gpu).best if one.changes[0].field == "model.vocab")
    assert filled.changes == (FieldChange(field="model.vocab", before=50_257, after=50_304),)
    there = estimate(scenario_from_json(filled.scenario))
    assert filled.step_time_s == there.step_time_s < 0.9 * estimate(scenario_from_json(one_gpu)).step_time_s
    again = remedies(filled.scenario).best
    assert not [change for one in again for change in one.changes if change.field == "model.vocab"]


def test_a_plan_that_does_not_fit_is_told_what_makes_it_fit():
    found = remedies(TOO_LARGE)
    assert found.over_bytes > 1e12
    assert all(one.reserved_bytes <= 80 * 1024**3 for one in found.best)
    assert any(change.field == "plan.sharding" for change in found.best[0].changes)


def test_where_no_neighbour_fits_the_changes_that_do_together_are_a_remedy():
    asked = {
        "model": "llama3-70b", "cluster": {"chip": "h100-sxm", "chips_per_node": 8, "nodes": 1},
        "training": {"seq_len": 4096, "global_batch": 64, "precision": "bf16"},
        "plan": {"dp": 8, "micro_batch": 1, "sharding": "ddp"},
    }  # fmt: skip
    (one,) = remedies(asked).best
    assert {change.field for change in one.changes} == {"plan.sharding", "plan.recompute", "plan.offload"}
    there = estimate(scenario_from_json(one.scenario), interval=False)
    assert there.memory.fits
    own = estimate(scenario_from_json(asked), interval=False)
    (problem,) = [one for one in own.problems if one.field == "memory"]
    assert f"{bytes_text(there.memory.reserved_bytes)}, which fits." in problem.remedy, "it is what the problem advises"


def test_nothing_is_explained_of_plans_that_are_only_tried(monkeypatch):
    """What would make a plan fit takes several times as long as the plan."""
    monkeypatch.setattr("estimator.estimate.explain.memory_problems", None)
    assert remedies(TOO_LARGE).best


def test_flash_is_no_remedy_where_numbers_are_wide():
    training = {"seq_len": 4096, "global_batch": 8, "precision": "fp32"}
    asked = {"model": "llama3-8b", "cluster": {"chip": "h200", "chips_per_node": 8}, "training": training,
             "plan": {"dp": 8, "sharding": "fsdp"}}  # fmt: skip
    found = remedies(asked)
    assert found.best
    for one in found.best:
        there = {change.field: change.after for change in one.changes}
        assert there.get("training.attention") is None or there.get("training.precision") not in (None, "tf32")


ONE_GPU = {"model": "gpt2", "cluster": {"chip": "h100-sxm", "chips_per_node": 1, "nodes": 1},
           "plan": {"micro_batch": 4}}  # fmt: skip
GPT_2 = {"seq_len": 512, "global_batch": 4, "precision": "bf16-amp"}


def test_the_fused_update_is_a_remedy_where_pytorch_has_one():
    asked = {**ONE_GPU, "training": GPT_2}
    fused = {**ONE_GPU, "training": {**GPT_2, "optimizer_kernel": "fused"}}
    (found,) = (one for one in remedies(asked).best if one.changes[0].field == "training.optimizer_kernel")
    assert found.changes == (FieldChange(field="training.optimizer_kernel", before="default", after="fused"),)
    assert found.step_time_s == estimate(scenario_from_json(fused), interval=False).step_time_s
    assert "training.optimizer_kernel" not in {c.field for one in remedies(fused).best for c in one.changes}


@pytest.mark.parametrize(
    "chosen", [{"framework": "pytorch-1.10"}, {"framework": "megatron"}, {"optimizer": "adafactor"}]
)
def test_no_kernel_is_tried_where_none_can_be_chosen(chosen, monkeypatch):
    asked = {**ONE_GPU, "training": {**GPT_2, **chosen}}
    tried = remedies(asked).tried
    monkeypatch.setattr("estimator.search.remedies.REMEDY_FIELDS", REMEDY_FIELDS[:-1])
    assert REMEDY_FIELDS[-1] == "training.optimizer_kernel"
    assert remedies(asked).tried == tried
