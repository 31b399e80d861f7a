"""The runners with a row that blocks in C and never gives the interpreter's lock back.

Run as ``python -m tests.runners.stuck``. ``STUCK`` says how: the number of rows before it, the rank that blocks, and
``deaf`` where it ignores SIGTERM too. Before that it starts a child which holds the output open. ``kernel`` waits for a
kernel of a minute instead.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys

import torch

from runners import rows as frame
from runners.__main__ import main
from runners.ranks import world_size_from_environment
from runners.worker import leave

BEFORE, RANK, *HOW = os.environ["STUCK"].split(",")
KERNEL_CYCLES = 120_000_000_000
"""A minute at 2 GHz."""

measure = frame.Suite.measure


def measure_or_block(suite, columns, work):
    def block():
        subprocess.Popen(("sleep", "600"))
        if "deaf" in HOW:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if "kernel" in HOW:
            torch.cuda._sleep(KERNEL_CYCLES)
            torch.cuda.synchronize()
        library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
        library.pthread_mutex_lock(mutex)
        library.pthread_mutex_lock(mutex)

    chosen = suite.done == int(BEFORE) and suite.ranks.rank == int(RANK)
    return measure(suite, columns, block if chosen else work)


frame.Suite.measure = measure_or_block
assert world_size_from_environment() > int(RANK)
if world_size_from_environment() > 1:
    import torch.distributed.fsdp  # which a row would import: that takes longer than its limit where others compute too
leave(main(sys.argv[1:]))
