"""Rungs of the calibration ladder: what is probed, from small to large, with the operations and bytes of each.

Every rung gives its work as calls over several sets of random inputs, so that no cache holds what a step would read
from memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
SETS_BYTES = {"cpu": 2**26, "cuda": 2**28}
"""Inputs are rotated until their sets hold so much, several times the last-level cache of either."""
MOST_SETS = 64

Columns = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One thing to time: ``build`` makes the call when its turn comes; FLOPs and bytes are of one call."""

    ladder: str
    columns: Columns
    build: Callable[[str], Callable[[], object]]
    flops: float = 0.0
    bytes: float = 0.0
    precision: str = field(default="fp32")


def rotating(
    device: str, bytes_each: float, make: Callable[[], Any], use: Callable[[Any], object]
) -> Callable[[], object]:
    """A call that uses the next of several sets of inputs each time."""
    sets = max(1, min(MOST_SETS, math.ceil(SETS_BYTES[torch.device(device).type] / max(1.0, bytes_each))))
    turn = cycle([make() for _ in range(sets)])
    return lambda: use(next(turn))


# Products: m tokens, k inputs, n outputs. Square ones; those of language models; and some that no tile divides.
GEMM_SHAPES = (
    *((size, size, size) for size in (256, 512, 1024, 2048, 4096, 8192)),
    *((tokens, n, k) for tokens in (512, 2048, 8192) for n, k in ((768, 768), (3072, 768), (768, 3072))),
    *((tokens, n, k) for tokens in (512, 2048, 8192) for n, k in ((1600, 1600), (6400, 1600), (1600, 6400))),
    *((tokens, n, k) for tokens in (1024, 4096, 16_384) for n, k in ((4096, 4096), (14_336, 4096), (4096, 14_336))),
    (2048, 50_257, 768),
    (2048, 50_304, 768),
    (4096, 32_000, 2048),
    (1000, 1000, 1000),
    (2047, 2049, 2051),
    (4097, 4095, 4096),
    (33, 4096, 4096),
    (1, 4096, 4096),
    (16, 4096, 4096),
)
SMALL_GEMM_SHAPES = ((64, 64, 64), (128, 256, 128), (33, 65, 31))


def gemms(cuda: bool, small: bool) -> Iterator[Rung]:
    """Forward X·Wᵀ, gradient of the input G·W and of the weight Gᵀ·X, in the layouts that a linear gives them."""
    shapes = SMALL_GEMM_SHAPES if small else GEMM_SHAPES
    precisions = ("bf16", "fp16", "tf32", "fp32") if cuda else ("fp32", "bf16")
    for precision in precisions:
        for m, n, k in shapes:
            if (precision == "fp32" and m * n * k > 2**38) or (precision == "fp16" and m != n):
                continue  # slow, and no different from bf16
            for layout in ("forward", "input-gradient", "weight-gradient"):
                columns = {"m": m, "n": n, "k": k, "layout": layout}
                size = DTYPES[precision].itemsize
                yield Rung(
                    ladder="gemm",
                    columns=columns,
                    build=_gemm(m, n, k, layout, DTYPES[precision]),
                    flops=2.0 * m * n * k,
                    bytes=size * (m * k + n * k + m * n),
                    precision=precision,
                )


def _gemm(m: int, n: int, k: int, layout: str, dtype: torch.dtype) -> Callable[[str], Callable[[], object]]:
    def build(device: str) -> Callable[[], object]:
        def make() -> tuple[Tensor, Tensor]:
            x, w, g = ((m, k), (n, k), (m, n))
            first, second = {"forward": (x, w), "input-gradient": (g, w), "weight-gradient": (g, x)}[layout]
            return _random(first, dtype, device), _random(second, dtype, device)

        def use(pair: tuple[Tensor, Tensor]) -> object:
            a, b = pair
            if layout == "forward":
                return torch.mm(a, b.t())
            return torch.mm(a, b) if layout == "input-gradient" else torch.mm(a.t(), b)

        size = dtype.itemsize
        return rotating(device, size * (m * k + n * k + m * n), make, use)

    return build


# Batch, heads, key heads, length, width of a head
ATTENTION_SHAPES = (
    *((max(1, 16_384 // length), 16, 16, length, 64) for length in (256, 1024, 4096, 16_384)),
    *((max(1, 8192 // length), 32, 8, length, 128) for length in (256, 1024, 4096, 16_384)),
)
SMALL_ATTENTION_SHAPES = ((1, 2, 2, 64, 16), (1, 4, 2, 32, 16))


def attentions(cuda: bool, small: bool) -> Iterator[Rung]:
    """Causal scaled_dot_product_attention as torch chooses it, forward, and forward with backward."""
    for precision in ("bf16", "fp32") if cuda else ("fp32",):
        for batch, heads, kv_heads, length, dim in SMALL_ATTENTION_SHAPES if small else ATTENTION_SHAPES:
            if precision == "fp32" and length > 4096:
                continue
            square = 2.0 * batch * heads * length**2 * dim
            for direction in ("forward", "forward-backward"):
                columns = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "seq_len": length, "head_dim": dim}
                yield Rung(
                    ladder="attention",
                    columns={**columns, "direction": direction},
                    build=_attention(batch, heads, kv_heads, length, dim, direction, DTYPES[precision]),
                    flops=square * (2 if direction == "forward" else 7),
                    precision=precision,
                )


def _attention(
    batch: int, heads: int, kv_heads: int, length: int, dim: int, direction: str, dtype: torch.dtype
) -> Callable[[str], Callable[[], object]]:
    def build(device: str) -> Callable[[], object]:
        backward = direction != "forward"

        def make() -> tuple[Tensor, ...]:
            counts = (heads, kv_heads, kv_heads)
            q, k, v = (_random((batch, count, length, dim), dtype, device).requires_grad_(backward) for count in counts)
            return q, k, v, _random((batch, heads, length, dim), dtype, device)

        def use(tensors: tuple[Tensor, ...]) -> object:
            q, k, v, gradient = tensors
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != kv_heads)
            return torch.autograd.grad(out, (q, k, v), gradient) if backward else out

        size = dtype.itemsize
        return rotating(device, 4.0 * batch * heads * length * dim * size, make, use)

    return build


SIZES = tuple(2**power for power in range(12, 31, 2))
SMALL_SIZES = (2**12, 2**16)

ELEMENTWISE: dict[str, tuple[Callable[[Tensor, Tensor], object], float]] = {
    "add": (lambda x, y: torch.add(x, y), 3.0),
    "scale in place": (lambda x, y: x.mul_(1.0), 2.0),
    "gelu": (lambda x, y: F.gelu(x), 2.0),
    "to fp32": (lambda x, y: x.float(), 0.0),
    "add transposed": (lambda x, y: x.view(64, -1).t() + y.view(-1, 64), 3.0),
}
"""Call, and how often a tensor of the inputs' size is read or written; 0: see ``_passes``."""

REDUCTIONS: dict[str, tuple[Callable[[Tensor], object], float]] = {
    "sum": (lambda x: x.sum(), 1.0),
    "row mean of squares": (lambda x: x.view(-1, 1024).pow(2).mean(-1), 3.0),
    "softmax": (lambda x: F.softmax(x.view(-1, 1024), dim=-1), 2.0),
    "layer norm": (lambda x: F.layer_norm(x.view(-1, 1024), (1024,)), 2.0),
}


def elementwise(cuda: bool, small: bool) -> Iterator[Rung]:
    """Bandwidth of element-wise kernels against the size of one input, in bytes."""
    for precision in ("bf16", "fp32"):
        for name, (call, passes) in ELEMENTWISE.items():
            for size in SMALL_SIZES if small else SIZES[: None if cuda else -3]:
                yield _streaming("elementwise", name, precision, size, _passes(passes, precision), call)


def reductions(cuda: bool, small: bool) -> Iterator[Rung]:
    """Bandwidth of reductions and row-wise normalisations against the size of the input, in bytes."""
    for precision in ("bf16", "fp32"):
        for name, (call, passes) in REDUCTIONS.items():
            for size in SMALL_SIZES if small else SIZES[: None if cuda else -3]:
                yield _streaming("reduction", name, precision, size, passes, _of_first(call))


def _of_first(call: Callable[[Tensor], object]) -> Callable[[Tensor, Tensor], object]:
    return lambda x, _: call(x)


def _passes(passes: float, precision: str) -> float:
    """A cast to fp32 writes four bytes for each element that it reads."""
    return passes or 1.0 + 4.0 / DTYPES[precision].itemsize


def _streaming(
    ladder: str, name: str, precision: str, size: int, passes: float, call: Callable[[Tensor, Tensor], object]
) -> Rung:
    dtype = DTYPES[precision]
    count = size // dtype.itemsize

    def build(device: str) -> Callable[[], object]:
        def make() -> tuple[Tensor, Tensor]:
            return _random((count,), dtype, device), _random((count,), dtype, device)

        return rotating(device, passes * size, make, lambda pair: call(*pair))

    return Rung(
        ladder=ladder, columns={"op": name, "size_bytes": size}, build=build, bytes=passes * size, precision=precision
    )


def copies(cuda: bool, small: bool) -> Iterator[Rung]:
    """Copies inside device memory, and between it and host memory that is pinned or not."""
    ways = ("device-device", "host-device", "device-host", "pinned-device", "device-pinned") if cuda else ("host-host",)
    for way in ways:
        for size in SMALL_SIZES if small else SIZES[2 : None if way == "device-device" else -2 : 2]:
            touched = 2.0 * size if way in ("device-device", "host-host") else float(size)
            columns = {"op": way, "size_bytes": size}
            yield Rung(ladder="copy", columns=columns, build=_copy(way, size), bytes=touched)


def _copy(way: str, size: int) -> Callable[[str], Callable[[], object]]:
    def build(device: str) -> Callable[[], object]:
        source, _, target = way.partition("-")

        def place(where: str) -> Tensor:
            data = torch.randn(size // 4, device=device if where == "device" else "cpu")
            return data.pin_memory() if where == "pinned" else data

        sets = 1 if "host" in way else None
        bytes_each = float(SETS_BYTES[torch.device(device).type]) if sets else 2.0 * size
        return rotating(
            device,
            bytes_each,
            lambda: (place(source), place(target)),
            lambda pair: pair[1].copy_(pair[0], non_blocking=True),
        )

    return build


def _random(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> Tensor:
    return torch.randn(shape, device=device, dtype=dtype)


TABLES: dict[str, Callable[[bool, bool], Iterator[Rung]]] = {
    "gemm": gemms,
    "attention": attentions,
    "elementwise": elementwise,
    "reduction": reductions,
    "copy": copies,
}
