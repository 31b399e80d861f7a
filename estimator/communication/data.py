"""Data parallelism: what DDP and ZeRO-1/2/3 keep on each rank and what they exchange."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from estimator.communication.message import Message
from estimator.scenario.arrays import ceil_div, maximum, minimum
from estimator.scenario.precision import ByteWidths
from estimator.scenario.units import Number

WHOLLY_SHARDED = ("zero3", "fsdp")


@dataclass(frozen=True, kw_only=True)
class StateShares:
    """Which share of a stage's parameters each kind of state keeps on one rank (1 or 1/ranks)."""

    parameters: Number
    gradients: Number
    optimizer: Number


def shares(sharding: str, ranks: Number) -> StateShares:
    """ZeRO-1 shards the optimizer, ZeRO-2 gradients too, ZeRO-3 and FSDP everything (arXiv 1910.02054)."""
    one = 1.0 / ranks
    full: Number = 1.0
    return StateShares(
        parameters=one if sharding in WHOLLY_SHARDED else full,
        gradients=one if sharding in ("zero2", *WHOLLY_SHARDED) else full,
        optimizer=full if sharding == "ddp" else one,
    )


def data_messages(
    *,
    axis: str = "dp",
    sharding: str,
    numbers: ByteWidths,
    parameters: Number,
    layers: Number,
    tensors: Number,
    micro_batches: Number,
    bucket_bytes: Number,
    ddp_mode: str = "bucketed",
    shard_ranks: Number = 1,
    hybrid: bool = False,
    in_place: bool = False,
    gathered_once: bool = False,
    large: Sequence[tuple[Number, Number]] = (),
) -> list[Message]:
    """Return the messages of one step for ``parameters`` of one rank's stage, dense (``dp``) or experts' (``edp``).

    DDP: gradients once: in buckets beside backward, in one flat buffer or tensor by tensor after it. ZeRO-1/2:
    gradients scattered, updated parameters gathered (ZeRO-2 scatters every micro-batch). ZeRO-3/FSDP: parameters
    gathered before forward and again before backward, gradients scattered, every micro-batch; the variant that does not
    reshard gathers once. Hybrid sharding scatters inside a group of ``shard_ranks`` and sums the shards over the
    copies, layer by layer in the last micro-batch's backward (Zhang 2022, arXiv 2205.00119, section 3.3). ``in_place``:
    parameters and gradients live in the buffers that travel, so that DDP and ZeRO-1/2 copy nothing. ``gathered_once``:
    what ZeRO-3/FSDP gathered stays for all micro-batches, and gradients are scattered once. ``large``: elements and
    number of large parameter tensors.
    """
    if gathered_once and sharding in WHOLLY_SHARDED:
        sharding, micro_batches = "zero3", 1.0
    gradient = parameters * numbers.gradient
    copied = 0.0 if in_place else 1.0

    def one(
        name: str, kind: str, ranks: str, phase: str, total_bytes: Number, count: Number, copies_bytes: Number = 0.0,
        behind: str = "compute", cast_elements: Number = 0.0,
    ) -> Message:  # fmt: skip
        return Message(
            name=name,
            kind=kind,
            axis=axis,
            group=ranks if axis == "dp" else "expert_data",
            phase=phase,
            payload_bytes=total_bytes / maximum(count, 1.0),
            count=count,
            hides_behind=behind,
            copies_bytes=copies_bytes,
            cast_elements=cast_elements,
        )

    if sharding == "ddp":
        # Tensor by tensor gradients need no copies; a flat buffer is filled and emptied once, after backward.
        buckets = buckets_of(parameters, numbers.gradient, tensors, bucket_bytes, large)
        exchanges = {"bucketed": buckets, "flat": 1.0, "naive": tensors}[ddp_mode]
        copies = {"bucketed": 2.0, "flat": 4.0, "naive": 0.0}[ddp_mode] * gradient * copied
        behind = "compute" if ddp_mode == "bucketed" else ""
        return [one("gradient all-reduce", "all-reduce", "data", "backward", gradient, exchanges, copies, behind)]
    over_replicas = one(
        "gradient all-reduce over replicas", "all-reduce", "replica", "backward", gradient / shard_ranks, layers
    )
    if sharding in ("zero1", "zero2"):
        times = micro_batches if sharding == "zero2" else 1.0
        buckets = buckets_of(parameters, numbers.gradient, tensors, bucket_bytes, large)
        scattered, whole = gradient * times, parameters * numbers.parameter
        # A bucket is zeroed and filled; of what comes back a rank's part is added to what it has, and divided. Its new
        # parameters are copied before they are gathered into the bucket, whose views all parameters are.
        part = gradient / shard_ranks
        moved = copied * (3 * scattered + 3 * part * (times - 1) + 2 * part)
        taken = copied * 2 * whole / shard_ranks
        return [
            one("gradient scatter", "reduce-scatter", "shard", "backward", scattered, buckets * times, moved),
            *([over_replicas] if hybrid else []),
            one("parameter gather", "all-gather", "shard", "forward", whole, buckets, taken),
        ]
    compute, every = parameters * numbers.compute, layers * micro_batches
    gathers = [
        one(f"parameter gather ({phase})", "all-gather", "shard", phase, compute * micro_batches, every,
            2 * compute * micro_batches)
        for phase in ("forward", "backward")
    ]  # fmt: skip
    # Gradients of narrower numbers turn into what is summed as they are laid side by side.
    cast = parameters * micro_batches * copied if numbers.compute != numbers.gradient else 0.0
    moved = (numbers.compute if copied else numbers.gradient) + numbers.gradient
    return [
        *(gathers[:1] if sharding == "zero3" else gathers),
        one("gradient scatter", "reduce-scatter", "shard", "backward", gradient * micro_batches, every,
            moved * parameters * micro_batches, cast_elements=cast),
        *([over_replicas] if hybrid else []),
    ]  # fmt: skip


def buckets_of(
    parameters: Number, gradient_bytes: Number, tensors: Number, bucket_bytes: Number,
    large: Sequence[tuple[Number, Number]] = (),
) -> Number:  # fmt: skip
    """Buckets of a step, ⌈Σ min(1, tensor / bucket)⌉: a bucket takes whole tensors, however small it is.

    What is in no ``large`` tensor (elements, number) fills buckets to the end; there are no more buckets than tensors.
    """
    full: Number = 0.0
    rest = parameters
    for elements, count in large:
        full = full + count * minimum(elements * gradient_bytes / bucket_bytes, 1.0)
        rest = rest - count * elements
    full = full + maximum(rest, 0.0) * gradient_bytes / bucket_bytes
    return minimum(maximum(ceil_div(full, 1.0), 1.0), maximum(tensors, 1.0))
