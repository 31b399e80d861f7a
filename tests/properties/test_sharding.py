"""What ZeRO saves: states fall with every stage; the whole peak does too, but for the buffers that sharding needs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from estimator.communication.data import shares
from estimator.estimate.estimate import Memory, estimate
from estimator.scenario.parameters import embedding_parameters
from estimator.scenario.plan import SHARDINGS
from estimator.scenario.scenario import Scenario
from tests.properties.scenarios import scenarios


@given(st.integers(1, 10_000))
def test_each_stage_keeps_no_more_of_any_kind_than_the_one_before(dp):
    order = [shares(sharding, dp) for sharding in ("ddp", "zero1", "zero2", "zero3")]
    for before, after in pairwise(order):
        assert after.parameters <= before.parameters
        assert after.gradients <= before.gradients
        assert after.optimizer <= before.optimizer
    assert shares("fsdp", dp) == shares("zero3", dp)


def memories(scenario: Scenario) -> dict[str, Memory]:
    return {
        sharding: estimate(replace(scenario, plan=replace(scenario.plan, sharding=sharding)), interval=False).memory
        for sharding in SHARDINGS
    }


@given(scenarios(pp=1, shard_ranks=0))
@settings(max_examples=80, deadline=None)
def test_the_peak_falls_but_for_communication_buffers(scenario):
    # Under autocast FSDP also changes the widths of activations, which is another comparison.
    assume(not scenario.training.precision.endswith("amp") or scenario.training.framework in ("megatron", "xla"))
    found = memories(scenario)
    peak = {sharding: memory.peak_bytes for sharding, memory in found.items()}
    rounding = 1 + 1e-9
    # ZeRO-1 swaps DDP's buckets, a copy of all gradients, for two buckets of the given size, or for this rank's parts
    # beside the last bucket, which is the embedding's gradient where that is larger.
    table = 4 * embedding_parameters(scenario.model, scenario.training.seq_len)
    last = 2 * scenario.plan.bucket_bytes + table
    assert peak["zero1"] <= (peak["ddp"] + found["zero1"].by_kind["communication"] + last) * rounding
    # ZeRO-2 has two buckets at a time, ZeRO-1 all of them.
    assert peak["zero2"] <= (peak["zero1"] + last) * rounding
    # ZeRO-3 needs room for gathered parameters and for the whole gradients of a block, and of what is outside of all;
    # what it holds beyond ZeRO-2 is at most that.
    outside = found["zero3"].by_kind["communication"] + found["zero3"].by_kind["gradients"]
    assert peak["zero3"] <= (peak["zero2"] + outside) * rounding
    # Resharding after forward gathers two blocks at a time in place of all, but the root unit once more.
    assert peak["fsdp"] <= (peak["zero3"] + found["fsdp"].by_kind["communication"]) * rounding


# Experts that are not divided over tp have copies there, which share their states.
@given(scenarios(dp=1, cp=1, experts=False, shard_ranks=0))
@settings(max_examples=40, deadline=None)
def test_sharding_over_one_rank_changes_no_memory(scenario):
    assume(not scenario.training.precision.endswith("amp") or scenario.training.framework in ("megatron", "xla"))
    assert len({memory.peak_bytes for memory in memories(scenario).values()}) == 1
