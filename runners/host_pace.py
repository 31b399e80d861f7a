"""Host pace: how fast this host runs Python and dispatches ops at this moment.

Hosts are shared, and the same work takes up to 1.8 times as long from one second to the next. What is bound by the host
is told beside it at which pace that was.
"""

from __future__ import annotations

import statistics
import time

import torch

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
