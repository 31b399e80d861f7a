"""Recorded host: the time that a traced program's calls, and the gradients that it hands over, take its host."""

from __future__ import annotations

from estimator.cost.efficiency import Efficiencies
from estimator.scenario.arrays import maximum
from estimator.scenario.breakdown import Phase
from estimator.scenario.units import Number


def recorded_launch_s(
    phase: str,
    launches: float,
    e: Efficiencies,
    *,
    compiled: bool,
    again: bool,
    dispatches: float = 0.0,
    library: bool = False,
    modules: float = 0.0,
    saved: bool = False,
    bare: bool = False,
) -> Number:
    """Host time of one recorded call that launches ``launches`` kernels, with all that Python does around it.

    Forward it costs what ``launch_s`` says for its share of ``dispatches``, the ops that the host went through for it,
    where they are known, else for its first kernel; backward, where nodes of autograd go through ops without Python,
    always for that; further kernels, as those of an optimizer, which no autograd records, cost a bare launch.
    ``again``: a forward op that backward runs once more. ``library``: it stands in Hugging Face's modules, of which the
    host entered ``modules`` since the call before, not in lean ones. ``saved``: backward runs it again, so that hooks
    keep what it saves. ``bare``: nothing but launches, below Python and autograd.
    """
    if phase == Phase.OPTIMIZER:
        return launches * e.host_tensor_s
    if bare:
        return launches * e.host_launch_s
    forward = phase == Phase.FORWARD or again
    first: float = 1.0 if launches else 0.0
    if compiled:
        each = e.host_fused_forward_s if forward else e.host_fused_backward_s
        return first * each + maximum(launches - 1.0, 0.0) * e.host_tensor_s
    further = maximum(launches - 1.0, 0.0) * (e.host_launch_s if dispatches else e.host_tensor_s)
    if not forward:
        each = e.host_backward_s * (e.host_library_backward_factor if library else 1.0)
        return (1.0 if dispatches else first) * each + further
    ops = dispatches / e.host_forward_dispatches_per_kernel if dispatches else first
    if library:
        ops = ops * e.host_library_factor + modules * e.host_module_ops / e.host_forward_dispatches_per_kernel
    if saved or again:
        hooks = e.host_saved_ops if saved else e.host_saved_backward_ops
        ops = ops + hooks / e.host_forward_dispatches_per_kernel
    return ops * e.host_forward_s + further


def handed_over_s(gradients: Number, e: Efficiencies, *, library: bool) -> Number:
    """Host time of backward for handing ``gradients`` parameter tensors theirs, beside the kernels that make them."""
    return (
        gradients
        * e.host_gradient_kernels
        * recorded_launch_s(Phase.BACKWARD, 1.0, e, compiled=False, again=False, dispatches=1.0, library=library)
    )
