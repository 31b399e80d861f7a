"""Host pace: how fast this host runs Python and dispatches ops at this moment.

Hosts are shared, and the same work takes up to 1.8 times as long from one second to the next: two hardware threads
share a core, and what runs on the other one, for whomever, halves it (of sixteen of an H100 host six took 3.5 to 4 µs
for an op and eight 5.5 to 6.8, a moment later others). What is bound by the host is told beside it at which pace that
was. Autograd works in a thread of its own for each device, on another core that has another neighbour.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch
from torch import Tensor

ROUNDS, OPS = 5, 100


def host_pace_s() -> float:
    """Seconds of one op on a host tensor of 64 numbers, from Python through the dispatcher; takes about 2 ms.

    The median of five rounds of a hundred. It follows launches on a GPU (H200 host: 2.4 to 2.7 times as long as it,
    while it went from 2.3 to 4.7 µs), and asks nothing of the device.
    """
    x = torch.ones(64)
    rounds = []
    for _ in range(ROUNDS):
        begin_s = time.perf_counter()
        for _ in range(OPS):
            x.mul_(1.0)
        rounds.append((time.perf_counter() - begin_s) / OPS)
    return statistics.median(rounds)


def backward_pace_s(device: str) -> float:
    """``host_pace_s`` of the thread in which autograd works backward for a device; on a CPU that is the caller's."""
    if torch.device(device).type == "cpu":
        return host_pace_s()
    found: list[float] = []
    _Timed.apply(torch.ones(1, device=device, requires_grad=True), found).backward()  # type: ignore[no-untyped-call]
    return found[0]


class _Timed(torch.autograd.Function):
    """Hands its input on, and times the host backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, found: list[float]) -> Tensor:
        ctx.found = found
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        ctx.found.append(host_pace_s())
        return gradients[0], None
