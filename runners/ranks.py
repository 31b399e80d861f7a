"""The processes of one run: who this one is, and what it shares with the others through torch.distributed."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist

from estimator.scenario.problems import InputProblems, Problem


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """This process among ``world_size`` equal ones; ``device`` is cpu or cuda:<local rank>."""

    rank: int = 0
    world_size: int = 1
    device: str = "cpu"

    @property
    def cuda(self) -> bool:
        """Whether the work runs on a GPU (CUDA, or ROCm under the same name)."""
        return self.device.startswith("cuda")


def world_size_from_environment() -> int:
    """Number of processes that torchrun started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def on_gpu(device: str) -> bool:
    """Whether work for ``device`` (auto, cpu, cuda) will run on a GPU here."""
    return device != "cpu" and torch.cuda.is_available()


def join(device: str) -> Ranks:
    """Join the processes that torchrun started, over NCCL on GPUs and gloo on CPUs; ``auto`` takes GPUs if any.

    Raises InputProblems where the device asked for is not there.
    """
    world_size, local_rank = world_size_from_environment(), int(os.environ.get("LOCAL_RANK", "0"))
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if local_rank >= count:
            raise InputProblems(
                [
                    Problem(
                        field="device",
                        message=f"process {local_rank} of this host has no GPU of its own, {count} are visible",
                        remedy="Start no more processes than GPUs, or choose device cpu.",
                    )
                ]
            )
        device = f"cuda:{local_rank}"
        torch.cuda.set_device(local_rank)
    if world_size > 1:
        dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    return Ranks(rank=int(os.environ.get("RANK", "0")), world_size=world_size, device=device)


def gather(ranks: Ranks, values: list[float]) -> list[list[float]]:
    """Collect equally long lists of numbers from all ranks, by rank, on every rank."""
    if ranks.world_size == 1:
        return [values]
    mine = torch.tensor(values, dtype=torch.float64, device=ranks.device)
    all_of_them = [torch.empty_like(mine) for _ in range(ranks.world_size)]
    dist.all_gather(all_of_them, mine)
    return [[float(value) for value in tensor.tolist()] for tensor in all_of_them]


def synchronize(ranks: Ranks) -> None:
    """Wait until this rank's device has done all that was asked of it."""
    if ranks.cuda:
        torch.cuda.synchronize()


_LEFT: list[dist.ProcessGroup] = []
"""Groups that were left. Who drops gloo's last reference joins its threads, and DDP's reducer does so with the
interpreter locked, for which such a thread may wait to let go of a tensor: neither would ever go on."""


def leave(ranks: Ranks) -> None:
    """Part from the other processes."""
    if ranks.world_size > 1 and dist.is_initialized():
        _LEFT.extend(dist.distributed_c10d._world.pg_map)
        dist.destroy_process_group()
