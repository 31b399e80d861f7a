"""Host: the time Python, autograd and the driver need to launch a phase, and when the device waits for it."""

from __future__ import annotations

from estimator.cost.efficiency import Efficiencies
from estimator.scenario.arrays import maximum
from estimator.scenario.breakdown import Phase
from estimator.scenario.hardware import Chip
from estimator.scenario.precision import ByteWidths
from estimator.scenario.training import Training
from estimator.scenario.units import Number


def launch_s(training: Training, phase: str, e: Efficiencies) -> float:
    """Host time per device kernel launched: whole-module overhead (views, autograd, dispatch), not a bare launch."""
    host = training.traits.host
    if host == "eager" and training.compile:
        host = "fused"
    if host == "none":
        return 0.0
    forward = phase == "forward"
    if host == "megatron":
        return e.host_megatron_forward_s if forward else e.host_megatron_backward_s
    if host == "fused":
        return e.host_fused_forward_s if forward else e.host_fused_backward_s
    assert host == "eager", host
    return e.host_forward_s if forward else e.host_backward_s


def blocking_collective_s(training: Training, ranks: Number, e: Efficiencies) -> Number:
    """Host time per blocking collective: ranks that launch in step wait for the slowest, more so the more there are."""
    return 0.0 if training.traits.lower_bound else e.host_collective_s * (ranks - 1)


def phase_wait_s(device_s: Number, host_s: Number, lead_s: Number) -> tuple[Number, Number]:
    """Time the device waits for the host in a phase, and the lead the host carries into the next one.

    The host runs ahead while the device works: a phase lasts max(device, host − lead); what the device takes longer
    than the host becomes the lead of the next phase.
    """
    lasts = maximum(device_s, host_s - lead_s)
    return lasts - device_s, maximum(0.0, lasts + lead_s - host_s)


HOST_ADAM_BYTES = 28.0
"""Bytes of host memory that one parameter's Adam update moves: fp32 weight, gradient and two moments read, three
written (Ren 2021, arXiv 2101.06840, section 4)."""


def host_update_s(parameters: Number, numbers: ByteWidths, chip: Chip, e: Efficiencies) -> Number:
    """Time of an optimizer that lives in host memory: gradients down, update, parameters up, one after the other."""
    moved = parameters * (numbers.gradient + numbers.parameter)
    return moved / (chip.host_bytes_per_s * e.host_link_frac) + parameters * HOST_ADAM_BYTES / e.host_memory_bytes_per_s


def recorded_launch_s(
    phase: str, launches: float, e: Efficiencies, *, compiled: bool, again: bool, dispatches: float = 0.0
) -> Number:
    """Host time of one recorded call that launches ``launches`` kernels, with all that Python does around it.

    A forward op costs what ``launch_s`` says for its share of ``dispatches``, the ops that the host went through for
    it, where they are known; in backward, which no Python runs, the first kernel does. Further kernels of the same op,
    and those of an optimizer, which no autograd records, cost a bare launch. ``again``: a forward op that backward runs
    once more.
    """
    if phase == Phase.OPTIMIZER:
        return launches * e.host_tensor_s
    forward = phase == Phase.FORWARD or again
    first: float = 1.0 if launches else 0.0
    if compiled:
        each = e.host_fused_forward_s if forward else e.host_fused_backward_s
    else:
        each = e.host_forward_s if forward else e.host_backward_s
        if forward and dispatches:
            first = dispatches / e.host_dispatches_per_kernel
    return first * each + maximum(launches - 1.0, 0.0) * e.host_tensor_s
