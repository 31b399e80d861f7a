"""Host: the time Python, autograd and the driver need to launch a phase, and when the device waits for it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from estimator.cost.efficiency import Efficiencies
from estimator.scenario.arrays import maximum, where
from estimator.scenario.breakdown import Phase
from estimator.scenario.hardware import Chip
from estimator.scenario.plan import Plan
from estimator.scenario.precision import ByteWidths
from estimator.scenario.training import Training
from estimator.scenario.units import Number

GATHERED = ("zero3", "fsdp")
"""Shardings whose parameters are gathered module by module."""

Passes = tuple[Number, Number]


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


def plain_eager(training: Training) -> bool:
    """Whether Python goes through every op by itself: no compiler, and no framework's own layers."""
    return training.traits.host == "eager" and not training.compile


def launching_s(training: Training, phase: str, launches: Number, views: Number, e: Efficiencies) -> Number:
    """Host time of so many kernels and of ``views``, ops that launch nothing, in a pass.

    What ``launch_s`` says of a kernel of plain PyTorch is of it and of the views that a Llama has beside each, so that
    one without takes ``launch_s / kernel_ops`` and a view ``host_view_frac`` of that.
    """
    each = launch_s(training, phase, e)
    if not plain_eager(training):
        return launches * each
    return (launches + e.host_view_frac * views) * (each / kernel_ops(phase, e))


def kernel_ops(phase: str, e: Efficiencies) -> float:
    """A Llama's kernel with its views over one without: 1 + host_view_frac·(ops that are dispatched per kernel − 1)."""
    ops = e.host_forward_dispatches_per_kernel if phase == "forward" else e.host_backward_dispatches_per_kernel
    return 1.0 + e.host_view_frac * (ops - 1.0)


def kernel_s(phase: str, e: Efficiencies) -> float:
    """Host time of a kernel of plain PyTorch without the views beside it."""
    return (e.host_forward_s if phase == "forward" else e.host_backward_s) / kernel_ops(phase, e)


def plain_s(phase: str, kernels: Number, e: Efficiencies) -> Number:
    """Host time of a pass for kernels of plain PyTorch that stand between those of a framework of its own."""
    return kernels * (e.host_forward_s if phase == "forward" else e.host_backward_s)


def running_again_s(
    training: Training, regions: Number, packed: Number, launches: Number, views: Number, e: Efficiencies
) -> Passes:
    """Host time of forward and backward that checkpointing takes, beside the ops that backward runs again.

    ``regions`` are entered, and their random state kept and put back; Python packs each of the ``packed`` tensors that
    autograd saves there, and backward packs and unpacks it again (torch/utils/checkpoint.py, not reentrant).
    ``launches``: kernels run again, ``views``: ops that launch nothing among them. A reentrant region packs nothing,
    and forward goes through it without recording, in ``host_unrecorded_frac`` of ``launching_s``.
    """
    if not plain_eager(training):
        return 0.0, 0.0
    op_s = e.host_forward_s / e.host_forward_dispatches_per_kernel
    if training.traits.checkpoints_reentrantly:
        recording_s = launching_s(training, "forward", launches, views, e) * (1.0 - e.host_unrecorded_frac)
        return regions * e.host_region_ops * op_s - recording_s, regions * e.host_region_backward_ops * op_s
    forward = regions * e.host_region_ops + packed * e.host_packed_ops
    backward = regions * e.host_region_backward_ops + packed * e.host_packed_backward_ops
    return forward * op_s, backward * op_s


def between_steps_s(training: Training, waits_s: Number, e: Efficiencies) -> Number:
    """Time of a step in which the device waits whatever its length: between steps, and for a host without a lead.

    ``waits_s``: what forward waits for the host anyway, in which the wait for its lead is contained.
    """
    if training.traits.lower_bound:
        return 0.0
    started_s = e.host_start_kernels * kernel_s("forward", e)
    return e.host_step_s + (maximum(0.0, started_s - waits_s) if plain_eager(training) else 0.0)


def passing_s(training: Training, e: Efficiencies) -> Passes:
    """Host time of forward to a loss, and of backward from it, beside all that they dispatch.

    Calls of the program's own and contexts; autograd's engine, which wakes its thread and is waited for.
    """
    if not plain_eager(training):
        return 0.0, 0.0
    each_s = kernel_s("forward", e)
    return e.host_pass_forward_kernels * each_s, e.host_pass_backward_kernels * each_s


def blocking_collective_s(training: Training, ranks: Number, e: Efficiencies) -> Number:
    """Host time per blocking collective, in which ranks wait for the slowest: spread · E[max of n standard normals]."""
    return 0.0 if training.traits.lower_bound else e.host_collective_s * largest_of(ranks)


NORM_PRODUCTS, NORM_KERNEL_PRODUCTS = 0.78, 0.0995
"""Split products that a norm takes as long as where DTensor splits its sequence, in a pass and for each of its
parameter tensors, and each of its kernels beside. Small Llamas with split norms took as much longer than without as 7.1
of their products, for the 40 kernels of a block's two norms and both passes (probes of 23 hosts together), 7.4 on a CPU
of two ranks that exchange nothing (torch 2.13, in turns); layer norms with weight and bias 6.3 there, blocks whose two
norms are one kernel each way 0.47 times as much longer as those of 16 and 32."""
HEAD_NORM_PRODUCTS = {"forward": 0.66, "backward": 1.22}
"""The same of a norm of queries or keys, whose heads DTensor splits (Qwen3 beside Llama, on that CPU)."""
BIAS_PRODUCTS = 0.15
"""By what a split product with a bias takes longer than one without, as a share of it (seven of a Llama's with and
without 0.13, four of GPT-2 beside Llama's 0.19, on that CPU)."""


def split_products_s(training: Training, ranks: Number, products: Number, e: Efficiencies) -> Number:
    """Host time of a pass for matrix products that are split over ``ranks``, beside what plain ones take.

    DTensor finds the layout of every operand and result in Python, around each product, forward and backward.
    """
    return where(ranks > 1, products * e.host_dtensor_s, 0.0) if training.traits.dtensor else 0.0


EXCHANGE_LAUNCHES = 11.0
"""Bare launches that asking NCCL for a collective takes the host as long as inside a step, whatever its kind and ranks:
two and four of an H200 host took 23 to 26 ops on a host tensor longer than a group that exchanges nothing, 21 through
functional collectives, where a launch takes 2.1 (tests/reference/h200_ranks, benchmarks/exchanges.py); 226
reduce-scatters of a profiled step 9. In a loop of nothing else 3.8 to 4.5 (probes of six H100 and H200 hosts)."""


def exchanges_s(training: Training, ranks: Number, exchanges: Number, e: Efficiencies) -> Number:
    """Host time of asking for so many collectives of a group of ``ranks``, beside the Python that leads there."""
    return where(ranks > 1, exchanges * EXCHANGE_LAUNCHES * e.host_launch_s, 0.0) if training.traits.dtensor else 0.0


DTENSOR_DISPATCHES = 6.5
"""Ops of a split product that DTensor takes apart in a pass (traced Llama: t, view, mm, view; nine backward)."""


def taken_apart_s(phase: str, ops: Number, e: Efficiencies, *, compiled: bool) -> Number:
    """Host time of recorded ops that DTensor dispatches, as of so large a part of a split product.

    An optimizer's are nothing but dispatched: a product has its module's hooks, which lay out what goes in and comes
    out again, around it. A compiler has taken all apart before.
    """
    if compiled:
        return 0.0 * ops
    if phase == Phase.OPTIMIZER:
        return ops * e.host_dtensor_op_s
    return ops * e.host_dtensor_s / DTENSOR_DISPATCHES


def graphs_s(graphs: Number, e: Efficiencies, *, forward: bool) -> Number:
    """Host time of entering compiled graphs: guards, what wraps inputs and outputs, and autograd's node of each."""
    return graphs * (e.host_graph_forward_s if forward else e.host_graph_backward_s)


def split_norms_s(training: Training, ranks: Number, norms: Number, launches: Number, e: Efficiencies) -> Number:
    """Host time of a pass for ``norms`` parameter tensors of norms of ``launches`` kernels whose sequence is split.

    DTensor lays out what goes in and comes out of each, and dispatches each of its kernels' ops.
    """
    return split_products_s(training, ranks, norms * NORM_PRODUCTS + launches * NORM_KERNEL_PRODUCTS, e)


SUMMED_LAUNCHES = 17.0
"""Bare launches that summing one gradient over the ranks takes the host as long as, one after another in an optimizer.
Measured are 45 among the other ops of a step (tests/reference/h200_ranks); that as small a share of them stays in a
row as of NCCL's own call (4.1 of 11) is assumed. Updates of tensor parallel steps on two H200 hosts took 13 to 38 each
longer than was priced without."""
SUMS_OF_ADAM = 3.0
"""Ops of AdamW, over all tensors or one by one, that each sum a gradient which lies in parts on the ranks
(CommDebugMode of torch 2.13)."""


def summed_norms_s(training: Training, tp: Number, data_ranks: Number, tensors: Number, e: Efficiencies) -> Number:
    """Host time of a step for gradients of norms to each of which every rank of ``tp`` has a part.

    DTensor sums them in every op of the optimizer that reads them, an exchange among data parallel ranks once before.
    """
    if not training.traits.dtensor:
        return 0.0
    often = where(data_ranks > 1, 1.0, SUMS_OF_ADAM)
    return where(tp > 1, tensors * often * SUMMED_LAUNCHES * e.host_launch_s, 0.0)


def put_off_products_s(training: Training, schedule: str, products: Number, e: Efficiencies) -> Number:
    """Host time of a backward whose products' weight gradients are put off, beside a plain one's.

    PyTorch's stages start autograd anew for each of them (torch/distributed/pipelining/_backward.py).
    """
    return products * e.host_put_off_s if puts_weights_off(schedule, training) else 0.0


P2P_LAUNCHES = 16.0
"""Bare launches that a batch of sends and receives takes the host as long as (batch_isend_irecv of PyTorch's stages:
0.10 to 0.28 ms beside 3.2 to 5.6 µs of an op on a host tensor, 2.3 of which are a launch's; twelve ranks of steps on
two and four H200, 8.5 to 29, their geometric mean)."""
ALL_TO_ALL_LAUNCHES = 22.0
"""The same of an all-to-all that Python asks NCCL for inside a model, with the function of autograd around it: four of
a block took 24 forward and 25 backward in small models with heads over two H200 (tests/reference/h200_host_plans.json),
experts' 157 to 238 µs where an op on a host tensor took 3.0 to 6.5 (eight ranks), 11 to 26."""


def handed_on_s(kind: str, e: Efficiencies) -> Number:
    """Host time of a batch that autograd hands on inside a model: an all-to-all, or sends and receives of two ranks."""
    return ALL_TO_ALL_LAUNCHES * e.host_launch_s if kind == "all-to-all" else p2p_batch_s(e)


def p2p_batch_s(e: Efficiencies) -> Number:
    """Host time of a batch of sends and receives between two ranks, as of stages and of rings of attention."""
    return P2P_LAUNCHES * e.host_launch_s


PUT_OFF = ("zero-bubble", "zero-bubble-v")
"""Schedules that split backward in two."""


def puts_weights_off(schedule: str, training: Training) -> bool:
    """Whether stages split backward in two as PyTorch's do, which start autograd anew for each weight."""
    return schedule in PUT_OFF and training.traits.dtensor


def runs_again_apart(plan: Plan, training: Training) -> bool:
    """Whether a recomputed block runs again for each weight's gradient, as PyTorch's zero-bubble stages do it.

    A compiled block recomputes inside its one node of autograd.
    """
    return puts_weights_off(plan.schedule, training) and plan.recompute == "full" and not training.compile


NORMAL_LARGEST = (0.0, 0.564, 1.029, 1.424, 1.766, 2.070, 2.344, 2.595, 2.827, 3.044, 3.249, 3.442, 3.627, 3.803, 3.971,
                  4.134, 4.291, 4.443, 4.59, 4.733, 4.872)  # fmt: skip
"""Expected largest of 2^i independent standard normal numbers (David, Nagaraja 2003, Order Statistics, section 3.2)."""


def waiting_ranks(training: Training, chips: Number, stages: Number) -> Number:
    """Ranks whose slowest host a stage waits for.

    Those of one stage where stages' hosts wait for one another, so that micro-batches under way take up what one is
    late; of all where each runs through a step without waiting, as PyTorch's do, and the slowest of all ends it.
    """
    return chips if plain_eager(training) else chips / stages


def slowest_rank(training: Training, ranks: Number, e: Efficiencies) -> Number:
    """``slowest_of`` where the framework launches ahead; who blocks in collectives (Megatron) has that in these."""
    return slowest_of(ranks, e) if training.traits.host in ("eager", "fused") else 1.0


def slowest_of(ranks: Number, e: Efficiencies) -> Number:
    """By what the host of the slowest of ``ranks``, for which the others wait in every exchange, is above one's own.

    1 + spread·E[max of n standard normals].
    """
    return 1.0 + e.host_spread * largest_of(ranks)


def largest_of(ranks: Number) -> Number:
    """Expected largest of so many independent standard normal numbers; 0 for one."""
    return _largest_of_one(ranks) if isinstance(ranks, (int, float)) else _largest_of_each(ranks)


def _largest_of_each(ranks: Number) -> Number:
    return np.interp(np.log2(ranks), range(len(NORMAL_LARGEST)), NORMAL_LARGEST)


_largest_of_one = lru_cache(maxsize=1024)(_largest_of_each)


def sharded_modules_s(training: Training, sharding: str, ranks: Number, modules: Number, e: Efficiencies) -> Passes:
    """Host time of forward and backward for modules whose parameters are gathered and gradients scattered by FSDP2.

    Forward asks for one exchange of each; backward for two, ZeRO-3, which keeps what forward gathered, for one.
    """
    if sharding not in GATHERED or not training.traits.dtensor:
        return 0.0, 0.0
    gathered = where(ranks > 1, modules, 0.0)
    again, share = (1.0, e.host_fsdp_kept_factor) if sharding == "zero3" else (2.0, 1.0)
    return (
        gathered * e.host_fsdp_forward_s + exchanges_s(training, ranks, modules, e),
        gathered * e.host_fsdp_backward_s * share + exchanges_s(training, ranks, again * modules, e),
    )


BUCKET_OPS, TENSOR_OPS = 6.0, 4.0
"""Ops around a flat bucket of gradients that a hook of autograd scatters (a zeroed whole, a view of it, a part, a wait
and two tensors that give the last one back) and of each tensor in it (its place, detached, laid flat, copied)."""
SUMMED_BUCKET_OPS, SUMMED_TENSOR_OPS = 2.0, 3.0
"""The same of a bucket that is summed (waited for, divided) and of each tensor but one in it (laid flat, its place,
copied back): one alone is sent as it is."""
GATHERED_BUCKET_OPS = 2.0
"""Those of a bucket of parameters that is gathered after the update: a rank's part, detached and copied."""


def bucketed_s(
    training: Training, sharding: str, ranks: Number, buckets: Number, tensors: Number, micro_batches: Number,
    e: Efficiencies, *, sent: Number | None = None,
) -> Number:  # fmt: skip
    """Host time of a backward whose hooks send gradients in buckets (DDP, ZeRO-1 and 2), beside what makes them.

    Of the runners' hooks, which are Python; PyTorch's own DDP has its reducer below it.

    ZeRO-2 does so in every micro-batch, the others in the last, of whose time each has its share. Autograd records
    none. ``sent``: the buckets that other ranks have a part in, if not all; the others are laid out and divided alone.
    """
    if sharding not in ("ddp", "zero1", "zero2") or not training.traits.measurable:
        return 0.0
    op_s = _unrecorded_op_s(e)
    if sharding == "ddp":
        ops = buckets * SUMMED_BUCKET_OPS + maximum(tensors - buckets, 0.0) * SUMMED_TENSOR_OPS
    else:
        ops = buckets * BUCKET_OPS + tensors * TENSOR_OPS
    found = ops * op_s + exchanges_s(training, ranks, buckets if sent is None else sent, e)
    return where(ranks > 1, found if sharding == "zero2" else found / micro_batches, 0.0)


def gathered_buckets_s(training: Training, sharding: str, ranks: Number, buckets: Number, e: Efficiencies) -> Number:
    """Host time of gathering updated parameters bucket by bucket (ZeRO-1 and 2)."""
    if sharding not in ("zero1", "zero2") or not training.traits.measurable:
        return 0.0
    found = buckets * GATHERED_BUCKET_OPS * _unrecorded_op_s(e) + exchanges_s(training, ranks, buckets, e)
    return where(ranks > 1, found, 0.0)


def _unrecorded_op_s(e: Efficiencies) -> float:
    return e.host_unrecorded_frac * e.host_forward_s / e.host_forward_dispatches_per_kernel


def walk_s(training: Training, sharding: str, ranks: Number, tp: Number, tensors: Number, e: Efficiencies) -> Number:
    """Host time before an optimizer's first kernel: it walks over all tensors, longer where each is a DTensor."""
    return tensors * (e.host_tensor_s + _of_dtensors_s(training, sharding, ranks, tp, e.host_sharded_tensor_s))


def woken_s(training: Training, chips: int, walked_s: Number, e: Efficiencies) -> Number:
    """Host time of an update over all tensors by a thread that only waited while autograd's worked backward.

    Its core has slept and its caches are of others: host_optimizer_s beside the walk. One of several ranks has been
    asking and waiting for exchanges, and is awake (updates of eight plans on two H200 took 0.4 to 0.8 times as long).
    """
    return walked_s + e.host_optimizer_s if chips == 1 and plain_eager(training) else 0.0


def one_by_one_s(
    training: Training, sharding: str, ranks: Number, tp: Number, launches: Number, e: Efficiencies
) -> Number:
    """Host time of an update of one tensor after another, whose ops DTensor takes apart where a tensor is one."""
    return launches * (e.host_tensor_s + _of_dtensors_s(training, sharding, ranks, tp, e.host_dtensor_op_s))


def _of_dtensors_s(training: Training, sharding: str, ranks: Number, tp: Number, each_s: float) -> Number:
    """``each_s`` where a rank's parameters are DTensors, else 0."""
    if not training.traits.dtensor:
        return 0.0
    dtensors = tp > 1
    if sharding in GATHERED:
        dtensors = dtensors | (ranks > 1)
    return where(dtensors, each_s, 0.0)


def phase_wait_s(device_s: Number, host_s: Number, lead_s: Number) -> tuple[Number, Number]:
    """Time the device waits for the host in a phase, and the lead the host carries into the next one.

    The host runs ahead while the device works: a phase lasts max(device, host − lead); what the device takes longer
    than the host becomes the lead of the next phase.
    """
    lasts = maximum(device_s, host_s - lead_s)
    return lasts - device_s, maximum(0.0, lasts + lead_s - host_s)


SENT_OPS = {"forward": 55.0, "backward": 23.0}
"""Forward ops that the host takes as long as to send a block's rows to other ranks' experts and back, beside the
kernels that sort them: numbers of rows exchanged, summed and read, two exchanges with autograd, a sort by expert (two
H200, profiled: 1.35 ms a block forward and 0.51 backward, where a product of two tensors takes 17 µs, else 12)."""
SENT_AFTER_OPS = 30.0
"""Those of them between the numbers' arrival and the first product of experts, while the device has nothing to do: the
exchange, the sort and what gathers rows by it (it stood still for 0.6 to 1.1 ms a block there)."""


def sent_s(training: Training, ranks: Number, ops: float, e: Efficiencies) -> Number:
    """Host time of so many of SENT_OPS, where rows go to ``ranks``' experts."""
    if not plain_eager(training):
        return 0.0
    return where(ranks > 1, ops * e.host_forward_s / e.host_forward_dispatches_per_kernel, 0.0)


WIDTH_OF_SIZES = 1.6
"""On how many numbers the sizes that a router chooses fall, over their mean: 1.1 to 2.9 of five untrained models with
8 to 64 experts, whose new sizes were counted over 60 steps on an H200 (transformers, AdamW of 1e-4, new batches)."""


def new_products_s(products: Number, alike: Number, size: Number, e: Efficiencies) -> Number:
    """Host time that ``products`` take longer whose one size the data chose, as the run has not multiplied all before.

    The library looks for a kernel for each size that it has not seen, and remembers it (cuBLAS). Of ``alike`` products
    a step, whose size falls evenly on WIDTH_OF_SIZES times as many numbers as it is large, a share of (1 − e⁻ˣ)/x is
    new over n steps, x = n·alike/(width·size).
    """
    x = e.new_products_steps * alike / (WIDTH_OF_SIZES * size)
    return products * e.host_new_product_s * -np.expm1(-x) / x


HOST_ADAM_BYTES = 28.0
"""Bytes of host memory that one parameter's Adam update moves: fp32 weight, gradient and two moments read, three
written (Ren 2021, arXiv 2101.06840, section 4)."""


def host_update_s(parameters: Number, numbers: ByteWidths, chip: Chip, e: Efficiencies) -> Number:
    """Time of an optimizer that lives in host memory: gradients down, update, parameters up, one after the other."""
    moved = parameters * (numbers.gradient + numbers.parameter)
    return moved / (chip.host_bytes_per_s * e.host_link_frac) + parameters * HOST_ADAM_BYTES / e.host_memory_bytes_per_s
