"""Remedies: neighbours that were really estimated, three ways at most, and what makes a plan fit."""

from __future__ import annotations

from estimator.estimate.estimate import estimate
from estimator.scenario.scenario import scenario_from_json
from estimator.search.remedies import LEAST_FRAC, remedies

CLUSTER = {"chip": "h100-sxm", "chips_per_node": 8, "nodes": 8}
TRAINING = {"seq_len": 4096, "global_batch": 512, "precision": "bf16-amp"}
SLOW = {"model": "llama3-70b", "cluster": CLUSTER, "training": TRAINING,
        "plan": {"dp": 2, "tp": 8, "pp": 4, "sharding": "fsdp", "recompute": "full"}}  # fmt: skip
TOO_LARGE = {**SLOW, "plan": {"dp": 64, "sharding": "ddp"}}


def test_what_is_promised_is_what_the_estimate_says():
    own = estimate(scenario_from_json(SLOW), interval=False)
    found = remedies(SLOW)
    assert (found.over_bytes, found.binds_s) == (0.0, own.breakdown_s[found.binds])
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


def test_a_plan_that_does_not_fit_is_told_what_makes_it_fit():
    found = remedies(TOO_LARGE)
    assert found.over_bytes > 1e12
    assert all(one.reserved_bytes <= 80 * 1024**3 for one in found.best)
    assert any(change.field == "plan.sharding" for change in found.best[0].changes)
