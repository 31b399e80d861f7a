"""One kernel of the package: recorded with what it reads and writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from estimator.scenario.problems import InputProblems, Problem
from runners.program.recording import Recording
from runners.program.tensors import is_on_device

STATED = "flash_attn is not installed here: what stands for it records the kernels that it would launch"
STATED_THIRD = STATED.replace("flash_attn", "FlashAttention-3 (flash_attn_interface)", 1)
REMEDY = (
    "The package is not installed; of it there are attention, padding, rotary embedding, layer norm and cross entropy:"
    " choose one of these, or torch's own in its place."
)
REMEDY_THIRD = (
    "The package is not installed; of it there are flash_attn_func and its forms of packed tensors and sequences:"
    " choose one of these, or torch's own in its place."
)


class Launch:
    """Records kernels; that a package was stood in for is said with the first."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    def __call__(
        self, op: str, reads: Iterable[torch.Tensor | None], writes: Iterable[torch.Tensor | None] = (), **how: Any
    ) -> None:
        """Record one kernel. Raises TypeError for a tensor of the host, as the package does."""
        given, made = ([one for one in some if one is not None] for some in (reads, writes))
        if not all(map(is_on_device, given)):
            raise TypeError(f"{op} takes tensors on the GPU alone")
        self.recording.assume(STATED_THIRD if op.startswith("flash_attn_3::") else STATED)
        self.recording.dispatches += 1
        self.recording.record("kernel", op, given, made, tuple(how.items()))


def lain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with its rows in one piece each, as the package's kernels take it."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def lacking(name: str) -> InputProblems:
    """Return the error for what the stand-in does not do."""
    package = name.partition(".")[0]
    third = package in ("flash_attn_interface", "flash_attn_3")
    message = f"is not among what stands for {package if third else 'flash_attn'}"
    problem = Problem(field=name, message=message, remedy=REMEDY_THIRD if third else REMEDY)
    return InputProblems([problem])
