"""A program that starts its ranks itself, as PyTorch's tutorial of DistributedDataParallel does."""

import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


def main(rank, world_size):
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    model = nn.parallel.DistributedDataParallel(nn.Linear(16, 16).to(rank), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.randn(4, 16, device=rank)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert torch.cuda.max_memory_allocated(device=rank) > 0


if __name__ == "__main__":
    mp.spawn(main, args=(int(sys.argv[1]),), nprocs=int(sys.argv[1]))
