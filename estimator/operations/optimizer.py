"""Optimizer: the kernels that run once per step: the optimizer, and the adding of one more micro-batch's gradients."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.operations.aten.optimizer import CHUNK_ELEMENTS, CHUNKS
from estimator.operations.op import Op, kernels
from estimator.scenario.arrays import maximum
from estimator.scenario.breakdown import Category
from estimator.scenario.precision import ByteWidths, precision_aware
from estimator.scenario.training import Training
from estimator.scenario.units import Number


@dataclass(frozen=True, kw_only=True)
class Update:
    """How PyTorch runs an optimizer: accesses per parameter, of its width but for ``bytes``; in how many kernels.

    ``moments``: values of state per parameter; ``moment_bytes``: the width of each, 0 where it is the framework's own.
    ``foreach``: each kernel runs over all tensors, not over one. ``temporaries``: the new values are kept apart.
    """

    accesses: float
    bytes: float = 0.0
    passes: float = 1.0
    moments: float = 0.0
    moment_bytes: float = 0.0
    foreach: bool = True
    temporaries: bool = False
    flops: float = 2.0


UPDATES = {
    # decay 2, lerp 3, scale 2, addcmul 3 (its factors are the gradient twice), sqrt 2, div 2, + eps 2, addcdiv 4
    "adamw": Update(accesses=20, passes=8, moments=2, temporaries=True, flops=12),
    # One kernel a tensor: gradient and parameter, both moments read and written, a scale for 2 048 numbers (Dettmers
    # 2021, arXiv 2110.02861, section 2; bitsandbytes)
    "adamw-8bit": Update(accesses=3, bytes=4, moments=2, moment_bytes=1 + 4 / 2048, foreach=False, flops=12),
    # The same with moments in bf16, but for Megatron's (below)
    "adamw-bf16": Update(accesses=3, bytes=8, moments=2, moment_bytes=2, foreach=False, flops=12),
    # Tensor by tensor in fp32: square 2, + eps 2, means of rows and columns 2, their product 1, times the gradient 3,
    # its norm 1, clipped 2, scaled 2, subtracted 3 (Shazeer 2018, arXiv 1804.04235, algorithm 4)
    "adafactor": Update(accesses=0, bytes=18 * 4, passes=14, foreach=False, temporaries=True, flops=12),
    "sgd": Update(accesses=3),
}


REMAINDER_BYTES = 2.0
"""What Megatron-Core's precision-aware optimizer keeps of a master weight: the bits that a bf16 parameter lacks
(store_param_remainders in megatron/core/optimizer/optimizer_config.py)."""
WIDENED_BYTES = 8.0
"""Copies per parameter of both moments in fp32, which Transformer Engine's FusedAdam makes of a whole group before it
updates any of it (get_unscaled_state in transformer_engine/pytorch/optimizers/fused_adam.py)."""


def moment_bytes(training: Training, own_bytes: float) -> float:
    """Bytes per parameter of an optimizer's moments, each of which the framework keeps in ``own_bytes``."""
    update = UPDATES[training.optimizer]
    return update.moments * (update.moment_bytes or own_bytes)


def fuses_update(training: Training) -> bool:
    """Whether the update is one pass, which keeps no new value apart: the framework's own, or torch's if asked for."""
    asked = training.optimizer_kernel == "fused" and UPDATES[training.optimizer].foreach
    return training.traits.fused_optimizer or asked


def chooses_kernel(training: Training) -> bool:
    """Whether PyTorch updates the parameters, in a version (2.0 on) and by an optimizer that has a fused update."""
    traits, runs = training.traits, UPDATES[training.optimizer].foreach
    return runs and traits.multi_tensor and not (traits.fused_optimizer or traits.lower_bound)


def fused_accesses(update: Update) -> float:
    """Accesses of memory for each element of a fused update: all is read, and all but the gradient written."""
    return 3 + 2 * update.moments


SET = 5.0
"""Tensors as large as a parameter that an update goes over again: itself, its gradient, both moments, what is new."""


def held_of(bytes_of_all: Number, accesses: float, once: float, tensors: Number = 1.0) -> tuple[Number, Number]:
    """Bytes that an update finds again where it goes over one of so many ``tensors`` after another, and of one set.

    Of its ``accesses`` ``once`` are those of a fused update: parameters and moments read and written, gradients read.
    """
    return (accesses - once) * bytes_of_all, SET * bytes_of_all / maximum(tensors, 1.0)


FOREACH_ELEMENTS_PER_LAUNCH = CHUNKS * CHUNK_ELEMENTS
"""torch's multi-tensor kernels take at most 320 chunks of 65 536 elements in one launch."""


def optimizer(
    training: Training, numbers: ByteWidths, parameters: Number, tensors: Number, *, multi_tensor: bool
) -> list[Op]:
    """Return the optimizer step over this rank's ``parameters`` in ``tensors`` tensors (once per step)."""
    update = UPDATES[training.optimizer]
    launches: Number
    chunk_bytes: Number = 0.0
    held: tuple[Number, Number] = (0.0, 0.0)
    if training.traits.master_weights:
        # One fused pass over fp32 weights, main gradients and moments, the 2-byte copy, and the gradients' norm.
        moments = 2.0 * moment_bytes(training, 4.0)
        stream = 12.0 + moments + (2.0 if numbers.parameter == 2 else 0.0) + 8.0
        if precision_aware(training):
            # Parameters and the rest of their masters, gradients and their norm; moments are widened, updated, narrowed
            # and copied back.
            own = update.moments * update.moment_bytes
            stream = 2 * numbers.parameter + 2 * REMAINDER_BYTES + 2 * numbers.gradient + 4 * own + 4 * WIDENED_BYTES
        launches = 4.0 + tensors / 100.0
    elif training.traits.lower_bound:
        stream, launches = 3 * numbers.parameter + 2 * moment_bytes(training, numbers.parameter), 0.0
    else:
        fused = fuses_update(training)
        accesses, passes = (fused_accesses(update), 1.0) if fused else (update.accesses, update.passes)
        stream = accesses * numbers.parameter + update.bytes
        together = multi_tensor and update.foreach
        chunk_bytes = stream * CHUNK_ELEMENTS if fused and together else 0.0
        launches = passes * (1 + parameters / FOREACH_ELEMENTS_PER_LAUNCH if together else tensors)
        if update.foreach and not together:
            held = held_of(parameters * numbers.parameter, accesses, fused_accesses(update), tensors)
    return [
        *_before_update(training, numbers, parameters, tensors),
        kernels(
            training.optimizer,
            "optimizer",
            "optimizer",
            elements=parameters,
            stream=stream,
            launches=launches,
            flops_per_element=update.flops,
            category=Category.OPTIMIZER,
            chunk_bytes=chunk_bytes,
            held=held,
            apart=update.foreach and training.optimizer_kernel == "for-loop",
        ),
    ]


def _before_update(training: Training, numbers: ByteWidths, parameters: Number, tensors: Number) -> list[Op]:
    """Return what goes over the gradients before an update that is no one fused pass: a loss scale, and clipping.

    Under a loss scale gradients are divided by it and looked through, in place, by a kernel over all tensors
    (torch.amp.GradScaler). Clipping reads them for their norm, then reads and writes them (clip_grad_norm_), tensor by
    tensor where the optimizer's kernels are.
    """
    traits = training.traits
    if traits.master_weights or traits.lower_bound:
        return []
    together = 1 + parameters / FOREACH_ELEMENTS_PER_LAUNCH
    each = together if traits.multi_tensor else tensors
    found = []
    if training.precision == "fp16-amp":
        found.append(("loss scale", 2 * numbers.gradient, together))
    if traits.clips_gradients:
        found += [("gradient norm", numbers.gradient, each), ("gradient clipping", 2 * numbers.gradient, each)]
    return [
        kernels(name, "optimizer", "optimizer", elements=parameters, stream=stream, launches=launches,
                flops_per_element=1, category=Category.OPTIMIZER)
        for name, stream, launches in found
    ]  # fmt: skip


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
