"""Two ranks of which one leaves late, with a collective of their group still running, for ``run_in_fork``."""

from __future__ import annotations

import multiprocessing
import os
import time

import torch
import torch.distributed as dist

from runners.benchmarks import step
from runners.job import Job
from runners.ranks import Ranks, leave
from tests.ports import free_ports
from tests.runners.examples import scenario_json

ENDS_S = 60.0


def main(arguments: list[str]) -> int:
    """Return how many of the ranks had to be killed; each says that it is gone."""
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    (port,) = free_ports(1)
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=_rank, args=(rank, port)) for rank in range(2)]
    for process in processes:
        process.start()
    stuck = 0
    for process in processes:
        process.join(ENDS_S)
        if process.exitcode is None:
            process.kill()
            stuck += 1
    return stuck


def _rank(rank: int, port: int) -> None:
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    os.environ |= {**place, "WORLD_SIZE": "2", "RANK": str(rank)}
    step.leave = _leave_late
    step.run(Job(benchmark="step", scenario=scenario_json(2), device="cpu", warmup=0, steps=1), lambda event: None)
    print("gone", flush=True)
    os._exit(0)


def _leave_late(ranks: Ranks) -> None:
    if ranks.rank == 1:
        time.sleep(2)
    dist.all_reduce(torch.ones(2), async_op=True)
    if ranks.rank == 1:
        time.sleep(1)
    leave(ranks)
