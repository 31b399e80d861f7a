"""Stage pass: forward and backward of one micro-batch on one stage, device and host side by side."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.arrays import maximum, where
from estimator.columns import picked
from estimator.cost.host import phase_wait_s
from estimator.efficiency import Efficiencies
from estimator.parallel.pipeline import StageTimes
from estimator.part import Part
from estimator.units import Number


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """Seconds of one micro-batch on one stage by phase: device, exposed collectives in line, waits for the host."""

    part: Part
    wait_forward_s: Number
    wait_backward_s: Number
    lead_s: Number
    transfer_forward_s: Number = 0.0
    transfer_backward_s: Number = 0.0

    @property
    def backward_s(self) -> Number:
        """Device time of backward: towards inputs and towards weights."""
        return self.part.input_s + self.part.weight_s

    @property
    def products_forward_frac(self) -> Number:
        """Share of products and attention in forward's window."""
        return _share(self.part.products_forward_s, self.window_forward_s)

    @property
    def products_backward_frac(self) -> Number:
        """Share of products and attention in backward's window."""
        return _share(self.part.products_backward_s, self.window_backward_s)

    @property
    def window_forward_s(self) -> Number:
        """Time in forward beside which something else may run."""
        return self.part.forward_s + self.wait_forward_s

    @property
    def window_backward_s(self) -> Number:
        """Time in backward beside which something else may run."""
        return self.backward_s + self.wait_backward_s

    @property
    def times(self) -> StageTimes:
        """What a pipeline schedule moves around: forward, backward towards inputs, backward towards weights."""
        part = self.part
        return StageTimes(
            forward_s=self.window_forward_s + part.inline_forward_s + self.transfer_forward_s,
            input_s=part.input_s + self.wait_backward_s + part.inline_backward_s + self.transfer_backward_s,
            weight_s=part.weight_s,
        )


def stage_pass(part: Part, e: Efficiencies, *, offload_s: Number = 0.0) -> Pass:
    """Put host and device of a stage side by side.

    The device waits where the host launches more slowly than it works, and a gap at every launch. ``offload_s``: moving
    the kept activations to host memory (and back in backward) takes that long; what compute cannot hide shows.
    """
    gap_forward = part.launches_forward * e.kernel_gap_s
    gap_backward = part.launches_backward * e.kernel_gap_s
    backward_s = part.input_s + part.weight_s
    waited, lead = phase_wait_s(part.forward_s + part.inline_forward_s + gap_forward, part.host_forward_s, 0.0)
    wait_forward = waited + gap_forward
    waited, lead = phase_wait_s(backward_s + part.inline_backward_s + gap_backward, part.host_backward_s, lead)
    wait_backward = waited + gap_backward
    stays = isinstance(offload_s, float) and offload_s == 0.0
    return Pass(
        part=part,
        wait_forward_s=wait_forward,
        wait_backward_s=wait_backward,
        lead_s=lead,
        transfer_forward_s=0.0 if stays else maximum(offload_s - part.forward_s - wait_forward, 0.0),
        transfer_backward_s=0.0 if stays else maximum(offload_s - backward_s - wait_backward, 0.0),
    )


def _share(part: Number, whole: Number) -> Number:
    if isinstance(whole, (int, float)) and isinstance(part, (int, float)):
        return part / whole if whole > 0 else 0.0
    return where(whole > 0, part / maximum(whole, 1e-30), 0.0)


def slowest(passes: list[Pass]) -> tuple[Number, Pass]:
    """Return the index of the stage that sets the pace and its numbers (of the first one among equals)."""
    best, index = passes[0], 0
    if all(isinstance(p.times.seconds, (int, float)) for p in passes):
        for i, found in enumerate(passes[1:], 1):
            if found.times.seconds > best.times.seconds:
                best, index = found, i
        return index, best
    chosen: Number = 0.0
    for i, found in enumerate(passes[1:], 1):
        later = found.times.seconds > best.times.seconds
        chosen = where(later, float(i), chosen)
        best = picked(later, found, best)
    return chosen, best
