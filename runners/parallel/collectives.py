"""Collectives as calls on one buffer: what is sent, and how a time becomes a bandwidth."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

from runners.row_status import Unsupported

# PyTorch 2.13 renames them and warns about the older names, which 2.11 has alone
all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

PAYLOADS = {
    "all-reduce": "the tensor that every rank has before and after",
    "all-gather": "the gathered tensor; each rank brings 1/n of it",
    "reduce-scatter": "the whole tensor that every rank brings; each keeps 1/n",
    "all-to-all": "what one rank sends to all, itself included",
    "broadcast": "the tensor that rank 0 has and all receive",
    "p2p": "the message from rank 0 to rank 1",
}
"""What ``bytes`` counts, as in NVIDIA's nccl-tests."""


def traffic(kind: str, ranks: int) -> float:
    """Bytes over the busiest link for each byte of payload: bus bandwidth = this · payload / time.

    2(n−1)/n for all-reduce, (n−1)/n for all-gather, reduce-scatter and all-to-all, 1 for broadcast and p2p
    (NVIDIA nccl-tests, doc/PERFORMANCE.md, bus bandwidth).
    """
    share = (ranks - 1) / ranks
    known = {"all-reduce": 2 * share, "all-gather": share, "reduce-scatter": share, "all-to-all": share}
    return known.get(kind, 1.0)


def caller(
    kind: str, elements: int, dtype: torch.dtype, device: str, group: dist.ProcessGroup, rank: int, ranks: int
) -> tuple[Callable[[], object], float]:
    """One call of a collective on random data, and its payload in bytes, rounded up to a multiple of ``ranks``.

    ``rank`` is this process's place in ``group``. Sums start small enough that no repetition overflows in bf16.
    """
    elements = -(-elements // ranks) * ranks
    data = torch.randn(elements, device=device).to(dtype)
    call = _call(kind, data, group, rank, ranks)
    return call, float(elements * data.element_size())


def _call(kind: str, data: Tensor, group: dist.ProcessGroup, rank: int, ranks: int) -> Callable[[], object]:
    part = data[: data.numel() // ranks].clone()
    if kind == "all-reduce":
        # The largest, not the sum: the same traffic, and no number grows from call to call
        return lambda: dist.all_reduce(data, dist.ReduceOp.MAX, group=group)
    if kind == "all-gather":
        return lambda: all_gather(data, part, group=group)
    if kind == "reduce-scatter":
        return lambda: reduce_scatter(part, data, dist.ReduceOp.SUM, group=group)
    if kind == "all-to-all":
        target = torch.empty_like(data)
        return lambda: dist.all_to_all_single(target, data, group=group)
    if kind == "broadcast":
        return lambda: dist.broadcast(data, dist.get_global_rank(group, 0), group=group)
    if kind == "p2p":
        return _send_and_receive(data, group, rank)
    raise Unsupported(f"there is no collective {kind}")


def _send_and_receive(data: Tensor, group: dist.ProcessGroup, rank: int) -> Callable[[], object]:
    """Rank 0 sends, rank 1 receives, the others do nothing; on a GPU both wait in their streams."""
    if rank > 1:
        return lambda: None
    peer = dist.get_global_rank(group, 1 - rank)
    operation = dist.isend if rank == 0 else dist.irecv

    def call() -> None:
        for work in dist.batch_isend_irecv([dist.P2POp(operation, data, peer, group)]):
            work.wait()

    return call
