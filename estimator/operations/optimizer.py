"""Optimizer: the kernels that run once per step: the optimizer, and the adding of one more micro-batch's gradients."""

from __future__ import annotations

from estimator.operations.op import Op, kernels
from estimator.scenario.breakdown import Category
from estimator.scenario.precision import ByteWidths
from estimator.scenario.training import Training
from estimator.scenario.units import Number

ADAMW_ACCESSES = 20
"""Accesses per parameter of foreach AdamW: decay 2, lerp 3, scale 2, addcmul 3 (its factors are the gradient twice),
sqrt 2, div 2, + eps 2, addcdiv 4."""
ADAMW_PASSES = 8
FOREACH_ELEMENTS_PER_LAUNCH = 320 * 65536
"""torch's multi-tensor kernels take at most 320 chunks of 65 536 elements in one launch."""


def optimizer(
    training: Training, numbers: ByteWidths, parameters: Number, tensors: Number, *, multi_tensor: bool
) -> list[Op]:
    """Return the optimizer step over this rank's ``parameters`` in ``tensors`` tensors (once per step)."""
    adam = training.optimizer == "adamw"
    launches: Number
    if training.traits.master_weights:
        # One fused pass over fp32 weights, main gradients and moments, the 2-byte copy, and the gradients' norm.
        stream = (28.0 if adam else 12.0) + (2.0 if numbers.parameter == 2 else 0.0) + 8.0
        launches = 4.0 + tensors / 100.0
    elif training.traits.lower_bound:
        stream, launches = (7 if adam else 3) * numbers.parameter, 0.0
    else:
        passes = ADAMW_PASSES if adam else 1
        stream = (ADAMW_ACCESSES if adam else 3) * numbers.parameter
        launches = passes * (1 + parameters / FOREACH_ELEMENTS_PER_LAUNCH) if multi_tensor else passes * tensors
    return [
        kernels(
            training.optimizer,
            "optimizer",
            "optimizer",
            elements=parameters,
            stream=stream,
            launches=launches,
            flops_per_element=12 if adam else 2,
            category=Category.OPTIMIZER,
        )
    ]


def gradient_accumulation(training: Training, numbers: ByteWidths, parameters: Number, tensors: Number) -> list[Op]:
    """Return the adds of one more micro-batch's gradients: two reads and a write each, unless products add them."""
    if not training.traits.accumulates:
        return []
    return [
        kernels(
            "gradient accumulation",
            "optimizer",
            "backward",
            elements=parameters,
            stream=3 * numbers.gradient,
            launches=tensors,
            flops_per_element=1,
        )
    ]
