"""What an op gives of which torch knows no shapes without running it: it is run on the host, on zeros."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, UnsupportedOperatorException
from torch.utils import _pytree as trees
from torch.utils._python_dispatch import _disable_current_modes

LARGEST = 1 << 24
"""Elements of all tensors together up to which such an op is run: 64 MiB of floats, well under a second."""

SIZED_BY_THE_HOST = (torch.ops.aten._pack_padded_sequence.default,)
"""Whose shapes follow from numbers that lie on the host, where they are real."""


def shaped(fakes: FakeTensorMode, func: Any, args: Any, kwargs: Any) -> Any:
    """Return what the op gives, as shapes alone; raise UnsupportedOperatorException where the host cannot run it."""
    given: dict[int, torch.Tensor] = {}
    devices: list[torch.device] = []

    def real(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if type(value) is FakeTensor:
                devices.append(value.fake_device)
            made = torch.zeros(value.shape, dtype=value.dtype) if type(value) is FakeTensor else value
            given[id(made)] = value
            return made
        return torch.device("cpu") if isinstance(value, torch.device) else value

    def shape_of(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) in given:  # what it wrote to
                return given[id(value)]
            if func in SIZED_BY_THE_HOST and not value.dtype.is_floating_point:  # sizes, which stay there
                return value
            with fakes:
                return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
        return value

    if _elements((args, kwargs)) > LARGEST:
        raise UnsupportedOperatorException(func)
    try:
        with torch._C.DisableTorchFunction(), _disable_current_modes(), torch.no_grad():
            found = func(*trees.tree_map(real, args), **trees.tree_map(real, kwargs))
    except (RuntimeError, IndexError, ValueError):  # no such kernel on the host, or none for zeros
        raise UnsupportedOperatorException(func) from None
    device = next((one for one in devices if one.type != "cpu"), torch.device("cpu"))
    return trees.tree_map(shape_of, found)


def _elements(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel()
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return sum(map(_elements, parts))
