"""Ladders of what streams through memory: element-wise kernels, reductions and copies, by size."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from runners.probes.probe import DTYPES, SETS_BYTES, Probe, random_tensor, rotating

SIZES = tuple(2**power for power in range(12, 31, 2))
SMALL_SIZES = (2**12, 2**16)

ELEMENTWISE: dict[str, tuple[Callable[[Tensor, Tensor], object], float]] = {
    "add": (lambda x, y: torch.add(x, y), 3.0),
    "scale in place": (lambda x, y: x.mul_(1.0), 2.0),
    "gelu": (lambda x, y: F.gelu(x), 2.0),
    "to fp32": (lambda x, y: x.float(), 0.0),
    "add fp32": (lambda x, y: torch.add(x, y), -1.0),
    "cat": (lambda x, y: torch.cat((x, y)), 4.0),
    "transposed copy": (lambda x, y: x.view(64, -1).t().contiguous(), 2.0),
    "add transposed": (lambda x, y: x.view(64, -1).t() + y.view(-1, 64), 3.0),
}
"""Call, and how often a tensor of the inputs' size is read or written; 0 and −1: see ``_passes``."""

WIDE = 2**17
"""Elements of a row that no block keeps: the softmax over a large vocabulary."""

BACKWARDS: dict[str, tuple[Callable[[Tensor], tuple[object, ...]], Callable[..., object], float]] = {
    "softmax backward": (
        lambda x: (x, F.softmax(x, dim=-1)),
        lambda g, y: torch.ops.aten._softmax_backward_data(g, y, -1, y.dtype),
        3.0,
    ),
    "layer norm backward": (
        lambda x: (x, *torch.ops.aten.native_layer_norm(x, [1024], x[0], x[0], 1e-5)),
        lambda x, y, mean, rstd: torch.ops.aten.native_layer_norm_backward(
            y, x, [1024], mean, rstd, x[0], x[0], [True, True, True]
        ),
        3.0,
    ),
}
"""What is prepared of an input of rows of 1024, the call with it, and how often a tensor of its size passes."""

REDUCTIONS: dict[str, tuple[Callable[[Tensor], object], float]] = {
    "sum": (lambda x: x.sum(), 1.0),
    "row mean of squares": (lambda x: x.view(-1, 1024).pow(2).mean(-1), 3.0),
    "softmax": (lambda x: F.softmax(x.view(-1, 1024), dim=-1), 2.0),
    "layer norm": (lambda x: F.layer_norm(x.view(-1, 1024), (1024,)), 2.0),
    "softmax, wide": (lambda x: F.softmax(x.view(-1, min(x.numel(), WIDE)), dim=-1), 2.0),
}


def elementwise(cuda: bool, small: bool) -> Iterator[Probe]:
    """Bandwidth of element-wise kernels against the size of one input, in bytes."""
    for precision in ("bf16", "fp32"):
        for name, (call, passes) in ELEMENTWISE.items():
            if precision == "fp32" and name == "add fp32":
                continue  # that is "add"
            for size in SMALL_SIZES if small else SIZES[: None if cuda else -3]:
                yield _streaming("elementwise", name, precision, size, _passes(passes, precision), call)


def reductions(cuda: bool, small: bool) -> Iterator[Probe]:
    """Bandwidth of reductions and row-wise normalisations against the size of the input, in bytes."""
    for precision in ("bf16", "fp32"):
        for name, (call, passes) in REDUCTIONS.items():
            for size in SMALL_SIZES if small else SIZES[: None if cuda else -3]:
                yield _streaming("reduction", name, precision, size, passes, _of_first(call))

    for precision in ("bf16", "fp32"):
        for name, (prepared, used, passes) in BACKWARDS.items():
            for size in SMALL_SIZES if small else SIZES[4 : None if cuda else -3 : 2]:
                yield _streaming("reduction", name, precision, size, passes, None, prepared, used)


def _of_first(call: Callable[[Tensor], object]) -> Callable[[Tensor, Tensor], object]:
    return lambda x, _: call(x)


def _passes(passes: float, precision: str) -> float:
    """A cast to fp32 writes four bytes for each element that it reads; a sum with fp32 reads and writes four."""
    wide = 4.0 / DTYPES[precision].itemsize
    return passes if passes > 0 else 1.0 + wide if passes == 0 else 1.0 + 2.0 * wide


def _streaming(
    ladder: str, name: str, precision: str, size: int, passes: float, call: Callable[[Tensor, Tensor], object] | None,
    prepared: Callable[[Tensor], tuple[object, ...]] | None = None, used: Callable[..., object] | None = None,
) -> Probe:  # fmt: skip
    dtype = DTYPES[precision]
    count = size // dtype.itemsize

    def build(device: str) -> Callable[[], object]:
        def make() -> tuple[object, ...]:
            first = random_tensor((count,), dtype, device)
            if prepared is not None:
                return prepared(first.view(-1, 1024))
            return first, random_tensor((count,), torch.float32 if name == "add fp32" else dtype, device)

        work = used or call
        assert work is not None
        return rotating(device, passes * size, make, lambda inputs: work(*inputs))

    return Probe(
        ladder=ladder, columns={"op": name, "size_bytes": size}, build=build, bytes=passes * size, precision=precision
    )


def copies(cuda: bool, small: bool) -> Iterator[Probe]:
    """Copies inside device memory, and between it and host memory that is pinned or not."""
    ways = ("device-device", "host-device", "device-host", "pinned-device", "device-pinned") if cuda else ("host-host",)
    for way in ways:
        for size in SMALL_SIZES if small else SIZES[2 : None if way == "device-device" else -2 : 2]:
            touched = 2.0 * size if way in ("device-device", "host-host") else float(size)
            columns = {"op": way, "size_bytes": size}
            yield Probe(ladder="copy", columns=columns, build=_copy(way, size), bytes=touched)


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
