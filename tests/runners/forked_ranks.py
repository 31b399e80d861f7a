"""Ranks as torchrun starts them, but forked from one process that has torch, for ``run_ranks`` of tests/forks.py.

Tests of how ranks are started and ended use torchrun itself.
"""

from __future__ import annotations

import os
import signal
import sys

import torch
import torch.distributed.fsdp
import torch.distributed.pipelining
import torch.distributed.tensor

from runners.__main__ import main
from runners.worker import leave
from tests.ports import free_ports


def start(ranks: int, arguments: list[str]) -> int:
    """Run the command on every rank; return 0, or the status of a rank that failed, which ends the others."""
    (port,) = free_ports(1)
    shared = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1"}
    os.environ |= {**shared, "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    processes = [_forked(rank, arguments) for rank in range(ranks)]
    code = 0
    while processes:
        process, status = os.wait()
        if process not in processes:
            continue
        processes.remove(process)
        if status and not code:
            code = os.waitstatus_to_exitcode(status)
            for other in processes:
                os.kill(other, signal.SIGTERM)
    return code


def _forked(rank: int, arguments: list[str]) -> int:
    process = os.fork()
    if process:
        return process
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    sys.argv = ["runners", *arguments]
    try:
        code = main(arguments)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    leave(code)
    raise AssertionError("a rank ends here")


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    leave(min(abs(start(int(sys.argv[1]), sys.argv[2:])), 127))
