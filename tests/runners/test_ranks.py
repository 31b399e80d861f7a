"""One process alone; what several share is tested where real ones run (benchmarks/test_step.py)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest
import torch

from estimator.scenario.problems import InputProblems
from runners.ranks import Ranks, gather, join, leave, world_size_from_environment


def test_one_process_is_all_there_is():
    ranks = join("cpu")
    assert ranks == Ranks(rank=0, world_size=1, device="cpu")
    assert not ranks.cuda
    assert gather(ranks, [1.0, 2.0]) == [[1.0, 2.0]]
    leave(ranks)
    assert world_size_from_environment() == 1


def test_auto_takes_a_gpu_only_where_there_is_one():
    assert join("auto").cuda == torch.cuda.is_available()


def test_more_processes_than_gpus_are_refused(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1000")
    with pytest.raises(InputProblems, match=r"device: process 1000 .* choose device cpu"):
        join("cuda")


LEAVES = """
import os, time, torch
from runners.benchmarks import step
from runners.job import Job
from tests.runners.examples import scenario_json

leave = step.leave

def leave_early(ranks):
    if ranks.rank == 1:
        time.sleep(2)
    torch.distributed.all_reduce(torch.ones(2), async_op=True)
    if ranks.rank == 1:
        time.sleep(1)
    leave(ranks)

step.leave = leave_early
step.run(Job(benchmark="step", scenario=scenario_json(2), device="cpu", warmup=0, steps=1), lambda event: None)
print("gone", flush=True)
os._exit(0)
"""


def test_a_step_ends_while_a_collective_of_its_group_still_runs():
    """Its module's reducer holds the group, whose thread needs the interpreter to let go of the collective's tensor."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo"}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", LEAVES],
            env={**os.environ, **place, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        assert ["gone" in process.communicate(timeout=60)[0] for process in started] == [True, True]
    finally:
        for process in started:
            process.kill()
            process.wait()
