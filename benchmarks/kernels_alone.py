"""Kernels alone: what one takes on an idle device, by its sizes, and products between copies at the clock they leave.

``python -m benchmarks.kernels_alone WHAT OUT.json`` on a GPU. ``products``: of models' sizes forward and both
gradients, of one result by how deep they are, scores and values of heads, fp8 beside bf16. ``scores``: softmax of rows
with and without a mask, and what goes over scores beside it. ``chains``: kernels one after another in a CUDA graph,
reading what the last one wrote or what is long gone. ``turns``: products in turns with copies and other kernels for a
second each, every kernel timed apart, with clock and power. Tests hold predictions against what H200s gave
(h200_products.json, h200_scores.json, h200_cache_chains.json and h200_power_turns.json in tests/reference).
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from benchmarks.loops import alone_s, dtype_of, random

Work = Callable[[], object]

EVENTS_S = 2e-6
"""What events around a call take beside the kernel: kernel tables of the same products say 2.0 to 2.2 µs less."""
TOKENS = (512, 1024, 2048, 4096)
WEIGHTS = (
    (4800, 1600), (1600, 1600), (6400, 1600), (1600, 6400), (15_360, 5120), (5120, 5120), (13_824, 5120),
    (5120, 13_824), (9216, 3072), (3072, 3072), (12_288, 3072), (3072, 12_288), (2048, 2048), (6144, 2048),
    (8192, 2048), (2048, 8192), (18_432, 6144), (6144, 6144), (24_576, 6144), (3840, 1280), (1280, 1280),
    (5120, 1280), (1280, 5120), (2304, 768), (768, 768), (3072, 768), (768, 3072), (3072, 1024), (1024, 1024),
    (4096, 1024), (1024, 4096),
)  # fmt: skip
RESULTS = ((6144, 6144), (9216, 2304), (4096, 14_336), (2048, 8192), (5120, 5120))
DEPTHS = (64, 128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192)
LONGEST_FLOPS = 3e11
"""fp32 products of more take ten times as long as all others."""
HEADS = ((16, 128), (64, 64), (32, 64))
LENGTHS = (1024, 2048, 4096, 8192)
MOST_SCORES = 2**31 + 2**28
NARROW = (
    *((m, n, k) for m in (1024, 2048, 4096, 8192) for n, k in (
        (6144, 4096), (4096, 4096), (14_336, 4096), (4096, 14_336), (28_672, 8192), (8192, 28_672), (12_288, 1536),
        (6144, 12_288), (12_288, 6144))),
    *((6144, 6144, k) for k in (128, 256, 512, 1024, 2048, 4096, 8192)),
)  # fmt: skip
ROWS = (512, 1024, 1536, 2048, 3072, 4096, 5120, 6144, 7168, 8192, 12_288, 16_384)
ELEMENTS = 2**28
CHAIN_MIB = (1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 64, 128)
CHAINED_MIB, FEWEST, MOST = 3072, 8, 96
TURN_S, ASKED_S = 1.3, (0.5, 0.75)
TURN = (4096, 9216, 2304)
COPY_MIB = 75


def products() -> dict[str, Any]:
    """Seconds of every product less what events take; ``layout`` says which of a layer's three it is."""
    rows = [*layers(), *deep(), *of_heads(), *narrow()]
    return {"columns": ["precision", "layout", "batch", "m", "n", "k", "seconds"], "rows": rows}


def layers() -> Iterator[list[Any]]:
    """Forward X·Wᵀ, an input's gradient G·W and a weight's Gᵀ·X of layers of models."""
    for precision, (n, k), m in itertools.product(("fp32", "tf32", "bf16"), WEIGHTS, TOKENS):
        if precision == "fp32" and 2.0 * m * n * k > LONGEST_FLOPS:
            continue
        dtype = dtype_of(precision)
        x, w, g = (random(*shape, dtype=dtype) for shape in ((m, k), (n, k), (m, n)))
        yield [precision, "forward", 1, m, n, k, product_s(x, w.t())]
        yield [precision, "input", 1, m, k, n, product_s(g, w)]
        yield [precision, "weight", 1, n, k, m, product_s(g.t(), x)]


def deep() -> Iterator[list[Any]]:
    """One result by how much is summed into it, in a weight's layout and forward's."""
    for precision, (m, n), k in itertools.product(("bf16", "tf32", "fp32"), RESULTS, DEPTHS):
        if precision == "fp32" and 2.0 * m * n * k > LONGEST_FLOPS:
            continue
        dtype = dtype_of(precision)
        x, w = random(k, n, dtype=dtype), random(k, m, dtype=dtype)
        yield [precision, "weight", 1, m, n, k, product_s(w.t(), x)]
        yield [precision, "forward", 1, m, n, k, product_s(w.t().contiguous(), x.t().contiguous().t())]


def of_heads() -> Iterator[list[Any]]:
    """Scores and weighted values of many heads at once."""
    for precision, (heads, width), length in itertools.product(("bf16", "fp32"), HEADS, LENGTHS):
        if heads * length**2 * (2 if precision == "bf16" else 4) > MOST_SCORES:
            continue
        dtype = dtype_of(precision)
        q, k = (random(heads, length, width, dtype=dtype) for _ in range(2))
        scores = random(heads, length, length, dtype=dtype)
        yield [precision, "scores", heads, length, length, width, product_s(q, k.transpose(1, 2))]
        yield [precision, "values", heads, length, width, length, product_s(scores, k)]


def narrow() -> Iterator[list[Any]]:
    """fp8 by fp8 to bf16, with fast sums, and bf16 products of the same sizes in the same turn."""
    one = torch.ones((), device="cuda")
    for m, n, k in NARROW:
        a, b = random(m, k, dtype=torch.bfloat16), random(n, k, dtype=torch.bfloat16)
        x, w = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)

        def scaled(x: Tensor = x, w: Tensor = w) -> object:
            return torch._scaled_mm(x, w.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True)

        yield ["fp8", "forward", 1, m, n, k, alone_s(scaled) - EVENTS_S]
        yield ["bf16", "beside fp8", 1, m, n, k, product_s(a, b.t())]


def product_s(a: Tensor, b: Tensor) -> float:
    """Seconds of one product on an idle device."""
    return alone_s(lambda: a @ b) - EVENTS_S


def scores() -> dict[str, Any]:
    """Picoseconds an element: softmax of rows so long, half of whose scores a causal mask takes or none, and masks."""
    softmaxes = list[list[Any]]()
    for length, precision in itertools.product(ROWS, ("fp32", "bf16")):
        count = ELEMENTS // length - (ELEMENTS // length) % length
        dtype = torch.float32 if precision == "fp32" else torch.bfloat16
        plain = random(count // length, length, length, dtype=dtype)
        above = torch.ones(length, length, dtype=torch.bool, device="cuda").triu(1)
        for masked, x in ((False, plain), (True, plain.masked_fill(above, -math.inf))):
            p = torch.softmax(x, -1)
            g = torch.randn_like(p)
            works: tuple[Work, ...] = (
                lambda x=x: torch.softmax(x, -1),  # type: ignore[misc]
                lambda g=g, p=p: torch._softmax_backward_data(g, p, -1, p.dtype),  # type: ignore[misc]
            )
            softmaxes.append([precision, length, masked, *(picoseconds(work, x.numel()) for work in works)])
            del p, g
        del plain, above
        torch.cuda.empty_cache()
    return {
        "softmax_columns": ["precision", "length", "masked", "forward_ps", "backward_ps"],
        "softmax": softmaxes,
        "beside": list(beside()),
    }


def beside() -> Iterator[dict[str, Any]]:
    """What adds a mask to scores, casts them and guards rows that are masked whole."""
    for heads, length in ((16, 1024), (64, 1024), (16, 2048), (64, 2048), (16, 4096), (16, 8192)):
        narrow_, mask = random(1, heads, length, length, dtype=torch.bfloat16), torch.zeros(length, length).cuda()
        wide, narrow_mask = narrow_.float(), mask.bfloat16()
        works: dict[str, Work] = {
            "bf16 + fp32 mask": lambda a=narrow_, b=mask: a + b,  # type: ignore[misc]
            "bf16 + bf16 mask": lambda a=narrow_, b=narrow_mask: a + b,  # type: ignore[misc]
            "fp32 + fp32 mask": lambda a=wide, b=mask: a + b,  # type: ignore[misc]
            "bf16 + fp32 alike": lambda a=narrow_, b=wide: a + b,  # type: ignore[misc]
            "to fp32": narrow_.float,
            "to bf16": wide.bfloat16,
            "safe softmax": lambda x=wide: torch._safe_softmax(x, -1),  # type: ignore[misc]
        }
        yield {"heads": heads, "length": length} | {name: picoseconds(w, wide.numel()) for name, w in works.items()}


def picoseconds(work: Work, elements: int) -> float:
    """Of each element, less what events take."""
    return round((alone_s(work) - EVENTS_S) / elements * 1e12, 3)


def chains() -> dict[str, Any]:
    """Kernels one after another in a CUDA graph: y = x·1 or y = x + z, x just written or long ago."""
    rows = [
        {"kernel": kernel, "precision": precision, "tensor_bytes": mib * 2**20, "just_written": just,
         "seconds": chained_s(kernel, precision, mib, just=just)}
        for precision, mib, kernel, just in itertools.product(
            ("bf16", "fp32"), CHAIN_MIB, ("scale", "add"), (True, False)
        )
    ]  # fmt: skip
    return {"rows": rows}


def chained_s(kernel: str, precision: str, mib: int, *, just: bool) -> float:
    """Seconds of one kernel of a chain."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    size, count = mib * 2**20 // dtype.itemsize, min(MOST, max(FEWEST, CHAINED_MIB // mib))
    tensors = [torch.ones(size, dtype=dtype, device="cuda") for _ in range(count)]
    others = [torch.ones_like(tensors[0]) for _ in range(count if kernel == "add" else 0)]

    def chain() -> None:
        for i in range(count):
            read, written = tensors[i if just else (i + count // 2) % count], tensors[(i + 1) % count]
            if kernel == "add":
                torch.add(read, others[i], out=written)
            else:
                torch.mul(read, 1.0, out=written)

    chain()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        chain()
    return statistics.median(timed_s(graph.replay) for _ in range(6)) / count


def timed_s(work: Work) -> float:
    """Seconds by events."""
    begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begun.record()
    work()
    ended.record()
    torch.cuda.synchronize()
    return float(begun.elapsed_time(ended)) * 1e-3


def turns() -> dict[str, Any]:
    """Seconds of each kernel of a loop that has gone on for a second, what the clock read and what was drawn."""
    m, n, k = TURN
    x, w, g, h = (random(*s, dtype=torch.bfloat16) for s in ((m, k), (n, k), (m, n), (m, n)))
    stream = random(COPY_MIB * 2**19, dtype=torch.bfloat16)
    written = torch.empty_like(stream)
    narrow_x, narrow_w = x.to(torch.float8_e4m3fn), w.to(torch.float8_e4m3fn)
    one = torch.ones((), device="cuda")
    works: Mapping[str, Work] = {
        "fp8": lambda: torch._scaled_mm(
            narrow_x, narrow_w.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True
        ),
        "forward": lambda: x @ w.t(), "input": lambda: g @ w, "weight": lambda: g.t() @ x,
        "copy": lambda: written.copy_(stream), "gelu": lambda: F.gelu(h), "upcast": h.float,
    }  # fmt: skip
    each = ("forward", "input", "weight")
    found = [
        turned(names, works)
        for names in (
            ("forward",), *(("forward", *("copy",) * copies) for copies in (1, 3, 5)), each,
            *(tuple(name for one in each for name in (one, *("copy",) * copies)) for copies in (1, 2)),
            ("forward", "gelu"), ("forward", "forward", "forward", "upcast"),
            *(("fp8", *("copy",) * copies) for copies in (0, 1, 2)),
        )
    ]  # fmt: skip
    return {"product": TURN, "copied_bytes": stream.nbytes, "loops": found}


def turned(names: tuple[str, ...], works: Mapping[str, Work]) -> dict[str, Any]:
    """One loop of such kernels in turns."""
    begun_s, readings, took = time.monotonic(), list[subprocess.Popen[str]](), dict[str, list[float]]()
    while (elapsed_s := time.monotonic() - begun_s) < TURN_S:
        if len(readings) < len(ASKED_S) and elapsed_s > ASKED_S[len(readings)]:
            readings.append(_asked())
        took = {name: [] for name in names}
        pairs = [(name, *_recorded(works[name])) for _ in range(max(1, 30 // len(names))) for name in names]
        torch.cuda.synchronize()
        for name, before, after in pairs:
            took[name].append(float(before.elapsed_time(after)) * 1e-3)
    told = [[float(value) for value in one.communicate()[0].split(",")] for one in readings]
    return {
        "names": names, "settled_s": {name: statistics.median(all_) for name, all_ in took.items()},
        "clock_mhz": statistics.fmean(one[1] for one in told), "instant_w": statistics.fmean(one[0] for one in told),
    }  # fmt: skip


def _recorded(work: Work) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    work()
    after.record()
    return before, after


def _asked() -> subprocess.Popen[str]:
    query = ["nvidia-smi", "--query-gpu=power.draw.instant,clocks.sm", "--format=csv,noheader,nounits", "--id=0"]
    return subprocess.Popen(query, stdout=subprocess.PIPE, text=True)


MEASURED: Mapping[str, Callable[[], dict[str, Any]]] = {
    "products": products, "scores": scores, "chains": chains, "turns": turns,
}  # fmt: skip


def main() -> int:
    """Measure what is asked for and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=MEASURED)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU here, nothing runs alone")
        return 1
    about = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    given.out.write_text(json.dumps(about | MEASURED[given.what]()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
