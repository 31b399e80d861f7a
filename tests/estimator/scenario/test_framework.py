"""Framework: every record predicts, each of its traits shows in a number, and no other name is one."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from estimator.estimate.estimate import estimate
from estimator.scenario.framework import FRAMEWORKS, Framework
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import Scenario
from estimator.scenario.training import Training
from tests.estimator.examples import GPT, LLAMA, MIXTRAL, scenario

GROUPED = {"tp": 2, "dp": 2, "ep": 2, "recompute": "full"}
SCENARIOS = [
    scenario(LLAMA, global_batch=4),
    scenario(LLAMA, global_batch=1, attention="eager", seq_len=4096),
    scenario(LLAMA, attention="flash"),
    scenario({**LLAMA, "hidden": 1280, "ffn": 5120, "heads": 20, "kv_heads": 20}, precision="fp32"),
    scenario(LLAMA, plan={"tp": 2, "sequence_parallel": True}),
    scenario({**GPT, "parallel_residual": True, "norms_per_layer": 1}, plan={"tp": 2, "dp": 2}),
    scenario({**MIXTRAL, "vocab": 32_768}, plan=GROUPED, global_batch=4),
    scenario({**MIXTRAL, "clamped_ffn": True}, plan=GROUPED, global_batch=4),
    scenario(LLAMA, plan={"pp": 2}, global_batch=4),
    scenario(LLAMA, plan={"pp": 2, "dp": 2, "sharding": "fsdp"}, global_batch=8),
    scenario(LLAMA, plan={"recompute": "selective"}, global_batch=4),
    scenario({**LLAMA, "vocab": 10_001}, compile=True),
]
TRAITS = [f.name for f in fields(Framework) if isinstance(f.default, bool) and f.name != "measurable"]


NOT_IN_BUFFERS = {"multi_tensor", "keeps_gradients", "caching_allocator", "clips_gradients"}
"""Traits that do not show where one kernel updates parameters that live in buffers as their gradients do."""


def numbers_of(one: Scenario, framework: str) -> tuple[float, float]:
    found = estimate(replace(one, training=replace(one.training, framework=framework)))
    assert 0 < found.step_time_s < 1e3
    assert found.step_time_s == pytest.approx(sum(found.phases_s.values()))
    return found.step_time_s, found.memory.peak_bytes


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_every_framework_predicts(name):
    assert FRAMEWORKS[name].label
    for one in SCENARIOS:
        seconds, peak_bytes = numbers_of(one, name)
        assert seconds >= numbers_of(one, "ideal")[0]
        assert peak_bytes > 0


@pytest.mark.parametrize("trait", TRAITS)
@pytest.mark.parametrize("name", ["pytorch-eager", "megatron"])
def test_every_trait_shows_in_a_number(name, trait, monkeypatch):
    # Names of their own, because ranks are kept by what their scenario says.
    usual, other = f"{name} but for {trait}: no", f"{name} but for {trait}: yes"
    traits = FRAMEWORKS[name]
    if trait in NOT_IN_BUFFERS:
        traits = replace(traits, master_weights=False, fused_optimizer=False, in_place_buffers=False)
    if trait == "upcasts_logits":
        traits = replace(traits, fuses=False, vocab_parallel_loss=False)
    if trait == "compiles_loss":
        traits = replace(traits, fuses=True, vocab_parallel_loss=False)
    if trait in ("clamps_apart", "multiplies_apart", "multiplies_grouped"):
        traits = replace(traits, fuses=True)
    if trait == "checkpoints_reentrantly":
        traits = replace(traits, host="eager", fuses=False)
    if trait == "multiplies_grouped":
        traits = replace(traits, multiplies_apart=False)
    if trait == "wide_states":
        traits = replace(traits, master_weights=False)
    if trait == "merges_input_gradients":
        traits = replace(traits, merges_parallel=True)
    monkeypatch.setitem(FRAMEWORKS, usual, traits)
    monkeypatch.setitem(FRAMEWORKS, other, replace(traits, **{trait: not getattr(traits, trait)}))
    assert any(numbers_of(one, usual) != numbers_of(one, other) for one in SCENARIOS)


def test_compiling_has_two_names():
    plain = Training(seq_len=1, global_batch=1)
    assert replace(plain, compile=True).fused
    assert replace(plain, framework="pytorch-compile").fused
    assert not plain.fused


def test_a_framework_that_is_none_names_those_that_are():
    with pytest.raises(InputProblems) as caught:
        scenario(framework="caffe")
    (problem,) = caught.value.problems
    assert problem.field == "training.framework"
    assert all(name in problem.remedy for name in FRAMEWORKS)
