"""A search gives for every plan what an estimate of that plan alone gives, to rounding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.estimate.assemble import effective, efficiencies_of
from estimator.estimate.estimate import estimate
from estimator.scenario.framework import FRAMEWORKS
from estimator.scenario.plan import (
    CP_KINDS,
    DDP_MODES,
    OFFLOADS,
    PLACEMENTS,
    RECOMPUTES,
    SCHEDULES,
    SHARDINGS,
    TP_KINDS,
    Plan,
)
from estimator.scenario.scenario import Scenario, cluster_from_json, model_from_json, training_from_json
from estimator.search.evaluate import evaluated
from estimator.search.space import Space
from estimator.search.specification import further_values

MODELS: dict[str, str | dict[str, Any]] = {
    "dense": "llama3-8b",
    "large": "llama3-405b",
    "tied, learned positions": "gpt2-medium",
    "experts": "mixtral-8x7b",
    "latent, leading dense blocks": "deepseek-v2",
    "windows and experts": {
        "layers": 12, "hidden": 1024, "heads": 16, "kv_heads": 4, "ffn": 2048, "vocab": 32_000, "experts": 16,
        "top_k": 2, "moe_ffn": 768, "moe_every": 2, "shared_experts": 1, "sliding_window": 1024,
        "full_attention_every": 2, "qk_norm": True, "dense_layers": 1,
    },
}  # fmt: skip
CLUSTERS = [(16, 1), (8, 2), (4, 8), (8, 16), (8, 128), (72, 4), (1, 64), (6, 2)]
"""Chips per node, and nodes: from 12 to 1024 chips."""
SHARE, SAMPLES = 0.4, 2
"""Blocks of a search that are looked at, and plans compared in each of them."""


@st.composite
def searches(draw: st.DrawFn) -> tuple[Scenario, dict[str, Any], dict[str, Any]]:
    """Draw a base scenario, locks narrow enough that one search takes well under a second, and what else is moved."""
    per_node, nodes = draw(st.sampled_from(CLUSTERS))
    model = model_from_json(MODELS[draw(st.sampled_from(sorted(MODELS)))])
    chip = draw(st.sampled_from(("h100-sxm", "h200-sxm", "mi300x", "a100-80gb-sxm")))
    cluster = cluster_from_json({"chip": chip, "chips_per_node": per_node, "nodes": nodes})
    # An estimate of what does not fit also looks for what would, which takes longer than the rest
    cluster = replace(cluster, chip=replace(cluster.chip, memory_bytes=1e18))
    framework = draw(st.sampled_from(tuple(FRAMEWORKS)))
    training = training_from_json(
        {
            "seq_len": draw(st.sampled_from((1024, 4096, 8192))),
            "global_batch": draw(st.sampled_from((16, 48, 256, 1024))),
            "precision": draw(st.sampled_from(("bf16", "bf16-amp", "fp32"))),
            "optimizer": draw(st.sampled_from(("adamw", "sgd"))),
            "attention": draw(st.sampled_from(("sdpa", "flash", "eager"))),
            "framework": framework,
        }
    )
    base = effective(Scenario(model=model, cluster=cluster, plan=Plan(), training=training))
    choices: dict[str, tuple[Any, ...]] = {
        "schedule": SCHEDULES,
        "sharding": SHARDINGS,
        "placement": PLACEMENTS,
        "recompute": RECOMPUTES,
        "tp_kind": TP_KINDS if not model.experts else ("1d",),
        "cp_kind": CP_KINDS,
    }
    # Two choices stay open, so that what is joined from several branches is seen as well.
    shut = draw(st.permutations(sorted(choices)))[2:]
    locked = {name: draw(st.sampled_from(choices[name])) for name in shut}
    ways: dict[str, tuple[Any, ...]] = {"ddp_mode": DDP_MODES, "overlap": (True, False), "recompute_every": (1, 2, 3)}
    if cluster.chip.host_bytes_per_s:
        ways["offload"] = OFFLOADS
    further = {name: list(ways.pop(name)) for name in draw(st.permutations(sorted(ways)))[: draw(st.integers(0, 2))]}
    for name, values in ways.items():
        if name != "recompute_every" or locked.get("recompute", "full") == "full":
            locked[name] = draw(st.sampled_from(values))
    if locked.get("tp_kind", "1d") != "1d":
        locked["cp_kind"] = "ring"
    if locked.get("sharding") != "ddp" and draw(st.booleans()):
        locked["shard_ranks"] = draw(st.sampled_from((2, 4)))
    return base, locked, further


@given(searches(), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_a_plan_of_a_search_is_worth_what_its_estimate_says(search, seed):
    base, locked, further = search
    opened = Space(base, locked, further_values(further, base))
    random = np.random.default_rng(seed)
    e = efficiencies_of(base, None)
    for block in evaluated(opened, e, capacity_bytes=float("inf")):
        assert block.tried == len(block.step_s) == len(block.peak_bytes)
        if random.random() > SHARE:
            continue
        for index in random.integers(block.tried, size=SAMPLES):
            plan = block.plan(int(index))
            assert {name: getattr(plan, name) for name in locked} == locked
            assert all(getattr(plan, name) in opened.further[name] for name in further)
            alone = estimate(replace(base, plan=plan), interval=False)
            assert block.step_s[index] == pytest.approx(alone.step_time_s, rel=1e-9), plan
            assert block.peak_bytes[index] == pytest.approx(alone.memory.peak_bytes, rel=1e-9), plan


@pytest.mark.parametrize(
    ("model", "cluster", "batch", "locked", "every"),
    [
        # Stages whose micro-batches wait differently: the second stands for all in the middle, gradients or not.
        (
            "mixtral-8x7b",
            (16, 1),
            48,
            {"tp": 2, "pp": 4, "cp": 2, "schedule": "1f1b", "micro_batch": 16, "offload": "activations"},
            7,
        ),
        # Plans that recompute beside plans that do not: autocast's copies live differently.
        ("llama3-8b", (8, 1), 64, {"cp": 1}, 47),
        # Later stages hold more micro-batches than the second.
        ("mixtral-8x7b", (6, 2), 16, {"schedule": "zero-bubble-v"}, 11),
    ],
    ids=["fewer micro-batches than stages", "recomputed or not", "ZB-V"],
)
def test_memory_of_plans_under_autocast(model, cluster, batch, locked, every):
    training = training_from_json({"seq_len": 1024, "global_batch": batch, "precision": "bf16-amp"})
    per_node, nodes = cluster
    chips = cluster_from_json({"chip": "h100-sxm", "chips_per_node": per_node, "nodes": nodes})
    chips = replace(chips, chip=replace(chips.chip, memory_bytes=1e18))
    base = effective(Scenario(model=model_from_json(model), cluster=chips, plan=Plan(), training=training))
    found = {
        block.plan(index): block.peak_bytes[index]
        for block in evaluated(Space(base, locked, {}), efficiencies_of(base, None), capacity_bytes=float("inf"))
        for index in range(0, block.tried, every)
    }
    assert {plan.recompute for plan in found} == set(RECOMPUTES)
    alone = [estimate(replace(base, plan=plan), interval=False).memory.peak_bytes for plan in found]
    assert list(found.values()) == pytest.approx(alone, rel=1e-9)
