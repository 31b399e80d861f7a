"""Micro-batch: what one costs in a part of the network and on a stage: device, host, and collectives in line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimator.communication.message import Message, PricedMessage
from estimator.cost.device_time import DIRECTIONS, PRODUCTS_AND_ATTENTION, Work, runs_again
from estimator.cost.efficiency import Efficiencies
from estimator.cost.host import (
    BIAS_PRODUCTS,
    HEAD_NORM_PRODUCTS,
    SENT_AFTER_OPS,
    SENT_OPS,
    blocking_collective_s,
    exchanges_s,
    handed_on_s,
    launching_s,
    phase_wait_s,
    plain_eager,
    plain_s,
    running_again_s,
    sent_s,
    split_norms_s,
    split_products_s,
)
from estimator.scenario.arrays import maximum, minimum, picked, where
from estimator.scenario.training import Training
from estimator.scenario.units import Number

Scale = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Seconds per micro-batch; ``products`` counts matrix products, ``split_s`` is what DTensor takes of the host's,
    ``summed_norms`` counts parameters of norms to whose gradients each tensor parallel rank has a part.

    ``again_s``, ``host_again_s``: device and host of what weights run again where each gets its gradient by itself.
    ``reads``: how often in forward the host waits for what a router chose; ``read_host_s``, ``read_device_s``: what it
    then takes to launch the experts, and the device to run them; ``sent_after_s``: for how long the device has nothing
    to do before, as the host first sends their rows.
    """

    forward_s: Number = 0.0
    input_s: Number = 0.0
    weight_s: Number = 0.0
    products_forward_s: Number = 0.0
    products_backward_s: Number = 0.0
    host_forward_s: Number = 0.0
    host_backward_s: Number = 0.0
    launches_forward: Number = 0.0
    launches_backward: Number = 0.0
    products: Number = 0.0
    split_s: Number = 0.0
    summed_norms: Number = 0.0
    again_s: Number = 0.0
    host_again_s: Number = 0.0
    inline_forward_s: Number = 0.0
    inline_backward_s: Number = 0.0
    reads: Number = 0.0
    read_host_s: Number = 0.0
    read_device_s: Number = 0.0
    sent_after_s: Number = 0.0


NAMES = tuple(f.name for f in fields(Part))


def part_of(
    work: Work, messages: Sequence[Message], training: Training, e: Efficiencies, scale: Scale | None = None,
    norm_tensors: float = 1.0,
) -> Part:  # fmt: skip
    """Add a part up: device, and the host, which blocks in the part's messages.

    ``scale`` has, for each component of ``device_time.COMPONENTS``, the factors of all variants. ``norm_tensors``:
    parameters of a norm.
    """
    (forward, towards_input, weight), (forward_p, input_p, weight_p) = _sums(work, scale)
    launches, views, plain = work.launches, work.views, work.plain
    plain_forward, plain_again = plain.get("forward", 0.0), plain.get("recomputed", 0.0)
    plain_back = plain.get("input", 0.0) + plain.get("weight", 0.0)
    host: dict[str, Number] = {"forward": 0.0, "backward": 0.0}
    for message in messages:
        host[message.phase] += blocking_collective_s(training, message.host, e) * message.count
        if training.traits.dtensor:
            host[message.phase] += message.batches * message.count * handed_on_s(message.kind, e)
            if message.axis == "tp":
                host[message.phase] += exchanges_s(training, message.host, message.count, e)
    # The ranks that meet in its collectives are those that its products are split over.
    ranks: Number = 1.0
    for message in messages:
        if message.axis == "tp":
            ranks = maximum(ranks, message.host)
    split = split_products_s(training, ranks, work.products + BIAS_PRODUCTS * work.biased, e)
    again = split_products_s(training, ranks, work.products_again, e)
    norms_s: Number = 0.0
    summed_norms = work.head_norms
    # Where tensor parallel ranks gather or scatter, norms have a share of the sequence; a head gathers behind its own.
    if any(message.axis == "tp" and message.kind in ("reduce-scatter", "all-gather") for message in messages):
        summed_norms = summed_norms + norm_tensors * work.norms
        for phase, launched in work.norm_launches.items():
            each = split_norms_s(training, ranks, norm_tensors * work.norms, launched, e)
            host[phase] += each
            norms_s = norms_s + each
    redone_heads = work.head_norms_again * HEAD_NORM_PRODUCTS["forward"]
    for phase, more in (("forward", 0.0), ("backward", redone_heads)):
        each = split_products_s(training, ranks, work.head_norms * HEAD_NORM_PRODUCTS[phase] + more, e)
        host[phase] += each
        norms_s = norms_s + each
    if plain_eager(training):
        for phase, new_s in work.new_s.items():
            host[phase] += new_s
    for phase, ops in SENT_OPS.items():
        host[phase] += sent_s(training, _expert_ranks(messages), ops, e)
    redone = launches["recomputed"], views.get("recomputed", 0.0)
    entered_s, run_again_s = running_again_s(training, work.regions, work.packed, *redone, e)
    host["forward"] += entered_s
    redone_host_s = (
        launching_s(training, "forward", *redone, e) + plain_s("forward", plain_again, e) + again + run_again_s
    )
    often = 0.0 if training.compile else runs_again(work)  # a compiled block is one node of autograd
    reads = _reads(work, messages, training)
    return Part(
        forward_s=forward,
        input_s=towards_input,
        weight_s=weight,
        products_forward_s=forward_p,
        products_backward_s=input_p + weight_p,
        host_forward_s=launching_s(training, "forward", launches["forward"], views.get("forward", 0.0), e)
        + plain_s("forward", plain_forward, e)
        + host["forward"]
        + split,
        host_backward_s=redone_host_s
        + launching_s(
            training,
            "backward",
            launches["input"] + launches["weight"],
            views.get("input", 0.0) + views.get("weight", 0.0),
            e,
        )
        + plain_s("backward", plain_back, e)
        + host["backward"]
        + split,
        launches_forward=launches["forward"] + plain_forward,
        launches_backward=launches["recomputed"] + launches["input"] + launches["weight"] + plain_again + plain_back,
        products=work.products,
        split_s=2.0 * split + again + norms_s,
        summed_norms=summed_norms,
        again_s=often * _scaled(work.redone_s, scale),
        host_again_s=often * redone_host_s,
        reads=reads,
        read_host_s=reads
        * (launching_s(training, "forward", work.expert_calls, 0.0, e) + work.new_s.get("forward", 0.0)),
        sent_after_s=reads * sent_s(training, _expert_ranks(messages), SENT_AFTER_OPS, e),
        read_device_s=0.0 if isinstance(reads, float) and not reads else reads * _scaled(work.experts_s, scale),
    )


def _reads(work: Work, messages: Sequence[Message], training: Training) -> Number:
    """Once where the host must know how many rows each expert gets: to loop over them, or to send them."""
    if not plain_eager(training) or (isinstance(work.expert_calls, float) and not work.expert_calls):
        return 0.0
    if not training.groups_experts:
        return 1.0
    return where(_expert_ranks(messages) > 1, 1.0, 0.0)


def _expert_ranks(messages: Sequence[Message]) -> Number:
    """Ranks that a part's rows are sent to."""
    ranks: Number = 1.0
    for message in messages:
        ranks = maximum(ranks, message.sized)
    return ranks


def with_messages(part: Part, priced: Sequence[PricedMessage]) -> Part:
    """Put what shows of a part's messages in line with its compute."""
    if not priced:
        return part
    inline: dict[str, Number] = {"forward": 0.0, "backward": 0.0}
    sent_s: Number = 0.0
    for one in priced:
        inline[one.message.phase] += one.exposed_s
        if one.message.axis == "ep" and one.message.phase == "forward":
            sent_s += one.exposed_s
    return replace(part, inline_forward_s=inline["forward"], inline_backward_s=inline["backward"],
                   read_device_s=part.read_device_s + part.reads * sent_s)  # fmt: skip


def total(parts: list[tuple[Part, Number]]) -> Part:
    """Add parts, each as often as it runs."""
    return Part(**{name: _total(parts, name) for name in NAMES})


def _total(parts: list[tuple[Part, Number]], name: str) -> Any:
    found: Number | None = None
    for part, times in parts:
        value = getattr(part, name)
        # Arrays of a few numbers take as long as their number of operations
        often = value if isinstance(times, float) and times == 1.0 else value * times
        found = often if found is None else found + often
    return 0.0 if found is None else found


def _sums(work: Work, scale: Scale | None) -> tuple[list[Number], list[Number]]:
    """Return seconds of each direction: of all components, and of products and attention (all but plain kernels)."""
    columns = [work.seconds[direction] for direction in DIRECTIONS]
    if scale is None:
        return [sum(column) for column in columns], [
            sum(column[place] for place in PRODUCTS_AND_ATTENTION) for column in columns
        ]
    table = np.array(columns, dtype=float)
    return list(table @ scale), list(table[:, PRODUCTS_AND_ATTENTION] @ scale[list(PRODUCTS_AND_ATTENTION)])


def _scaled(column: Sequence[Number], scale: Scale | None) -> Number:
    """Return the seconds of all components together."""
    return sum(column) if scale is None else np.array(column, dtype=float) @ scale


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """Seconds of one micro-batch on one stage by phase: device, exposed collectives in line, waits for the host.

    ``wait_first_s``: what forward of the first micro-batch waits, beside gaps and routers. ``filled_s``: how much
    shorter the wait in backward is by kernels that add gradients of micro-batches; ``adding_s``: device time of those
    of one further micro-batch, which no pass has.
    """

    part: Part
    wait_forward_s: Number
    wait_backward_s: Number
    lead_s: Number
    transfer_forward_s: Number = 0.0
    transfer_backward_s: Number = 0.0
    wait_first_s: Number = 0.0
    filled_s: Number = 0.0
    adding_s: Number = 0.0

    @property
    def backward_s(self) -> Number:
        """Device time of backward: towards inputs and towards weights."""
        return self.part.input_s + self.part.weight_s

    @property
    def device_s(self) -> Number:
        """Device time of this pass, with collectives in line."""
        part = self.part
        return part.forward_s + self.backward_s + part.inline_forward_s + part.inline_backward_s

    @property
    def host_share(self) -> float:
        """Host over device time of this pass; for plain numbers."""
        part = self.part
        return float((part.host_forward_s + part.host_backward_s) / maximum(self.device_s, 1e-30))

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
        return self.backward_s + self.wait_backward_s + self.filled_s

    def times_ahead(self, e: Efficiencies) -> StageTimes:
        """What a schedule moves around where no host is late: ``times`` with no wait but the gaps between kernels."""
        part, times = self.part, self.times
        forward_s, backward_s = part.launches_forward * e.kernel_gap_s, part.launches_backward * e.kernel_gap_s
        return replace(
            times,
            forward_s=times.forward_s - self.wait_forward_s + forward_s,
            input_s=times.input_s - self.wait_backward_s + backward_s,
        )

    @property
    def times(self) -> StageTimes:
        """What a pipeline schedule moves around: forward, backward towards inputs, backward towards weights."""
        part = self.part
        return StageTimes(
            forward_s=self.window_forward_s + part.inline_forward_s + self.transfer_forward_s,
            input_s=part.input_s + self.wait_backward_s + part.inline_backward_s + self.transfer_backward_s,
            weight_s=part.weight_s,
        )


def stage_pass(
    part: Part,
    e: Efficiencies,
    *,
    head: Part | None = None,
    offload_s: Number = 0.0,
    in_a_row: Number = 1.0,
    added_s: Number = 0.0,
) -> Pass:
    """Put host and device of a stage side by side.

    The device waits where the host launches more slowly than it works, and a gap at every launch. ``head``: what of
    ``part`` ends forward and begins backward, whose long kernels give the host a lead that blocks before it had not,
    and those after it have. Of ``in_a_row`` micro-batches, between which the host waits for nothing, all but the first
    begin with the lead that backward of the one before has left; waits are the mean of all. ``offload_s``: moving the
    kept activations to host memory (and back in backward) takes that long; what compute cannot hide shows.
    ``added_s``: device time of kernels in backward that are no part of a pass, as they add gradients of micro-batches;
    the host launches them among the others.
    """
    gap_forward = part.launches_forward * e.kernel_gap_s
    gap_backward = part.launches_backward * e.kernel_gap_s
    forward, backward = _sides(part, e)
    head_forward, head_backward = _sides(head, e) if head else ((0.0, 0.0), (0.0, 0.0))
    first, lead = _waits_s(_less(forward, head_forward), head_forward)
    # Behind a router the host has no lead: the device waits for the experts, whatever either did before. Only what the
    # host gained behind the last router is left for backward.
    read_s = part.sent_after_s + maximum(part.read_host_s - part.read_device_s, 0.0)
    late = maximum(first, read_s)
    lead = lead / maximum(part.reads, 1.0)
    blocks = _less(backward, head_backward)
    waits_s, _ = _waits_s(head_backward, blocks, lead)
    waited, lead = _waits_s(head_backward, (blocks[0] + added_s, blocks[1]), lead)
    wait_backward = waited + gap_backward
    wait_forward = late + gap_forward - minimum(late - read_s, lead) * (in_a_row - 1.0) / in_a_row
    stays = isinstance(offload_s, float) and offload_s == 0.0
    return Pass(
        part=part,
        wait_forward_s=wait_forward,
        wait_backward_s=wait_backward,
        lead_s=lead,
        wait_first_s=first,
        filled_s=waits_s - waited,
        transfer_forward_s=0.0 if stays else maximum(offload_s - part.forward_s - wait_forward, 0.0),
        transfer_backward_s=0.0 if stays else maximum(offload_s - part.input_s - part.weight_s - wait_backward, 0.0),
    )


Sides = tuple[Number, Number]
"""Seconds of the device, with its gaps and collectives in line, and of the host."""


def _sides(part: Part, e: Efficiencies) -> tuple[Sides, Sides]:
    """Both sides of a part's forward and backward."""
    forward_s = part.forward_s + part.inline_forward_s + part.launches_forward * e.kernel_gap_s
    backward_s = part.input_s + part.weight_s + part.inline_backward_s + part.launches_backward * e.kernel_gap_s
    return (forward_s, part.host_forward_s), (backward_s, part.host_backward_s)


def _less(whole: Sides, of: Sides) -> Sides:
    return whole[0] - of[0], whole[1] - of[1]


def _waits_s(first: Sides, then: Sides, lead_s: Number = 0.0) -> tuple[Number, Number]:
    """What the device waits for the host in two pieces, one after the other, and the host's lead behind them."""
    waited, lead_s = phase_wait_s(*first, lead_s)
    further, lead_s = phase_wait_s(*then, lead_s)
    return waited + further, lead_s


def _share(part: Number, whole: Number) -> Number:
    if isinstance(whole, (int, float)) and isinstance(part, (int, float)):
        return part / whole if whole > 0 else 0.0
    return where(whole > 0, part / maximum(whole, 1e-30), 0.0)


def slowest(passes: list[Pass]) -> tuple[Number, Pass]:
    """Return the index of the critical stage and its numbers (of the first one among equals)."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class StageTimes:
    """Seconds of one micro-batch on one rank, over all its chunks: forward, backward to input and weights."""

    forward_s: Number
    input_s: Number
    weight_s: Number

    @property
    def seconds(self) -> Number:
        """Forward and both halves of backward."""
        return self.forward_s + self.input_s + self.weight_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Stages:
    """The first stage, one that stands for all between, the last, and how many there are; two have none between."""

    first: StageTimes
    middle: StageTimes
    last: StageTimes
    count: Number

    @property
    def slowest_s(self) -> Number:
        """Seconds of the slowest."""
        ends_s = maximum(self.first.seconds, self.last.seconds)
        return maximum(ends_s, where(self.count > 2, self.middle.seconds, ends_s))

    @property
    def total(self) -> StageTimes:
        """Seconds of all together."""
        between = self.count - 2
        return StageTimes(
            forward_s=self.first.forward_s + between * self.middle.forward_s + self.last.forward_s,
            input_s=self.first.input_s + between * self.middle.input_s + self.last.input_s,
            weight_s=self.first.weight_s + between * self.middle.weight_s + self.last.weight_s,
        )
