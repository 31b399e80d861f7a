"""Points: what measurements say about single kernels, as ops with the device seconds that they took."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from estimator.cost.price import UNALIGNED, VECTOR
from estimator.operations.aten import is_known, kernels_of
from estimator.operations.op import Op
from estimator.scenario.breakdown import Category, Phase
from estimator.scenario.measurement import Measurement, status_of_row
from estimator.scenario.op_list import Operand, OpList, Signature

DTYPES = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}

COMPUTED = ("gelu", "softmax")
"""Kernels that memory alone does not bound: no rate of memory is read off them."""

GROUPS = (
    "products", "tf32 products", "fp32 products", "unaligned products",
    "products in pairs", "products in fours", "attention", "fp32 attention",
    "contiguous kernels", "norm kernels", "column kernels", "strided kernels", "mixed kernels", "optimizer",
    "copies to the host", "copies of pageable memory",
)  # fmt: skip
"""What is fitted and scored together."""

ABOVE_FLOOR, MOVED_ABOVE_FLOOR = 2.2, 3.0
"""The smallest sizes of a probed op take what the host needs for a call; what takes less than this many times as long
says nothing of the device. Of kernels that only move bytes, whose small sizes are many, it is more, as a host beside a
busy neighbour takes up to twice as long itself (sums of 4 kB to 16 MB took 9 to 24 µs on an H100 host, in no order)."""

ATTENTION_LAUNCHES = {"forward": 5.0, "forward-backward": 16.0}
"""Bare launches that the host needs at most for one call of fused attention, autograd with it."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """Kernels that ran alone, and the device seconds that one execution of all of them took.

    ``gaps``: timed one after another between two events, with the device idle from each kernel to the next.
    """

    group: str
    ops: tuple[Op, ...]
    seconds: float
    what: str
    gaps: bool = False


def points_of(measurement: Measurement) -> list[Point]:
    """The points among a measurement's probes, less calls so short that the host may not have kept up with them."""
    rows = [row for row in measurement.rows if status_of_row(row) == "ok" and row.get("median_s")]
    kept = list(_above_the_floor(rows))
    return [*_singles(kept), *_backwards(kept)]


def _above_the_floor(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    def which(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in ("ladder", "op", "layout", "precision"))

    floors: dict[tuple[Any, ...], float] = {}
    device: dict[int, float] = {}
    # What a device takes to move bytes is at most what it takes for more of them.
    for row in sorted(rows, key=lambda row: -float(row.get("bytes") or 0.0)):
        floors[which(row)] = min(floors.get(which(row), row["median_s"]), row["median_s"])
        device[id(row)] = row["median_s"] if row.get("flops") or not row.get("bytes") else floors[which(row)]
    for row in rows:
        if row.get("ladder") == "attention":
            floor = ATTENTION_LAUNCHES[row["direction"]] * launch_s(rows)
        else:
            floor = (ABOVE_FLOOR if row.get("ladder") == "gemm" else MOVED_ABOVE_FLOOR) * floors[which(row)]
        if device[id(row)] >= floor:
            yield row


def launch_s(rows: Iterable[Mapping[str, Any]]) -> float:
    """Seconds of one bare launch, 0 where it was not probed."""
    return next((float(row["launch_s"]) for row in rows if row.get("ladder") == "launch" and row["op"] == "op"), 0.0)


def points_of_profile(found: OpList) -> list[Point]:
    """One point for each distinct call of a profile whose kernels are known: the median of its executions."""
    seen: dict[tuple[int, str], list[float]] = {}
    for call in found.calls:
        if call.kind == "kernel" and call.measured_s and not call.compiled:
            seen.setdefault((call.signature, call.phase), []).append(call.measured_s)
    points = []
    for (at, phase), times in seen.items():
        s = found.signatures[at]
        if not s.inputs or not is_known(s.op):
            continue
        ops = tuple(kernels_of(s))
        if phase == Phase.OPTIMIZER:
            for op in ops:
                op.category = Category.OPTIMIZER
        group = group_of(ops)
        if group:
            median = sorted(times)[len(times) // 2]
            shapes = ", ".join("×".join(map(str, one.shape)) for one in s.inputs[:3])
            points.append(Point(group=group, ops=ops, seconds=median, what=f"{s.op} {shapes}"))
    return points


def group_of(ops: tuple[Op, ...]) -> str:
    """The group that a call's kernels belong to, "" where several share them."""
    kinds = {_group(op) for op in ops}
    return kinds.pop() if len(kinds) == 1 else ""


def _group(op: Op) -> str:
    if op.kind == "gemm":
        if op.fetched in UNALIGNED and op.precision != "fp32":
            return {1: "unaligned products", 2: "products in pairs", 4: "products in fours"}[op.fetched]
        return {"tf32": "tf32 products", "fp32": "fp32 products"}.get(op.precision, "products")
    if op.kind == "attention":
        return "fp32 attention" if op.precision in VECTOR else "attention"
    if op.kind == "transfer":
        return "copies of pageable memory" if op.efficiency == "host_pageable_bytes_per_s" else "copies to the host"
    if op.category == Category.OPTIMIZER:
        return "optimizer"
    if any(word in op.name for word in COMPUTED):
        return ""
    if op.walked_elements:
        return ""
    if op.column_bytes:
        return "column kernels"
    if "norm" in op.name:
        return "norm kernels" if op.reduced_bytes else ""
    slow = bool(op.strided_elements > 0), bool(op.mixed_elements > 0)
    return {(False, False): "contiguous kernels", (True, False): "strided kernels", (False, True): "mixed kernels"}.get(
        slow, ""
    )


def _point(signature: Signature, seconds: float, what: str, *, optimizer: bool = False) -> list[Point]:
    ops = tuple(kernels_of(signature))
    if optimizer:
        for op in ops:
            op.category = Category.OPTIMIZER
    group = group_of(ops)
    return [Point(group=group, ops=ops, seconds=seconds, what=what, gaps=True)] if group else []


def _singles(rows: list[dict[str, Any]]) -> Iterator[Point]:
    for row in rows:
        ladder = str(row.get("ladder", ""))
        signature = _SIGNATURES[ladder](row) if ladder in _SIGNATURES else None
        if signature is not None:
            yield from _point(signature, float(row["median_s"]), _what(row))


def _what(row: Mapping[str, Any]) -> str:
    named = ("ladder", "op", "m", "n", "k", "layout", "seq_len", "head_dim", "direction", "size_bytes", "precision")
    return " ".join(str(row[name]) for name in named if name in row)


def _gemm(row: Mapping[str, Any]) -> Signature:
    m, n, k = int(row["m"]), int(row["n"]), int(row["k"])
    dtype = DTYPES[row["precision"]]

    def of(rows: int, columns: int, transposed: bool = False) -> Operand:
        if transposed:
            return Operand(shape=(columns, rows), dtype=dtype, strides=(1, columns))
        return Operand(shape=(rows, columns), dtype=dtype)

    inputs, result = {
        "forward": ((of(m, k), of(n, k, True)), of(m, n)),
        "input-gradient": ((of(m, n), of(n, k)), of(m, k)),
        "weight-gradient": ((of(m, n, True), of(m, k)), of(n, k)),
    }[row["layout"]]
    return Signature(op="aten::mm", inputs=inputs, outputs=(result,), arguments={"tf32": row["precision"] == "tf32"})


def _attention(row: Mapping[str, Any]) -> Signature | None:
    """Forward of the attention that torch chooses; fp32 of grouped heads runs unfused, and is no point."""
    fused = row["precision"] != "fp32" or row["heads"] == row["kv_heads"]
    if row["direction"] != "forward" or not fused:
        return None
    return Signature(op="aten::scaled_dot_product_attention", inputs=_qkv(row), arguments={"is_causal": True})


def _qkv(row: Mapping[str, Any]) -> tuple[Operand, Operand, Operand]:
    dtype = DTYPES[row["precision"]]
    queries, keys = (
        Operand(shape=(int(row["batch"]), int(row[heads]), int(row["seq_len"]), int(row["head_dim"])), dtype=dtype)
        for heads in ("heads", "kv_heads")
    )
    return queries, keys, keys


def _backwards(rows: list[dict[str, Any]]) -> Iterator[Point]:
    """Attention's backward: both passes less the forward of the same shape."""
    named = ("batch", "heads", "kv_heads", "seq_len", "head_dim", "precision")
    probed = [row for row in rows if row.get("ladder") == "attention" and _attention({**row, "direction": "forward"})]
    forward = {tuple(row[k] for k in named): row["median_s"] for row in probed if row["direction"] == "forward"}
    for row in probed:
        key = tuple(row[k] for k in named)
        if row["direction"] == "forward-backward" and key in forward:
            s = Signature(
                op="aten::_scaled_dot_product_cudnn_attention_backward",
                inputs=(_qkv(row)[0], *_qkv(row)),
                arguments={"is_causal": True},
            )
            yield from _point(s, row["median_s"] - forward[key], _what(row).replace("forward-", ""))


def _elementwise(row: Mapping[str, Any]) -> Signature | None:
    dtype = DTYPES[row["precision"]]
    count = int(row["size_bytes"]) // (4 if dtype == "float32" else 2)
    one = Operand(shape=(count,), dtype=dtype)
    wide = Operand(shape=(count,), dtype="float32")
    # Neither "add transposed" nor "transposed copy": their rows lie powers of two apart, where one cache set must hold
    # them all. That takes 1.5 times as long as a cast of as many elements, which is what steps are full of.
    found: dict[str, Signature] = {
        "add": Signature(op="aten::add", inputs=(one, one), outputs=(one,)),
        "scale in place": Signature(op="aten::mul_", inputs=(one,), outputs=(one,)),
        "gelu": Signature(op="aten::gelu", inputs=(one,), outputs=(one,)),
        "add fp32": Signature(op="aten::add", inputs=(one, wide), outputs=(wide,)),
        "cat": Signature(op="aten::cat", inputs=(one, one), outputs=(Operand(shape=(2 * count,), dtype=dtype),)),
    }
    if dtype != "float32":
        found["to fp32"] = Signature(op="aten::_to_copy", inputs=(one,), outputs=(wide,))
    return found.get(row["op"])


def _reduction(row: Mapping[str, Any]) -> Signature | None:
    dtype = DTYPES[row["precision"]]
    count = int(row["size_bytes"]) // (4 if dtype == "float32" else 2)
    lengths = {"softmax, wide": min(count, 2**17), "sum": count}
    length = lengths.get(row["op"], 1024)
    one = Operand(shape=(count // length, length), dtype=dtype)
    few = Operand(shape=(count // length, 1), dtype="float32")
    weight = Operand(shape=(length,), dtype=dtype)
    found = {
        "sum": Signature(op="aten::sum", inputs=(one,), outputs=(Operand(shape=(), dtype=dtype),)),
        "softmax": Signature(op="aten::_softmax", inputs=(one,), outputs=(one,), arguments={"dim": -1}),
        "softmax, wide": Signature(op="aten::_softmax", inputs=(one,), outputs=(one,), arguments={"dim": -1}),
        "layer norm": Signature(op="aten::native_layer_norm", inputs=(one,), outputs=(one, few, few)),
        "layer norm backward": Signature(
            op="aten::native_layer_norm_backward", inputs=(one, one, few, few), outputs=(one, weight, weight)
        ),
    }
    return found.get(row["op"])


def _copy(row: Mapping[str, Any]) -> Signature | None:
    one = Operand(shape=(int(row["size_bytes"]) // 4,), dtype="float32")
    if row["op"] == "device-device":
        return Signature(op="aten::copy_", inputs=(one, one), outputs=(one,))
    if row["op"] in ("pinned-device", "device-pinned"):
        return Signature(op="aten::copy_", inputs=(one,), outputs=(one,), arguments={"direction": row["op"]})
    if row["op"] in ("host-device", "device-host"):
        arguments = {"direction": row["op"], "host": "pageable"}
        return Signature(op="aten::copy_", inputs=(one,), outputs=(one,), arguments=arguments)
    return None


_SIGNATURES = {
    "gemm": _gemm, "attention": _attention, "elementwise": _elementwise, "reduction": _reduction, "copy": _copy,
}  # fmt: skip
"""A probe's row as the ATen op that it ran, by ladder."""
