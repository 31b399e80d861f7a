"""A pipeline of three stages, which know one another's shapes or ask for them: told, asked."""

import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

ROWS, WIDTH = 4, 64

rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
widths = [WIDTH * (stage + 1) for stage in range(ranks + 1)]
module = torch.nn.Sequential(torch.nn.Linear(widths[rank], widths[rank + 1]), torch.nn.GELU()).to(device)
shapes = {}
if sys.argv[1] == "told":
    given, made = (
        torch.empty(ROWS, width, device="meta", requires_grad=needs)
        for width, needs in ((widths[rank], rank > 0), (widths[rank + 1], True))
    )
    shapes = {"input_args": given, "output_args": made}
schedule = Schedule1F1B(
    PipelineStage(module, rank, ranks, device, **shapes), 4, loss_fn=torch.nn.functional.mse_loss
)  # fmt: skip
optimizer = torch.optim.AdamW(module.parameters())
if sys.argv[1] == "asked":
    names = ["first"] if rank == 0 else [None]
    dist.broadcast_object_list(names, src=0)
    assert names == ["first"]
while True:
    first = (torch.randn(4 * ROWS, widths[0], device=device),) if rank == 0 else ()
    last = {"target": torch.randn(4 * ROWS, widths[-1], device=device)} if rank == ranks - 1 else {}
    schedule.step(*first, **last)
    optimizer.step()
    optimizer.zero_grad()
