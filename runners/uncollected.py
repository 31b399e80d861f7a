"""Imports without the garbage collector: of what torch and its compiler leave, nothing is garbage."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Import here what is large: nothing is collected meanwhile, and what is there then is never looked through again.

    Torch with what its first optimizer imports leaves a million objects; looking through them while they come is a
    third of the time of ``import torch, torch._dynamo`` (4.5 to 2.9 s of CPU, torch 2.13), and a step in which they are
    looked through once more is a disturbed one.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was:
            gc.enable()
