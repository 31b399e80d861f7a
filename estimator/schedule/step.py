"""Step: the critical path of one training step: device, host, exposed communication, bubble, optimizer.

The same lines price one plan and many: every quantity may be an array over plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from estimator.communication.data import buckets_of
from estimator.communication.message import PricedMessage
from estimator.communication.placement import Groups
from estimator.cost.collectives import Group, collective_s, p2p_s
from estimator.cost.efficiency import Efficiencies
from estimator.cost.host import (
    PUT_OFF,
    between_steps_s,
    bucketed_s,
    gathered_buckets_s,
    host_update_s,
    launching_s,
    one_by_one_s,
    p2p_batch_s,
    passing_s,
    phase_wait_s,
    plain_eager,
    put_off_products_s,
    puts_weights_off,
    sharded_modules_s,
    slowest_rank,
    summed_norms_s,
    waiting_ranks,
    walk_s,
    woken_s,
)
from estimator.cost.price import price
from estimator.memory.memory import StageMemory, stage_memory
from estimator.memory.put_off import PutOff
from estimator.memory.rank_memory import RankMemory
from estimator.memory.stage_layout import StageKind
from estimator.memory.stage_parameters import Policy, large_tensors, stage_parameters
from estimator.operations.op import Op
from estimator.operations.optimizer import fuses_update, gradient_accumulation, optimizer
from estimator.scenario.arrays import maximum, minimum, where
from estimator.scenario.hardware import Cluster
from estimator.scenario.plan import FOLDED, Plan
from estimator.scenario.training import Training
from estimator.scenario.units import Number
from estimator.schedule.data_overlap import data_parallel
from estimator.schedule.micro_batch import Part, Pass, Stages, StageTimes, slowest, stage_pass, total
from estimator.schedule.schedules import (
    FORMULAS,
    Bubble,
    bubble_s,
    chunks_in_flight,
    head_in_flight,
    held_up_s,
    weights_waiting,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What one micro-batch costs in each kind of block, the embedding and the head."""

    blocks: tuple[Part, ...]
    embedding: Part
    head: Part


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One plan's numbers, or those of many plans that share all choices: what the parts are put together by."""

    shard: RankMemory
    kinds: tuple[StageKind, ...]
    groups: Groups
    policy: Policy
    plan: Plan
    training: Training
    cluster: Cluster
    stages: Number
    virtual_stages: Number
    micro_batches: Number


def memory_of_stage(
    setting: Setting, kind: StageKind, in_flight: Number, workspace_bytes: Number, stage: Number = 0.0
) -> StageMemory:
    """Return the memory of a stage of a kind, counted from 0, that holds so many micro-batches at its peak."""
    return stage_memory(
        setting.shard,
        kind,
        setting.policy,
        in_flight=in_flight,
        micro_batches=setting.micro_batches,
        workspace_bytes=workspace_bytes,
        head_in_flight=head_in_flight(setting.plan.schedule, in_flight, setting.stages, setting.virtual_stages),
        chunks=setting.virtual_stages,
        chunks_in_flight=chunks_in_flight(
            setting.plan.schedule, in_flight, setting.stages, setting.micro_batches, setting.virtual_stages
        ),
        put_off=_put_off(setting, kind, in_flight, stage),
    )


def _put_off(setting: Setting, kind: StageKind, in_flight: Number, stage: Number) -> PutOff | None:
    """Return what waits with torch's stages that split backward; the first chunk of all has no inputs to go to."""
    schedule, chunks = setting.plan.schedule, setting.virtual_stages - (1.0 if kind.embedding else 0.0)
    if setting.training.traits.frees_between_stages or kind.name == "only" or schedule not in PUT_OFF:
        return None
    if kind.embedding and schedule not in FOLDED:
        return None
    waiting = weights_waiting(schedule, stage, setting.micro_batches)
    inputs = chunks * setting.micro_batches
    return PutOff(waiting=waiting, kept_inputs=inputs - maximum(in_flight - waiting - 1.0, 0.0), all_inputs=inputs)


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """Seconds of one step and what they are made of; ``critical_stage``: number of the slowest among the kinds.

    ``wait_start_s``: what the first forward of a step waits for the host, beside what every forward does.
    """

    critical_stage: Number
    one: Pass
    forward_s: Number
    backward_s: Number
    accumulation_s: Number
    optimizer_s: Number
    offload_s: Number
    inline_s: Number
    data: list[PricedMessage]
    data_s: Number
    send_each_s: Number
    sends_s: Number
    tied_s: Number
    bubble_s: Number
    wait_start_s: Number
    wait_forward_s: Number
    wait_backward_s: Number
    wait_optimizer_s: Number

    @property
    def exposed_s(self) -> Number:
        """Communication on the critical path."""
        return self.inline_s + self.data_s + self.sends_s + self.tied_s + self.offload_s

    @property
    def wait_s(self) -> Number:
        """Device time lost to the host."""
        return self.wait_start_s + self.wait_forward_s + self.wait_backward_s + self.wait_optimizer_s

    @property
    def seconds(self) -> Number:
        """The whole step."""
        return self.forward_s + self.backward_s + self.optimizer_s + self.exposed_s + self.bubble_s + self.wait_s


def stage_passes(setting: Setting, parts: Parts, e: Efficiencies) -> list[Pass]:
    """Price one micro-batch on every kind of stage."""
    return [_pass(setting, parts, kind, e) for kind in setting.kinds]


def step(setting: Setting, passes: list[Pass], e: Efficiencies, critical_stage: int | None = None) -> Step:
    """Price one step; ``critical_stage`` names the slowest stage where that is known.

    Stages: every op on the device, collectives in line, the host beside them. Pipeline: m micro-batches at the time of
    the slowest stage, and the bubble of the schedule. Then what data parallel communication cannot hide, and the
    optimizer, on the first stage, which ends its backward last.
    """
    m, plan, cluster = setting.micro_batches, setting.plan, setting.cluster
    index, one = slowest(passes) if critical_stage is None else (critical_stage, passes[critical_stage])
    bubble, send_each_s = _bubble(setting, passes, e)
    once = once_per_step(setting, setting.kinds[0])
    accumulation_s = (m - 1) * passes[0].adding_s
    data = data_parallel(setting.shard, setting.kinds[0], passes[0], plan, setting.groups, m, cluster, e)
    _, _, _, tensors, expert_tensors = stage_parameters(setting.shard, setting.kinds[0])
    # The optimizer's first kernel waits for the host to walk over all tensors, unless the host runs ahead.
    policy = setting.policy
    ranks, tp = policy.data_ranks, setting.groups.tp.ranks
    summing_s = summed_norms_s(setting.training, tp, ranks, passes[0].part.summed_norms, e)
    walked = walk_s(setting.training, policy.sharding, ranks, tp, tensors + expert_tensors, e)
    walk = maximum(0.0, walked + summing_s - passes[0].lead_s)
    launched = sum((op.launches for op in once), start=0.0)
    gaps = 0.0 if policy.offload_optimizer else e.kernel_gap_s * launched
    updated_s = optimizer_s(setting, once, e)
    if not (fuses_update(setting.training) or policy.offload_optimizer):
        woken = woken_s(setting.training, cluster.chips, walked, e)
        walk = maximum(walk, woken + summing_s - passes[0].lead_s - updated_s)
    if any(op.apart for op in once) and not policy.offload_optimizer:
        # Tensor after tensor, the host launches beside the device, which waits where launching takes longer.
        launching = one_by_one_s(setting.training, policy.sharding, ranks, tp, launched, e)
        walk, _ = phase_wait_s(updated_s + gaps, launching + summing_s, passes[0].lead_s)
    if not _sends_beside_backward(setting):
        sending_s = _sending_s(setting, setting.kinds[0], e, 1.0)
        walk = walk + maximum(0.0, sending_s - sum((line.exposed_s for line in data), start=0.0))
    _, sent = _buckets(setting, setting.kinds[0])
    gathering_s = gathered_buckets_s(setting.training, policy.sharding, ranks, sent, e)
    gathered_s = sum((line.exposed_s for line in data if line.message.kind == "all-gather"), start=0.0)
    walk = walk + maximum(0.0, gathering_s - updated_s - gathered_s)
    part = one.part
    return Step(
        critical_stage=index,
        one=one,
        forward_s=m * part.forward_s,
        backward_s=m * (part.input_s + part.weight_s) + accumulation_s,
        accumulation_s=accumulation_s,
        optimizer_s=updated_s,
        offload_s=m * (one.transfer_forward_s + one.transfer_backward_s),
        inline_s=m * (part.inline_forward_s + part.inline_backward_s),
        data=data,
        data_s=sum((s.exposed_s + s.copies_exposed_s for s in data), start=0.0),
        send_each_s=send_each_s,
        sends_s=bubble.send_s,
        tied_s=_tied_s(setting, e),
        bubble_s=bubble.idle_s,
        wait_start_s=_start_s(setting, passes, one, e),
        wait_forward_s=m * one.wait_forward_s,
        wait_backward_s=m * one.wait_backward_s,
        wait_optimizer_s=0.0 if setting.training.traits.lower_bound else walk + gaps,
    )


def _start_s(setting: Setting, passes: Sequence[Pass], one: Pass, e: Efficiencies) -> Number:
    """What the start of a step takes beside the micro-batches of its slowest stage, whichever stage is through last.

    It is in what a stage's first micro-batch waits for the host, beside gaps at launches: of a pipeline, whose bubble
    may hide what blocks wait before the head, in what forward as a whole does.
    """
    found: Number = 0.0
    for stage in passes:
        part, late_s = stage.part, stage.wait_first_s
        if len(passes) > 1:
            gap_s = e.kernel_gap_s * part.launches_forward
            late_s, _ = phase_wait_s(part.forward_s + part.inline_forward_s + gap_s, part.host_forward_s, 0.0)
        ahead_s = setting.micro_batches * (one.times.seconds - stage.times.seconds)
        found = maximum(found, between_steps_s(setting.training, late_s, e) - ahead_s)
    return found


def once_per_step(setting: Setting, kind: StageKind) -> list[Op]:
    """Return a stage's ops that run once per step."""
    dense, expert, _, tensors, expert_tensors = stage_parameters(setting.shard, kind)
    policy, shard = setting.policy, setting.shard
    owned = dense * policy.dense.optimizer + expert * policy.expert.optimizer
    count = tensors + expert_tensors
    return optimizer(shard.training, shard.widths, owned, count, multi_tensor=policy.multi_tensor)


def _accumulation(setting: Setting, kind: StageKind) -> list[Op]:
    """Return a stage's ops that add one more micro-batch's gradients."""
    dense, expert, _, tensors, expert_tensors = stage_parameters(setting.shard, kind)
    policy, shard = setting.policy, setting.shard
    kept = dense * policy.dense.gradients + expert * policy.expert.gradients
    count = _buckets(setting, kind)[0] if policy.sharding == "zero2" else tensors + expert_tensors
    return gradient_accumulation(shard.training, shard.widths, kept, count)


def _buckets(setting: Setting, kind: StageKind) -> tuple[Number, Number]:
    """Flat buckets of a stage's gradients, and those of them that are sent: of experts, where other ranks hold them."""
    dense, expert, _, tensors, expert_tensors = stage_parameters(setting.shard, kind)
    width, policy = setting.shard.widths.gradient, setting.policy
    large, expert_large = large_tensors(setting.shard, kind)
    whole = buckets_of(dense, width, tensors, policy.bucket_bytes, large)
    experts = where(
        expert_tensors > 0, buckets_of(expert, width, expert_tensors, policy.bucket_bytes, expert_large), 0.0
    )
    return whole + experts, whole + where(policy.expert_ranks > 1, experts, 0.0)


def _sends_beside_backward(setting: Setting) -> bool:
    """Whether hooks of backward send gradients, rather than the program once it is through."""
    return setting.plan.overlap and (setting.policy.sharding != "ddp" or setting.plan.ddp_mode == "bucketed")


def _sending_s(setting: Setting, kind: StageKind, e: Efficiencies, micro_batches: Number) -> Number:
    """Host time of a micro-batch for sending a stage's gradients: in buckets, in one, or tensor by tensor."""
    policy, training = setting.policy, setting.training
    _, _, _, tensors, expert_tensors = stage_parameters(setting.shard, kind)
    every = tensors + expert_tensors
    buckets, sent = _buckets(setting, kind)
    if policy.sharding == "ddp" and setting.plan.ddp_mode == "flat":
        buckets, sent = 1.0, 1.0
    elif policy.sharding == "ddp" and setting.plan.ddp_mode == "naive":
        buckets, sent = every, tensors + where(policy.expert_ranks > 1, expert_tensors, 0.0)
    return bucketed_s(training, policy.sharding, policy.data_ranks, buckets, every, micro_batches, e, sent=sent)


def _pass(setting: Setting, parts: Parts, kind: StageKind, e: Efficiencies) -> Pass:
    own = list(zip(parts.blocks, kind.blocks, strict=True))
    if kind.embedding:
        own.append((parts.embedding, 1.0))
    if kind.head:
        own.append((parts.head, 1.0))
    moved: Number = 0.0
    if setting.policy.offload_activations:
        kept = sum(b.kept_bytes * n for b, n in zip(setting.shard.blocks, kind.blocks, strict=True))
        moved = kept / (setting.cluster.rank_chip.host_bytes_per_s * e.host_link_frac)
    part = _with_weights_apart(setting, total(own), kind, e)
    policy, modules = setting.policy, sum(kind.blocks, start=1.0)
    forward_s, backward_s = sharded_modules_s(setting.training, policy.sharding, policy.data_ranks, modules, e)
    if kind.head:
        passing = passing_s(setting.training, e)
        forward_s, backward_s = forward_s + passing[0], backward_s + passing[1]
    if _sends_beside_backward(setting):
        backward_s = backward_s + _sending_s(setting, kind, e, setting.micro_batches)
    adding = _accumulation(setting, kind)
    adding_s = _seconds(adding, setting.cluster, e)
    # Of all micro-batches but the first, each gradient is added to what is there, by a kernel of its own.
    often = (setting.micro_batches - 1) / setting.micro_batches
    launched = often * sum((op.launches for op in adding), start=0.0)
    backward_s = backward_s + launching_s(setting.training, "backward", launched, 0.0, e)
    if setting.training.traits.dtensor and kind.name != "only":
        # Forward and backward each take a chunk's messages in and hand its own on, but at the model's ends.
        ends = (1.0 if kind.embedding else 0.0) + (1.0 if kind.head else 0.0)
        each_s = (2.0 * setting.virtual_stages - ends) * p2p_batch_s(e)
        forward_s, backward_s = forward_s + each_s, backward_s + each_s
    ranks = waiting_ranks(setting.training, setting.cluster.chips, setting.stages)
    slowest = slowest_rank(setting.training, ranks, e)
    part = replace(
        part,
        host_forward_s=slowest * (part.host_forward_s + forward_s),
        host_backward_s=slowest * (part.host_backward_s + backward_s),
        read_host_s=slowest * part.read_host_s,
        sent_after_s=slowest * part.sent_after_s,
    )
    in_a_row = micro_batches_in_a_row(setting)
    head = None
    if kind.head:
        head = replace(
            parts.head,
            host_forward_s=slowest * parts.head.host_forward_s,
            host_backward_s=slowest * parts.head.host_backward_s,
        )
    found = stage_pass(part, e, head=head, offload_s=moved, in_a_row=in_a_row, added_s=often * adding_s)
    return replace(found, adding_s=adding_s)


def _with_weights_apart(setting: Setting, part: Part, kind: StageKind, e: Efficiencies) -> Part:
    """A stage's micro-batch where weights get their gradients by themselves, after inputs theirs (zero bubble).

    PyTorch's stages start autograd anew for each product and norm with weights, and checkpointing runs a region again
    whenever autograd starts anew (torch/utils/checkpoint.py keeps what it recomputes by graph task): a wholly
    recomputed Llama block ten times. The model's first chunk, whose input takes no gradient, goes backward at once.
    """
    share = weights_apart(setting, kind)
    host_s = put_off_products_s(setting.training, setting.plan.schedule, share * part.products, e)
    again = where(setting.shard.redone_blocks > 0, share, 0.0)
    return replace(
        part,
        host_backward_s=part.host_backward_s + host_s + again * part.host_again_s,
        weight_s=part.weight_s + again * part.again_s,
    )


def weights_apart(setting: Setting, kind: StageKind) -> Number:
    """Share of a stage's blocks whose weights get their gradients by themselves: all but those of the first chunk."""
    if not puts_weights_off(setting.plan.schedule, setting.training):
        return 0.0
    return 1.0 - 1.0 / setting.virtual_stages if kind.name == "first" else 1.0


def micro_batches_in_a_row(setting: Setting) -> Number:
    """Micro-batches that the host launches one after the other without waiting for the device.

    Megatron's asks the device at the start of each (broadcast_data of megatron/core/tensor_parallel/data.py reads sizes
    back), and compiled stages of a pipeline are taken to wait for one another. PyTorch's leave that to their devices:
    of a small model on two and four H200, hosts waited 0.1 ms of a step of 115, and launched all the rest of it.
    """
    if setting.training.traits.host == "megatron":
        return 1.0
    return (
        setting.micro_batches
        if plain_eager(setting.training)
        else where(setting.stages == 1, setting.micro_batches, 1.0)
    )


def _bubble(setting: Setting, passes: list[Pass], e: Efficiencies) -> tuple[Bubble, Number]:
    if len(passes) == 1:
        return Bubble(idle_s=0.0, send_s=0.0), 0.0
    send_s = p2p_s(setting.shard.message_bytes, setting.groups.send_across, setting.cluster, e)
    ahead = plain_eager(setting.training)
    times = [one.times_ahead(e) if ahead else one.times for one in passes]
    found = pipeline_bubble(
        setting.plan.schedule, times, setting.kinds, setting.stages, setting.micro_batches,
        setting.virtual_stages, send_s, one_stream=setting.training.traits.dtensor,
    )  # fmt: skip
    if ahead:
        # The step ends with its devices, were no host late, or with the slowest host: its micro-batches, and the last
        # backward of the last stage, launched when all hosts are done, on the devices of all stages before it.
        late_s = setting.micro_batches * (
            _slowest_s(setting, [one.times for one in passes]) - _slowest_s(setting, times)
        )
        first_s, middle_s = (
            one.input_s + (0.0 if setting.plan.schedule in PUT_OFF else one.weight_s) for one in times[:2]
        )
        drain_s = maximum(first_s + (setting.stages - 2.0) * middle_s, 0.0) / setting.virtual_stages
        found = replace(found, idle_s=maximum(found.idle_s - late_s, minimum(drain_s, found.idle_s)))
    if setting.plan.pp_overlap:
        # Nothing runs beside the messages that fill and drain the pipeline.
        found = replace(found, send_s=minimum(found.send_s, 2.0 * (setting.stages - 1) * send_s))
    return found, send_s


def _slowest_s(setting: Setting, times: Sequence[StageTimes]) -> Number:
    first, middle, last = times
    return Stages(first=first, middle=middle, last=last, count=setting.stages).slowest_s


def pipeline_bubble(
    schedule: str, times: Sequence[StageTimes], kinds: Sequence[StageKind], stages: Number, micro_batches: Number,
    virtual_stages: Number, send_s: Number, *, one_stream: bool,
) -> Bubble:  # fmt: skip
    """The bubble of a first, a middle and a last stage, less what the middle ones lack in blocks.

    ``one_stream``: whether all messages of a rank take turns, as PyTorch's do (``held_up_s``).
    """
    first, middle, last = times
    found = bubble_s(
        schedule,
        first=first,
        middle=middle,
        last=last,
        stages=stages,
        micro_batches=micro_batches,
        virtual_stages=virtual_stages,
        send_s=send_s,
    )
    lacking = kinds[1].lacking / maximum(kinds[1].layers, 1.0)
    ramp_s = FORMULAS[schedule].ramp_s(middle, virtual_stages)
    idle_s = maximum(found.idle_s - lacking * ramp_s, 0.0)
    if one_stream and schedule == "interleaved":
        idle_s = idle_s + held_up_s(middle, stages, virtual_stages)
    return replace(found, idle_s=idle_s)


def _tied_s(setting: Setting, e: Efficiencies) -> Number:
    """Time in which first and last stage sum the gradients of a table that both hold (Narayanan 2021, 2104.04473)."""
    kinds = setting.kinds
    if not setting.shard.tied or kinds[0].head:
        return 0.0
    payload = setting.shard.head_parameters * setting.shard.widths.gradient
    return tied_s(payload, setting.groups, setting.cluster, e)


def tied_s(payload_bytes: Number, groups: Groups, cluster: Cluster, e: Efficiencies) -> Number:
    """Time in which two stages sum the gradients of a table."""
    near = where(groups.send_across, 1.0, 2.0)
    return collective_s("all-reduce", payload_bytes, Group(ranks=2.0, ranks_per_node=near), cluster, e)


def optimizer_s(setting: Setting, ops: list[Op], e: Efficiencies) -> Number:
    """Time of the update: of ``ops`` on the device, or in host memory and over the link to it."""
    if not setting.policy.offload_optimizer:
        return _seconds(ops, setting.cluster, e)
    dense, expert, _, _, _ = stage_parameters(setting.shard, setting.kinds[0])
    owned = dense * setting.policy.dense.optimizer + expert * setting.policy.expert.optimizer
    return host_update_s(owned, setting.shard.widths, setting.cluster.rank_chip, e)


def _seconds(ops: list[Op], cluster: Cluster, e: Efficiencies) -> Number:
    return sum((price(op, cluster.rank_chip, e).seconds * op.count for op in ops), start=0.0)
