"""Accumulation: gradients of one tensor that autograd adds up, into the first of them where nobody else holds it."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

Counts = tuple[int, int]

_ENGINE = "_engine_run_backward"


def in_place(args: Any, alone: Counts) -> bool:
    """Whether autograd's engine adds these two gradients, and would write to the first if it were no fake.

    ``alone``: ``counts_alone``. Asked two calls below the dispatch, whose caller is the engine: what a function of the
    program adds, or runs again, has frames of its own between. Source: torch/csrc/autograd/input_buffer.cpp,
    can_accumulate_inplace.
    """
    caller = sys._getframe(3)
    first, second = args[0], args[1]
    return (
        caller.f_code.co_name == _ENGINE
        and isinstance(second, torch.Tensor)
        and first.shape == second.shape
        and first.dtype == second.dtype
        and _dense(first)
        and _counts(first) == alone
    )


def counts_alone() -> Counts:
    """References to a gradient that nobody but the engine holds, and to its storage, as a dispatch mode sees them."""
    found: list[Counts] = []

    class Counted(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.ops.aten.add.Tensor:
                found.append(_counts(args[0]))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, requires_grad=True)
    y = x * 2
    z = torch.stack([y.tanh(), y.sin()]).sum()
    with Counted():  # type: ignore[no-untyped-call]
        z.backward()  # type: ignore[no-untyped-call]
    return found[0]


def _dense(tensor: torch.Tensor) -> bool:
    """Whether each element has a place of its own, with none between."""
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) == (
        tensor.numel()
    )


def _counts(tensor: torch.Tensor) -> Counts:
    counted: Any = tensor
    return counted._use_count(), torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)
