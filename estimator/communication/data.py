"""Data parallelism: what DDP and ZeRO-1/2/3 keep on each rank and what they exchange."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.scenario.arrays import ceil_div, maximum, minimum
from estimator.scenario.precision import Numbers
from estimator.scenario.units import Number

WHOLLY_SHARDED = ("zero3", "fsdp")


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Which share of a stage's parameters each kind of state keeps on one rank (1 or 1/ranks)."""

    parameters: Number
    gradients: Number
    optimizer: Number


def shares(sharding: str, ranks: Number) -> Shares:
    """ZeRO-1 shards the optimizer, ZeRO-2 gradients too, ZeRO-3 and FSDP everything (arXiv 1910.02054)."""
    one = 1.0 / ranks
    full: Number = 1.0
    return Shares(
        parameters=one if sharding in WHOLLY_SHARDED else full,
        gradients=one if sharding in ("zero2", *WHOLLY_SHARDED) else full,
        optimizer=full if sharding == "ddp" else one,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Sync:
    """One exchange of the data parallel group per step: ``beside`` names the phase whose compute it may hide behind.

    ``group`` is ``data`` (all ranks with the same parameters), ``shard`` (those that share one copy) or ``replica``
    (those that hold the same shard). ``count`` messages carry ``payload_bytes`` together; ``copies_bytes`` are moved in
    and out of flat buffers by kernels on the same rank. ``late``: it starts after backward and hides behind nothing.
    """

    name: str
    kind: str
    group: str
    beside: str
    payload_bytes: Number
    count: Number
    copies_bytes: Number
    late: bool = False


def syncs(
    *,
    sharding: str,
    numbers: Numbers,
    parameters: Number,
    layers: Number,
    tensors: Number,
    micro_batches: Number,
    bucket_bytes: Number,
    ddp_mode: str = "bucketed",
    shard_ranks: Number = 1,
    hybrid: bool = False,
    in_place: bool = False,
) -> list[Sync]:
    """Return the exchanges of one step for ``parameters`` of one rank's stage.

    DDP: gradients once: in buckets beside backward, in one flat buffer or tensor by tensor after it. ZeRO-1/2:
    gradients scattered, updated parameters gathered (ZeRO-2 scatters every micro-batch). ZeRO-3/FSDP: parameters
    gathered before forward and again before backward, gradients scattered, every micro-batch; the variant that does not
    reshard gathers once. Hybrid sharding scatters inside a group of ``shard_ranks`` and sums the shards over the
    copies, layer by layer in the last micro-batch's backward (Zhang 2022, arXiv 2205.00119, section 3.3). ``in_place``:
    parameters and gradients live in the buffers that travel, so that DDP and ZeRO-1/2 copy nothing.
    """
    gradient = parameters * numbers.gradient
    copied = 0.0 if in_place else 1.0
    if sharding == "ddp":
        return [_all_reduce(gradient, tensors, bucket_bytes, ddp_mode, copied)]
    copies_sum = [
        Sync(name="gradient sum of copies", kind="all-reduce", group="replica", beside="backward",
             payload_bytes=gradient / shard_ranks, count=layers, copies_bytes=0.0)
    ]  # fmt: skip
    if sharding in ("zero1", "zero2"):
        times = micro_batches if sharding == "zero2" else 1.0
        buckets = _buckets(gradient, tensors, bucket_bytes)
        return [
            Sync(name="gradient scatter", kind="reduce-scatter", group="shard", beside="backward",
                 payload_bytes=gradient * times, count=buckets * times, copies_bytes=2 * gradient * times * copied),
            *(copies_sum if hybrid else []),
            Sync(name="parameter gather", kind="all-gather", group="shard", beside="forward",
                 payload_bytes=parameters * numbers.parameter, count=buckets, copies_bytes=0.0),
        ]  # fmt: skip
    compute = parameters * numbers.compute
    gathers = [
        Sync(name=f"parameter gather ({phase})", kind="all-gather", group="shard", beside=phase,
             payload_bytes=compute * micro_batches, count=layers * micro_batches,
             copies_bytes=2 * compute * micro_batches)
        for phase in ("forward", "backward")
    ]  # fmt: skip
    if sharding == "zero3":
        gathers = gathers[:1]
    return [
        *gathers,
        Sync(name="gradient scatter", kind="reduce-scatter", group="shard", beside="backward",
             payload_bytes=gradient * micro_batches, count=layers * micro_batches,
             copies_bytes=2 * gradient * micro_batches),
        *(copies_sum if hybrid else []),
    ]  # fmt: skip


def _all_reduce(gradient: Number, tensors: Number, bucket_bytes: Number, ddp_mode: str, copied: float) -> Sync:
    """The gradients of DDP: tensor by tensor they need no copies; a flat buffer is filled and emptied once."""
    count: Number = {"bucketed": 0.0, "flat": 1.0, "naive": tensors}[ddp_mode]
    if ddp_mode == "bucketed":
        count = _buckets(gradient, tensors, bucket_bytes)
    return Sync(
        name="gradient sum",
        kind="all-reduce",
        group="data",
        beside="backward",
        payload_bytes=gradient,
        count=count,
        copies_bytes=0.0 if ddp_mode == "naive" else (2 if ddp_mode == "bucketed" else 4) * gradient * copied,
        late=ddp_mode != "bucketed",
    )


def _buckets(gradient_bytes: Number, tensors: Number, bucket_bytes: Number) -> Number:
    """Buckets of a step, min(⌈gradients / bucket⌉, tensors): a bucket takes whole tensors, however small it is."""
    return minimum(ceil_div(gradient_bytes / bucket_bytes, 1.0), maximum(tensors, 1.0))
