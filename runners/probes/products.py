"""Ladders of matrix products and attention, from small to large, by the shapes that training has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from runners.probes.probe import DTYPES, Probe, random_tensor, rotating

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
APART = 5
"""Places in the ladder between two shapes that follow one another."""
LAYOUTS = ("forward", "input-gradient", "weight-gradient")
SMALL_GEMM_SHAPES = ((64, 64, 64), (128, 256, 128), (33, 65, 31))


def gemms(cuda: bool, small: bool) -> Iterator[Probe]:
    """Forward X·Wᵀ, gradient of the input G·W and of the weight Gᵀ·X, in the layouts that a linear gives them.

    Precisions and layouts take turns, over sizes far apart: who has time for a part of them has some of each.
    """
    shapes = SMALL_GEMM_SHAPES if small else tuple(dict.fromkeys(GEMM_SHAPES))
    shapes = tuple(shape for first in range(APART) for shape in shapes[first::APART])
    precisions = ("bf16", "tf32", "fp32", "fp16") if cuda else ("fp32", "bf16")
    for turn in range(len(LAYOUTS)):
        for place, (m, n, k) in enumerate(shapes):
            for later, precision in enumerate(precisions):
                if (precision == "fp32" and m * n * k > 2**38) or (precision == "fp16" and m != n):
                    continue  # slow, and no different from bf16
                layout = LAYOUTS[(turn + place + later) % len(LAYOUTS)]
                columns = {"m": m, "n": n, "k": k, "layout": layout}
                size = DTYPES[precision].itemsize
                yield Probe(
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
            return random_tensor(first, dtype, device), random_tensor(second, dtype, device)

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


def attentions(cuda: bool, small: bool) -> Iterator[Probe]:
    """Causal scaled_dot_product_attention as torch chooses it, forward, and forward with backward."""
    for precision in ("bf16", "fp32") if cuda else ("fp32",):
        for batch, heads, kv_heads, length, dim in SMALL_ATTENTION_SHAPES if small else ATTENTION_SHAPES:
            if precision == "fp32" and length > 4096:
                continue
            square = 2.0 * batch * heads * length**2 * dim
            for direction in ("forward", "forward-backward"):
                columns = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "seq_len": length, "head_dim": dim}
                yield Probe(
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
            counts = (heads, kv_heads, kv_heads, heads)
            q, k, v, gradient = (random_tensor((batch, count, length, dim), dtype, device) for count in counts)
            return *(x.requires_grad_(backward) for x in (q, k, v)), gradient

        def use(tensors: tuple[Tensor, ...]) -> object:
            q, k, v, gradient = tensors
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != kv_heads)
            return torch.autograd.grad(out, (q, k, v), gradient) if backward else out

        size = dtype.itemsize
        return rotating(device, 4.0 * batch * heads * length * dim * size, make, use)

    return build
