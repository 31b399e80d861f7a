"""Loops: what a GPU draws and at which clock it works while one thing goes on and on, and fp32 attention alone.

``python -m benchmarks.loops power OUT.json`` repeats products, attention, kernels and some of them in turns for 1.6 s
each, and notes power and clock of the last 0.6 s beside the seconds of a turn; then products of models' sizes, one at
a time. ``python -m benchmarks.loops attention OUT.json`` times fused attention in fp32, causal and not, for few heads
and many; ``python -m benchmarks.loops updates OUT.json`` AdamW's kernels over one tensor of so many chunks. Tests hold
predictions against what an H100 and an H200 gave (h100_power.json, h200_power.json, h100_fp32_attention.json and
h200_updates.json in tests/reference).
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from runners.clocks import clocks

SECONDS, SETTLED_FRAC, COLD_S = 1.6, 0.6, 0.25
ROWS, COLUMNS, INNER = 8192, 8192, 4096
STREAM = 1 << 29
BATCH, HEADS, WIDTH = 4, 32, 128
PRODUCTS = (
    *((2048, n, k) for n, k in ((3840, 1280), (1280, 1280), (5120, 1280), (1280, 5120), (50_257, 1280))),
    *((4096, n, k) for n, k in ((7680, 2560), (2560, 2560), (10_240, 2560), (2560, 10_240), (50_368, 2560))),
    *((1024, n, k) for n, k in ((4096, 4096), (11_008, 4096), (4096, 11_008), (32_000, 4096))),
    (2048, 2048, 2048),
    (4096, 4096, 4096),
)
WIDTHS, LENGTHS = (64, 96, 128), (256, 512, 1024, 2048, 4096)
MANY = (4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
MOST_ROWS = 262_144
CHUNK, CHUNKS = 65_536, (16, 64, 132, 200, 256, 264, 272, 320, 384, 512, 584, 640, 960, 1280, 2560, 5120)
"""Elements of a chunk of PyTorch's kernels over many tensors, and of how many one tensor is made."""
ASLEEP_CYCLES = 400_000
"""The device sleeps so long before a call alone is timed, so that the host has launched all of it by then."""

Work = Callable[[], object]


def dtype_of(precision: str) -> torch.dtype:
    """Type of operands; sets whether fp32 products may be tf32."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    return torch.bfloat16 if precision == "bf16" else torch.float32


def random(*shape: int, dtype: torch.dtype) -> Tensor:
    """Numbers of a twentieth of a standard normal, as activations have."""
    return torch.randn(*shape, device="cuda", dtype=dtype) * 0.05


def row_s(work: Work, times: int) -> float:
    """Seconds of one of so many calls in a row, by events."""
    begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begun.record()
    for _ in range(times):
        work()
    ended.record()
    torch.cuda.synchronize()
    return float(begun.elapsed_time(ended)) * 1e-3 / times


def alone_s(work: Work, asleep_cycles: int = ASLEEP_CYCLES) -> float:
    """Median seconds of a call that is launched while the device sleeps."""
    row_s(work, 2)
    found = []
    for _ in range(5):
        torch.cuda._sleep(asleep_cycles)
        found.append(row_s(work, 1))
    return statistics.median(found)


def looped(name: str, work: Work, flops: float, moved_bytes: float) -> dict[str, Any]:
    """One loop: seconds of its first turns and of its last, and what the device drew and its clock meanwhile."""
    work()
    torch.cuda.synchronize()
    time.sleep(COLD_S)
    cold_s = row_s(work, 3)
    times = max(1, int(0.1 / cold_s))
    begin_s, rows, read = time.monotonic(), list[float](), list[dict[str, float]]()
    while (elapsed_s := time.monotonic() - begin_s) < SECONDS:
        for _ in range(times):
            work()
        if elapsed_s > SETTLED_FRAC * SECONDS:
            read.append(clocks(cuda=True))
        rows.append(row_s(work, times))
    last = rows[int(SETTLED_FRAC * len(rows)) :]
    found = {
        "name": name, "cold_s": cold_s, "each_s": statistics.fmean(last), "flops": flops, "bytes": moved_bytes,
        "instant_w": statistics.fmean(one["power_w"] for one in read),
        "clock_mhz": statistics.fmean(one["sm_clock_hz"] for one in read) / 1e6,
    }  # fmt: skip
    torch.cuda.empty_cache()
    return found


def loops() -> Iterator[tuple[str, Work, float, float]]:
    """Name, work, FLOPs and bytes of each loop."""
    stream, written = random(STREAM, dtype=torch.bfloat16), torch.empty(STREAM, device="cuda", dtype=torch.bfloat16)
    copied = 4.0 * STREAM

    def copy() -> object:
        return written.copy_(stream)

    yield "copy", copy, 0.0, copied
    yield "gelu", lambda: F.gelu(stream), 0.0, copied
    flops = 2.0 * ROWS * COLUMNS * INNER
    for precision in ("bf16", "tf32", "fp32"):
        dtype = dtype_of(precision)
        x, w, g = (random(*shape, dtype=dtype) for shape in ((ROWS, INNER), (COLUMNS, INNER), (ROWS, COLUMNS)))
        moved = float(dtype.itemsize * (x.numel() + w.numel() + g.numel()))

        def forward(x: Tensor = x, w: Tensor = w) -> object:
            return x @ w.t()

        def weight(x: Tensor = x, g: Tensor = g) -> object:
            return g.t() @ x

        yield f"{precision} forward", forward, flops, moved
        yield f"{precision} weight", weight, flops, moved
        for products, copies in {"bf16": ((1, 1), (2, 1)), "tf32": ((1, 1), (1, 2)), "fp32": ((1, 1),)}[precision]:

            def turns(forward: Work = forward, products: int = products, copies: int = copies) -> object:
                return [*(forward() for _ in range(products)), *(copy() for _ in range(copies))]

            name = f"{precision}{f'x{products}' if products > 1 else ''}+{copies if copies > 1 else ''}copy"
            yield name, turns, products * flops, products * moved + copies * copied
    for precision, length in (("bf16", 4096), ("tf32", 2048), ("fp32", 2048)):
        forward, backward = attention_of(precision, BATCH, HEADS, length, WIDTH, causal=True)
        flops = 4.0 * BATCH * HEADS * length**2 * WIDTH / 2
        yield f"{precision} attention forward", forward, flops, 0.0
        yield f"{precision} attention backward", backward, 2.5 * flops, 0.0


def attention_of(precision: str, batch: int, heads: int, length: int, width: int, *, causal: bool) -> tuple[Work, Work]:
    """Forward and backward of fused attention."""
    q, k, v = (random(batch, heads, length, width, dtype=dtype_of(precision)).requires_grad_() for _ in range(3))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    gradient = torch.randn_like(out)

    def forward() -> object:
        with torch.no_grad():
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return forward, lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True)


def products() -> Iterator[dict[str, Any]]:
    """Products of models' sizes, forward and both gradients, one at a time."""
    for precision, (m, n, k) in itertools.product(("fp32", "tf32", "bf16"), PRODUCTS):
        dtype = dtype_of(precision)
        x, w, g = (random(*shape, dtype=dtype) for shape in ((m, k), (n, k), (m, n)))
        works = {"forward": (x, w.t()), "input": (g, w), "weight": (g.t(), x)}
        times = {f"{name}_s": alone_s(lambda a=a, b=b: a @ b) for name, (a, b) in works.items()}  # type: ignore[misc]
        yield {"precision": precision, "m": m, "n": n, "k": k, **times}


def fp32_attention() -> dict[str, Any]:
    """Fused attention in fp32 of every shape, alone."""
    columns, rows = ["causal", "heads", "tokens", "head_dim", "forward_s", "backward_s"], list[list[Any]]()
    for causal, width, length, heads in itertools.product((True, False), WIDTHS, LENGTHS, MANY):
        if heads * length <= MOST_ROWS:
            works = attention_of("tf32", 1, heads, length, width, causal=causal)
            rows.append([causal, heads, length, width, *map(alone_s, works)])
    return {"columns": columns, "rows": rows}


def updates() -> dict[str, Any]:
    """AdamW of one tensor, fused and in kernels that go over all tensors, alone on the device."""
    columns, rows = ["kernel", "precision", "chunks", "seconds"], list[list[Any]]()
    for kernel, precision, chunks in itertools.product(("fused", "foreach"), ("fp32", "bf16"), CHUNKS):
        parameter = torch.nn.Parameter(random(chunks * CHUNK, dtype=dtype_of(precision)))
        parameter.grad = torch.randn_like(parameter)
        made = torch.optim.AdamW([parameter], lr=1e-4, fused=kernel == "fused", foreach=kernel == "foreach")
        rows.append([kernel, precision, chunks, alone_s(made.step, 10 * ASLEEP_CYCLES)])
    return {"columns": columns, "rows": rows}


def main() -> int:
    """Run the loops, or the attentions, and write what they took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("power", "attention", "updates"))
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU here, nothing to loop on")
        return 1
    if given.what == "power":
        found: dict[str, Any] = {"loops": [looped(*one) for one in loops()], "products": list(products())}
    else:
        found = fp32_attention() if given.what == "attention" else updates()
    given.out.write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
