"""Tensors that an op is given or gives, and whether they lie on the fake device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from runners.program.devices import DEVICE

PLAIN = {int, bool, str, float, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format}
"""What an op is given beside tensors and lists."""


def given_tensors(args: Any, kwargs: Any) -> list[torch.Tensor]:
    """As leaves, of what an op is given: tensors and lists of them."""
    found: list[torch.Tensor] = []
    for value in (*args, *kwargs.values()) if kwargs else args:
        kind = type(value)
        if kind is FakeTensor:
            found.append(value)
        elif kind is list or kind is tuple:
            if value and type(value[0]) is not int:  # an op's list is all of one type: sizes hold no tensors
                found += leaves(value)
        elif kind not in PLAIN and isinstance(value, torch.Tensor):
            found.append(value)
    return found


def leaves(value: Any) -> Iterator[torch.Tensor]:
    """Tensors in nested lists, tuples and dictionaries, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from leaves(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from leaves(one)


def is_on_device(tensor: torch.Tensor) -> bool:
    """Whether a tensor lies on the fake device."""
    return type(tensor) is FakeTensor and tensor.fake_device.type == DEVICE


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return this rank's part of a distributed tensor, any other as it is."""
    return tensor._local_tensor if hasattr(tensor, "_local_tensor") else tensor
