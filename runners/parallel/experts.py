"""Expert parallelism: rows travel to the ranks that hold their experts, and back.

Lepikhin 2020 (arXiv 2006.16668), section 3.2, without a capacity: every rank receives as many rows as are sent to it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

from runners.model.experts import Dispatch
from runners.parallel.differentiable import all_to_all
from runners.parallel.mesh import Axis


def dispatch_over(axis: Axis) -> Dispatch:
    """How ranks that hold all experts together exchange the rows of one block."""

    def dispatch(rows: Tensor, counts: Tensor) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]:
        coming = torch.empty_like(counts)
        dist.all_to_all_single(coming, counts, group=axis.group)
        by_sender = coming.view(axis.size, -1)
        # The host waits here: it must know how many rows to send and to make room for
        sizes = torch.stack((counts.view(axis.size, -1).sum(1), by_sender.sum(1))).tolist()
        sent, received = sizes
        arrived = all_to_all(rows, axis, received, sent)
        held = by_sender.shape[1]
        expert = torch.arange(held, device=rows.device).repeat(axis.size)
        order = torch.argsort(expert.repeat_interleave(by_sender.flatten()), stable=True)

        def back(y: Tensor) -> Tensor:
            unsorted = torch.empty_like(y).index_copy(0, order, y)
            return all_to_all(unsorted, axis, sent, received)

        return arrived.index_select(0, order), by_sender.sum(0), back

    return dispatch
