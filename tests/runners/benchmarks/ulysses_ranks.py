"""Ranks of one Ulysses layer, for ``run_in_fork``: all that its cores give is what one rank alone would compute."""

from __future__ import annotations

import math
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.multiprocessing import start_processes

from runners.benchmarks.ulysses import Layer, made_inputs, ring_pass, ulysses_pass
from runners.ranks import join, leave
from tests.ports import free_ports


def main(arguments: list[str]) -> int:
    """RANKS"""
    (ranks,) = map(int, arguments)
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    start_processes(_check, (ranks, free_ports(1)[0]), nprocs=ranks, start_method="fork")
    return 0


def _check(rank: int, processes: int, port: int) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(processes)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = join("cpu")
    layer = Layer(ranks=ranks, seq_len=96, hidden=32, heads=8, dtype=torch.float64)
    inputs = made_inputs(layer)
    x, wq, wk, wv, proj = inputs
    parts = [torch.empty_like(x) for _ in range(ranks.world_size)]
    dist.all_gather(parts, x)
    whole = torch.cat(parts)
    q, k, v = (torch.matmul(whole, w) for w in (wq, wk, wv))

    def attended(a: Tensor) -> Tensor:
        return torch.matmul((a @ v).transpose(0, 1).reshape(96, 32), proj.reshape(32, 32))

    a = q @ k.transpose(1, 2)
    mask = torch.full((96, 96), -math.inf, dtype=torch.float64).triu(1)
    want = {"scores": attended(a), "fused": attended(F.softmax(a / 2 + mask, -1))}
    want |= {"eager": want["fused"], "ring": want["fused"]}
    mine = slice(ranks.rank * 96 // ranks.world_size, (ranks.rank + 1) * 96 // ranks.world_size)
    for core, expected in want.items():
        found = (ring_pass if core == "ring" else ulysses_pass)(layer, core, *inputs)
        torch.testing.assert_close(found, expected[mine], rtol=1e-5, atol=1e-6)
    leave(ranks)
    print("as one rank", flush=True)
