"""Data parallelism: what DDP and ZeRO-1/2/3 keep on each rank and what they exchange."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.networks.dims import Numbers
from estimator.units import Number


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Which share of a stage's parameters each kind of state keeps on one rank (1 or 1/dp)."""

    parameters: Number
    gradients: Number
    optimizer: Number


def shares(sharding: str, dp: Number) -> Shares:
    """ZeRO-1 shards the optimizer, ZeRO-2 gradients too, ZeRO-3 and FSDP everything (arXiv 1910.02054)."""
    one = 1.0 / dp
    full: Number = 1.0
    return Shares(
        parameters=one if sharding in ("zero3", "fsdp") else full,
        gradients=one if sharding in ("zero2", "zero3", "fsdp") else full,
        optimizer=full if sharding == "ddp" else one,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Sync:
    """One exchange of the data parallel group per step: ``beside`` names the phase whose compute it may hide behind.

    ``count`` is the number of messages that carry ``payload_bytes`` together; ``copies_bytes`` are moved in and out of
    flat buffers by kernels on the same rank.
    """

    name: str
    kind: str
    beside: str
    payload_bytes: Number
    count: Number
    copies_bytes: Number


def syncs(
    *,
    sharding: str,
    numbers: Numbers,
    parameters: Number,
    layers: Number,
    micro_batches: Number,
    bucket_bytes: float,
) -> list[Sync]:
    """Return the exchanges of one step for ``parameters`` of one rank's stage.

    DDP: gradients once, in buckets. ZeRO-1/2: gradients scattered, updated parameters gathered (ZeRO-2 scatters every
    micro-batch). ZeRO-3/FSDP: parameters gathered before forward and again before backward, gradients scattered, every
    micro-batch; the variant that does not reshard gathers once.
    """
    gradient = parameters * numbers.gradient
    compute = parameters * numbers.compute
    if sharding == "ddp":
        buckets = _at_least_one(gradient / bucket_bytes)
        return [
            Sync(name="gradient sum", kind="all-reduce", beside="backward", payload_bytes=gradient, count=buckets,
                 copies_bytes=2 * gradient)
        ]  # fmt: skip
    if sharding in ("zero1", "zero2"):
        times = micro_batches if sharding == "zero2" else 1.0
        buckets = _at_least_one(gradient / bucket_bytes)
        return [
            Sync(name="gradient scatter", kind="reduce-scatter", beside="backward", payload_bytes=gradient * times,
                 count=buckets * times, copies_bytes=2 * gradient * times),
            Sync(name="parameter gather", kind="all-gather", beside="forward",
                 payload_bytes=parameters * numbers.parameter, count=buckets, copies_bytes=0.0),
        ]  # fmt: skip
    gathers = [
        Sync(name=f"parameter gather ({phase})", kind="all-gather", beside=phase, payload_bytes=compute * micro_batches,
             count=layers * micro_batches, copies_bytes=2 * compute * micro_batches)
        for phase in ("forward", "backward")
    ]  # fmt: skip
    if sharding == "zero3":
        gathers = gathers[:1]
    return [
        *gathers,
        Sync(name="gradient scatter", kind="reduce-scatter", beside="backward",
             payload_bytes=gradient * micro_batches, count=layers * micro_batches,
             copies_bytes=2 * gradient * micro_batches),
    ]  # fmt: skip


def _at_least_one(value: Number) -> Number:
    from estimator.arrays import ceil_div

    return ceil_div(value, 1.0)
