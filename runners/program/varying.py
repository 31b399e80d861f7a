"""Which sizes follow from what the data chose, so that they are others in every step, as the tokens of an expert.

A fake tensor carries those of its sizes in ``varying``; what is made of it has them where it has a side as long.
Sizes that the program reads as a list and splits by are known by their numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

if TYPE_CHECKING:
    from runners.program.recording import Recording

_aten = torch.ops.aten
_SPLITS = {id(_aten.split_with_sizes.default), id(_aten.split_with_sizes_copy.default)}


def mark(tensor: torch.Tensor, sizes: Iterable[int]) -> None:
    """Say that these sizes of a tensor, where it has them, follow from data."""
    found = frozenset(sizes).intersection(tensor.shape)
    if found and type(tensor) is FakeTensor:
        tensor.varying = found  # type: ignore[attr-defined]


def of(tensors: Iterable[torch.Tensor]) -> frozenset[int]:
    """Return the sizes of any of the tensors that follow from data."""
    found: frozenset[int] = frozenset()
    for tensor in tensors:
        own = getattr(tensor, "varying", None)
        if own:
            found |= own
    return found


def read(recording: Recording, numbers: torch.Tensor) -> None:
    """Take up numbers that the program reads at once, by which it may split."""
    if numbers.dim() and not numbers.dtype.is_floating_point:
        recording.sizes_read.update(numbers.flatten().tolist())


def carry(
    recording: Recording, func: Any, args: Any, tensors: Iterable[torch.Tensor], results: Iterable[torch.Tensor]
) -> None:
    """Mark an op's results by what it was given, or split by."""
    sizes = of(tensors)
    if id(func) in _SPLITS and recording.sizes_read.issuperset(args[1]):
        sizes |= frozenset(args[1])
    if sizes:
        for one in results:
            mark(one, sizes)
