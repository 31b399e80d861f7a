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
    "add transposed": (lambda x, y: x.view(64, -1).t() + y.view(-1, 64), 3.0),
}
"""Call, and how often a tensor of the inputs' size is read or written; 0: see ``_passes``."""

REDUCTIONS: dict[str, tuple[Callable[[Tensor], object], float]] = {
    "sum": (lambda x: x.sum(), 1.0),
    "row mean of squares": (lambda x: x.view(-1, 1024).pow(2).mean(-1), 3.0),
    "softmax": (lambda x: F.softmax(x.view(-1, 1024), dim=-1), 2.0),
    "layer norm": (lambda x: F.layer_norm(x.view(-1, 1024), (1024,)), 2.0),
}


def elementwise(cuda: bool, small: bool) -> Iterator[Probe]:
    """Bandwidth of element-wise kernels against the size of one input, in bytes."""
    for precision in ("bf16", "fp32"):
        for name, (call, passes) in ELEMENTWISE.items():
            for size in SMALL_SIZES if small else SIZES[: None if cuda else -3]:
                yield _streaming("elementwise", name, precision, size, _passes(passes, precision), call)


def reductions(cuda: bool, small: bool) -> Iterator[Probe]:
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
) -> Probe:
    dtype = DTYPES[precision]
    count = size // dtype.itemsize

    def build(device: str) -> Callable[[], object]:
        def make() -> tuple[Tensor, Tensor]:
            return random_tensor((count,), dtype, device), random_tensor((count,), dtype, device)

        return rotating(device, passes * size, make, lambda pair: call(*pair))

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
