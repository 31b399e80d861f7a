"""Precision: how wide each kind of number is under a precision, a framework and a sharding."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.scenario.plan import Plan
from estimator.scenario.training import Training

QUANTISED = {"fp8": 1.0, "fp4": 0.5625}
"""Bytes of a linear's operands under precisions that are bf16 but for them (fp8: Micikevicius 2022, arXiv 2209.05433,
as Transformer Engine applies it; fp4: NVFP4, a scale of one byte for 16 numbers, NVIDIA 2025, arXiv 2509.25149)."""

PRECISION_AWARE = "adamw-bf16"


@dataclass(frozen=True, kw_only=True)
class ByteWidths:
    """Widths in bytes of what a precision keeps, and whether autocast casts between them.

    ``compute``: operands of matrix products; ``residual``: the stream between blocks; ``state``: parameters,
    gradients and each Adam moment as the framework keeps them; ``peak``: which peak the products run at. Under
    ``QUANTISED`` ones operands of linears alone are narrower (``linear``) and run at another peak (``linear_peak``).
    """

    compute: float
    residual: float
    parameter: float
    gradient: float
    optimizer: float
    autocast: bool
    peak: str
    linear: float
    linear_peak: str

    @property
    def quantised(self) -> bool:
        """Whether linears multiply narrower numbers than the rest of the network."""
        return self.linear < self.compute

    @property
    def operand_bytes(self) -> dict[str, float]:
        """Bytes of one operand of a matrix product, by the peak that it runs at."""
        return {self.peak: self.compute, self.linear_peak: self.linear}


def precision_aware(training: Training) -> bool:
    """Whether Megatron-Core's precision-aware optimizer updates: 2-byte gradients, moments and rests of masters."""
    traits = training.traits
    narrow = training.precision not in ("fp32", "tf32")
    return training.optimizer == PRECISION_AWARE and traits.master_weights and traits.in_place_buffers and narrow


def byte_widths(training: Training, plan: Plan) -> ByteWidths:
    """Tell how wide each kind of number is.

    - fp32, tf32: everything 4 bytes. bf16: everything 2, as plain PyTorch keeps it.
    - fp16-amp, bf16-amp under DDP or ZeRO-1/2: fp32 parameters and residual stream, autocast at every linear.
    - the same under ZeRO-3/FSDP: FSDP's mixed precision: fp32 shards, gathered and computed in 2 bytes.
    - frameworks with wide states: as under FSDP's mixed precision, in bf16, fp8 and fp4, too.
    - frameworks with master weights: 2-byte parameters and residual; fp32 main gradients, weights and moments; 2-byte
      gradients where the optimizer is precision-aware.
    - fp8 and all in ``QUANTISED``: what bf16 keeps under the same framework; linears multiply narrower copies.
    """
    peak = training.precision
    linear, linear_peak = 2.0, peak
    if peak in QUANTISED:
        peak, linear = "bf16", QUANTISED[peak]
    if peak in ("fp32", "tf32"):
        widths = (4.0, 4.0, 4.0, 4.0, 8.0, False)
        linear = 4.0
    elif training.traits.master_weights:
        widths = (2.0, 2.0, 2.0, 2.0 if precision_aware(training) else 4.0, 12.0, False)
    elif training.traits.wide_states and (peak == "bf16" or plan.sharding in ("zero3", "fsdp")):
        widths = (2.0, 2.0, 4.0, 4.0, 8.0, False)
    elif peak == "bf16" or training.traits.lower_bound:
        widths = (2.0, 2.0, 2.0, 2.0, 4.0, False)
    elif plan.sharding in ("zero3", "fsdp"):
        widths = (2.0, 2.0, 4.0, 4.0, 8.0, False)
    else:
        widths = (2.0, 4.0, 4.0, 4.0, 8.0, True)
    compute, residual, parameter, gradient, optimizer, autocast = widths
    return ByteWidths(
        compute=compute,
        residual=residual,
        parameter=parameter,
        gradient=gradient,
        optimizer=optimizer,
        autocast=autocast,
        peak=peak,
        linear=linear,
        linear_peak=linear_peak,
    )
