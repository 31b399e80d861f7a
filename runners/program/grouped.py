"""Grouped products: which kernel they have, or the loop over their groups that torch makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from runners.program import values, varying
from runners.program.tensors import leaves

if TYPE_CHECKING:
    from runners.program.recorder import Recorder


def products(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    """Grouped products have a kernel for bf16; torch loops over the groups of other types, whose ends it reads first.

    Where it is not known which rows belong to a group, all are equally large. Source: _grouped_mm_cuda of torch 2.13.
    """
    first, second = args[:2]
    if first.dtype == second.dtype == torch.bfloat16:
        result = recorder.on_fakes(func, args, kwargs)
        recorder.note(recorder.schema(func), func, args, kwargs, list(leaves((args, kwargs))), result)
        return result
    ends = args[2] if len(args) > 2 else kwargs.get("offs")
    groups = second.shape[0] if second.dim() == 3 else first.shape[0] if first.dim() == 3 else ends.shape[0]
    known = None if ends is None else values.of(ends)
    if known is None or known.guessed:
        message = "how many rows each of its groups has is not known: taken to be equally many"
        recorder.recording.doubt("aten::_grouped_mm", message, "Import a profile of the step, whose shapes are real.")
    bounds = None if known is None else [0, *known.real.tolist()]

    def part(tensor: torch.Tensor, axis: int, group: int) -> torch.Tensor:
        if tensor.dim() == 3:
            return tensor.select(0, group)
        size = tensor.shape[axis]
        begin, end = (size * at // groups if bounds is None else bounds[at] for at in (group, group + 1))
        found = tensor.narrow(axis, begin, end - begin)
        if known is None or known.guessed:
            varying.mark(found, (end - begin,))
        return found

    with recorder:
        if ends is not None:
            ends.cpu()
        rows, columns = first.shape[-2], second.shape[-1]
        if first.dim() == 2 and second.dim() == 3:
            made, axes = first.new_empty((rows, columns)), (0, -2)
        elif first.dim() == 3 and second.dim() == 2:
            made, axes = first.new_empty((rows, columns)), (-2, 1)
        else:
            made, axes = first.new_empty((groups, rows, columns)), (-1, -2)
        for group in range(groups):
            into = made.select(0, group) if made.dim() == 3 else part(made, 0 if second.dim() == 3 else 1, group)
            torch.mm(part(first, axes[0], group), part(second, axes[1], group), out=into)
        return made
