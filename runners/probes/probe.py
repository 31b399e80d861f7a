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
from torch.utils._python_dispatch import TorchDispatchMode

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
SETS_BYTES = {"cpu": 2**26, "cuda": 2**28}
"""Inputs are rotated until their sets hold so much, several times the last-level cache of either."""
MOST_SETS = 64

Columns = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One thing to time: ``build`` makes the call when its turn comes; FLOPs and bytes are of one call.

    ``count`` gives more columns of the call, untimed; what the call holds is let go by its ``close``, if it has one.
    ``visits``: so often it is timed anew, minutes apart, as what is bound by a shared host changes within seconds.
    ``meets``: the ranks wait for one another in a call, so that all must make equally many.
    """

    ladder: str
    columns: Columns
    build: Callable[[str], Callable[[], object]]
    flops: float = 0.0
    bytes: float = 0.0
    precision: str = field(default="fp32")
    count: Callable[[Callable[[], object]], Columns] | None = None
    visits: int = 1
    meets: bool = False


class _Counter(TorchDispatchMode):
    """Counts the ops that a call dispatches, and those of them that may launch a kernel: no views, no queries."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dispatches = self.launches = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.dispatches += 1
        views = any(one.alias_info and not one.alias_info.is_write for one in func._schema.returns)
        self.launches += not views
        return func(*args, **(kwargs or {}))


def counted_dispatches(call: Callable[[], object]) -> Columns:
    """Ops that one call dispatches below autograd, views among them, and those without views."""
    with _Counter() as counter:
        call()
    return {"dispatches": counter.dispatches, "launches": counter.launches}


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
