"""Better hardware never makes a step slower, and more work never makes it faster.

Two effects of the model trade a little against each other, so the laws are tested where neither is at work:

- Communication hides behind memory-bound kernels only, and its share changes where the device waits for a host that ran
  ahead before. Hence: without overlap, or with a host that takes no time.
- Optimizer and data parallel exchange are those of the first pipeline stage, and the host's lead there is not that of
  the critical stage. Hence: for one stage, or for the pipeline without them.
- Zero-bubble schedules fill idle time with the gradients of weights; where the device waits for the host anyway, faster
  kernels leave less to fill it with. Hence: with a host that takes no time.
- One rank's host has slept when its update begins, one of several is awake. Hence, of more ranks: without what that is.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.cost.efficiency import NAMES, Efficiencies, efficiencies
from estimator.estimate.estimate import Estimate, estimate
from estimator.scenario.scenario import Scenario
from tests.properties.scenarios import scenarios

PEAKS = ("fp32_flops_per_s", "tf32_flops_per_s", "fp16_flops_per_s", "bf16_flops_per_s")
RESOURCES = ("memory bandwidth", "peak", "clock", "link", "network", "latency", "capacity")
ROUNDING = 1 + 1e-9


def better(scenario: Scenario, resource: str, factor: float) -> Scenario:
    cluster = scenario.cluster
    chip, link, network = cluster.chip, cluster.link, cluster.network
    if resource == "memory bandwidth":
        chip = replace(chip, memory_bytes_per_s=chip.memory_bytes_per_s * factor)
    elif resource == "peak":
        chip = replace(chip, **{name: getattr(chip, name) * factor for name in PEAKS})
    elif resource == "clock":
        chip = replace(chip, clock_hz=chip.clock_hz * factor)
    elif resource == "capacity":
        chip = replace(chip, memory_bytes=chip.memory_bytes * factor)
    elif resource == "link":
        link = replace(link, bytes_per_s=link.bytes_per_s * factor)
    elif resource == "network":
        network = replace(network, bytes_per_s=network.bytes_per_s * factor)
    else:
        link = replace(link, latency_s=link.latency_s / factor)
        network = replace(network, latency_s=network.latency_s / factor)
    return replace(scenario, cluster=replace(cluster, chip=chip, link=link, network=network))


def no_host(scenario: Scenario) -> Efficiencies:
    e = efficiencies(scenario.cluster.chip.efficiency)
    return replace(e, **{name: 0.0 for name in NAMES if name.startswith("host_") and not name.endswith("_per_kernel")})


@given(scenarios(pp=1, overlap=False), st.sampled_from(RESOURCES), st.floats(1, 20))
@settings(max_examples=120, deadline=None)
def test_better_hardware_never_slows_a_step(scenario, resource, factor):
    before, after = estimate(scenario), estimate(better(scenario, resource, factor))
    assert after.step_time_s <= before.step_time_s * ROUNDING
    if resource == "capacity":
        assert after.step_time_s == before.step_time_s
        assert after.memory.fits >= before.memory.fits


@given(scenarios(pp=1, overlap=True), st.sampled_from(RESOURCES), st.floats(1, 20))
@settings(max_examples=120, deadline=None)
def test_better_hardware_never_slows_a_step_that_overlaps(scenario, resource, factor):
    e = no_host(scenario)
    before, after = estimate(scenario, e), estimate(better(scenario, resource, factor), e)
    assert after.step_time_s <= before.step_time_s * ROUNDING


def pipeline_s(found: Estimate) -> float:
    """Time until the last backward is done, without optimizer."""
    return found.step_time_s - found.phases_s["optimizer"] - found.host_wait_by_phase_s["optimizer"]


# Megatron adds gradients up inside its products, so that no stage has its own accumulation.
@given(scenarios(dp=1, cp=1, ep=1, framework="megatron"), st.sampled_from(RESOURCES), st.floats(1, 20))
@settings(max_examples=100, deadline=None)
def test_better_hardware_never_slows_a_pipeline(scenario, resource, factor):
    e = no_host(scenario) if scenario.plan.schedule.startswith("zero-bubble") else None
    before, after = estimate(scenario, e), estimate(better(scenario, resource, factor), e)
    assert pipeline_s(after) <= pipeline_s(before) * ROUNDING


def with_more_micro_batches(scenario: Scenario, factor: int) -> Scenario:
    batch = scenario.training.global_batch * factor
    return replace(scenario, training=replace(scenario.training, global_batch=batch))


@given(scenarios(), st.integers(2, 4))
@settings(max_examples=60, deadline=None)
def test_more_micro_batches_take_longer_and_no_less_memory(scenario, factor):
    before, after = estimate(scenario), estimate(with_more_micro_batches(scenario, factor))
    assert after.step_time_s > before.step_time_s
    assert after.memory.peak_bytes >= before.memory.peak_bytes


# Megatron adds gradients up inside its products; elsewhere every further micro-batch pays for that, too.
@given(scenarios(framework="megatron"), st.integers(2, 4))
@settings(max_examples=60, deadline=None)
def test_more_micro_batches_share_bubble_exchange_and_optimizer(scenario, factor):
    before, after = estimate(scenario), estimate(with_more_micro_batches(scenario, factor))
    assert after.step_time_s <= factor * before.step_time_s * ROUNDING


@given(scenarios(pp=1, recompute="none", overlap=False))
@settings(max_examples=80, deadline=None)
def test_recomputation_never_gains_time(scenario):
    times = [
        estimate(replace(scenario, plan=replace(scenario.plan, recompute=recompute))).step_time_s
        for recompute in ("none", "selective", "full")
    ]
    assert times[0] <= times[1] * ROUNDING
    assert times[0] <= times[2] * ROUNDING


# Where data parallel ranks sit nearest, more of them move the tensor parallel ranks to other nodes.
@given(scenarios(dp=1, cp=1, ep=1, sharding="ddp", placement="tp-cp-pp-dp"), st.sampled_from((2, 4, 8)))
@settings(max_examples=80, deadline=None)
def test_weak_scaling_never_beats_one_rank(scenario, dp):
    wider = replace(
        scenario,
        plan=replace(scenario.plan, dp=dp),
        cluster=replace(scenario.cluster, nodes=scenario.cluster.nodes * dp),
        training=replace(scenario.training, global_batch=scenario.training.global_batch * dp),
    )
    awake = replace(efficiencies(scenario.cluster.chip.efficiency), host_optimizer_s=0.0)
    assert estimate(scenario, awake).step_time_s <= estimate(wider, awake).step_time_s * ROUNDING
