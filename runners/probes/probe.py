"""Probe: one thing that the calibration ladder probes, with the operations and bytes of a call.

Every probe gives its work as calls over several sets of random inputs, so that no cache holds what a step would read
from memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import torch
from torch import Tensor

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
SETS_BYTES = {"cpu": 2**26, "cuda": 2**28}
"""Inputs are rotated until their sets hold so much, several times the last-level cache of either."""
MOST_SETS = 64

Columns = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Probe:
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


def random_tensor(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> Tensor:
    """Normally distributed numbers; zeros would be easier on power and clocks."""
    return torch.randn(shape, device=device, dtype=dtype)
