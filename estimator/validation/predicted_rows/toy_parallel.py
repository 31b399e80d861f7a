"""Toy parallel: rows of backward and gradient exchange of three linear layers, by how gradients are exchanged.

CS336's assignment 2 (2025, section 2.3) compares its data parallel classes on such a model: 10 → n → 5n → 5, whose size
tables give as n. Its weights have 10·n, 5·n² and 25·n elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from estimator.cost.collectives import Group, collective_s
from estimator.cost.host import phase_wait_s
from estimator.cost.price import price
from estimator.operations.op import Op, gemm
from estimator.scenario.breakdown import Category
from estimator.validation.predicted_rows.device import TableDevice, whole, word

FP32_BYTES = 4.0
RANKS, BATCH = 2, 20
MODES = ("naive", "flat", "overlapped", "bucketed")
COPIES = 4
"""Memory that a flat exchange goes over for each gradient: read and written into the buffer, and back out of it."""


def weights(size: int) -> tuple[int, ...]:
    """Elements of the layers 10 → n → 5n → 5, in the order in which backward finishes them."""
    return (5 * size * 5, 5 * size * size, 10 * size)


def row(row: Mapping[str, Any], place: TableDevice) -> dict[str, float]:
    """Predict a row of backward and exchange together.

    naive: t = backward + Σ all-reduce(w); flat: backward + copies + all-reduce(Σ w); overlapped: the exchange of a
    weight begins with its gradient and waits for the one before; bucketed: that of every bucket with its last gradient.
    """
    mode, size = word(row, "ddp_mode", ""), whole(row, "model_size")
    if mode not in MODES or row.get("backend", "nccl") != "nccl":
        return {}
    if "world_size" not in row:
        place.assume(f"{RANKS} ranks, as the table states none")
    place.assume(f"layers 10 → n → 5n → 5 and a batch of {BATCH}, as CS336's assignment has them")
    ranks = whole(row, "world_size", max(RANKS, place.ranks))
    sizes = [FP32_BYTES * count for count in weights(size)]
    ready_s = _ready_s(size, place)
    group = Group(ranks=float(ranks), ranks_per_node=float(ranks))

    def exchange_s(payload_bytes: float) -> float:
        return float(collective_s("all-reduce", payload_bytes, group, place.cluster(ranks), place.efficiencies))

    if mode == "naive":
        seconds = ready_s[-1] + sum(exchange_s(one) for one in sizes)
    elif mode == "flat":
        copied_s = COPIES * sum(sizes) / place.hardware.memory_bytes_per_s
        seconds = ready_s[-1] + copied_s + exchange_s(sum(sizes))
    else:
        limit = float(whole(row, "bucket_bytes")) if mode == "bucketed" else 0.0
        seconds = 0.0
        for payload_bytes, begin_s in buckets(sizes, ready_s, limit):
            seconds = max(seconds, begin_s) + exchange_s(payload_bytes)
    return {"backward_communication_s": seconds}


def buckets(sizes: Sequence[float], ready_s: Sequence[float], limit: float) -> list[tuple[float, float]]:
    """Bytes of each bucket and when its last gradient is there; one that is full is begun anew."""
    found: list[tuple[float, float]] = []
    held = 0.0
    for at, (size, ready) in enumerate(zip(sizes, ready_s, strict=True)):
        held += size
        if held >= limit or at == len(sizes) - 1:
            found.append((held, ready))
            held = 0.0
    return found


def _ready_s(size: int, place: TableDevice) -> list[float]:
    """When the gradient of each weight is there, from the last layer to the first."""
    shapes = ((5, 5 * size), (5 * size, size), (size, 10))
    chip, e = place.hardware, place.efficiencies
    device_s, launches, found = 0.0, 0, []
    for at, (leaving, entering) in enumerate(shapes):
        ops = [_product(leaving, entering, BATCH)]
        if at < len(shapes) - 1:  # the data ask for no gradient
            ops.append(_product(BATCH, entering, leaving))
        device_s += sum(float(price(op, chip, e).seconds) for op in ops)
        launches += len(ops) + 1  # and that of the activation between two layers, or of the loss
        wait_s, _ = phase_wait_s(device_s, e.host_backward_s * launches, 0.0)
        found.append(device_s + float(wait_s))
    return found


def _product(m: int, n: int, k: int) -> Op:
    return gemm("product", "linear", "backward", m=m, n=n, k=k, batch=1, element_bytes=FP32_BYTES, precision="fp32",
                category=Category.MATMUL)  # fmt: skip
