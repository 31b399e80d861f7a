"""Kernels whose work was counted: their launches added up, and the line of a table that each makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from estimator.scenario.measurement import Kernel
from runners.trace.kernel_category import category_of, on_device


@dataclass(frozen=True, kw_only=True)
class CountedLaunches:
    """``count`` launches of a kernel: their seconds, and their FLOPs and bytes, None where these were not counted."""

    seconds: float
    flops: float | None
    bytes: float | None
    count: int = 1


def counted_kernels(groups: Mapping[str, Sequence[CountedLaunches]]) -> list[Kernel]:
    """Return the kernel of each name, the longest first; FLOPs and bytes only where all its launches have them."""
    kernels = [
        Kernel(
            name=name,
            category=on_device(category_of(name)),
            count=sum(one.count for one in some),
            total_s=sum(one.seconds for one in some),
            flops=_sum(one.flops for one in some),
            bytes=_sum(one.bytes for one in some),
        )
        for name, some in groups.items()
    ]
    return sorted(kernels, key=lambda kernel: -kernel.total_s)


def _sum(values: Iterable[float | None]) -> float | None:
    """None where one is unknown."""
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def kernel_row(kernel: Kernel) -> dict[str, Any]:
    """Return a line of a table of kernels whose work was counted: seconds, FLOPs and bytes, and their rates."""
    row: dict[str, Any] = {"name": kernel.name, "category": kernel.category, "calls": kernel.count}
    row |= {"total_s": kernel.total_s, "mean_s": kernel.total_s / kernel.count}
    if kernel.flops is not None:
        row |= {"flops": kernel.flops, "flops_per_s": kernel.flops / kernel.total_s}
    if kernel.bytes is not None:
        row |= {"bytes": kernel.bytes, "bytes_per_s": kernel.bytes / kernel.total_s}
    return row
