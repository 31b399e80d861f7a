"""Transfers: ops that move data between the host and the device, or ask the device for a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from runners.program import placeholders, values
from runners.program.devices import DEVICE
from runners.program.pinned import PAGEABLE, holds_the_host
from runners.program.tensors import is_on_device

if TYPE_CHECKING:
    from runners.program.recorder import Recorder


def item(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    recorder.recording.sync()
    return placeholders.scalar(recorder.recording, args[0])


def to_copy(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    source = args[0]
    target = kwargs.get("device")
    recording = recorder.recording
    if target is None or (target.type == DEVICE) == is_on_device(source):
        schema = recorder.schema(func)
        result = recorder.on_fakes(func, args, kwargs)
        recorder.note(schema, func, args, kwargs, [source], result)
        return result
    dtype = kwargs.get("dtype") or source.dtype
    non_blocking = bool(kwargs.get("non_blocking", False))
    if target.type == DEVICE:
        with recorder.fakes:
            made = torch.empty_strided(source.shape, _dense(source), dtype=dtype, device=target)
        recording.storages.add(made, recording.phase(()))
        if made.numel():
            _sends(recorder, "aten::_to_copy", made, source, non_blocking=non_blocking)
        if type(source) is not FakeTensor and not source.dtype.is_floating_point and values.is_kept(made):
            values.give(made, source.to(dtype, copy=True))
        return _as_sent(made, source)
    if source.numel():
        _fetches(recorder, "aten::_to_copy", source, pinned=non_blocking, non_blocking=non_blocking)
    elif not non_blocking:
        recording.sync()
    made = placeholders.on_host(recorder, source, dtype)
    if non_blocking:  # torch then pins what it makes
        recording.pinned.add(made)
    return made


def _sends(recorder: Recorder, op: str, made: torch.Tensor, source: torch.Tensor, *, non_blocking: bool) -> None:
    """Record a copy to the device; one that is cast as well is cast on the host, into pageable memory."""
    recording = recorder.recording
    pinned = recording.pinned.has(source) and source.dtype == made.dtype
    arguments = (("direction", "HtoD"), *(() if pinned else (PAGEABLE,)))
    index = recording.record("kernel", op, (), (made,), arguments)
    size_bytes = made.numel() * made.element_size()
    if holds_the_host(pinned=pinned, to_device=True, non_blocking=non_blocking, size_bytes=size_bytes):
        recording.sync(index)


def _fetches(recorder: Recorder, op: str, source: torch.Tensor, *, pinned: bool, non_blocking: bool) -> None:
    """Record a copy to the host."""
    recording = recorder.recording
    arguments = (("direction", "DtoH"), *(() if pinned else (PAGEABLE,)))
    recording.record("kernel", op, (source,), (), arguments)
    size_bytes = source.numel() * source.element_size()
    if holds_the_host(pinned=pinned, to_device=False, non_blocking=non_blocking, size_bytes=size_bytes):
        recording.sync()


def _as_sent(made: torch.Tensor, source: torch.Tensor, later: int = 0) -> torch.Tensor:
    """A number that the host sends to the device is known: programs read their own flags back from there.

    ``later``: so many writes are still to be counted. Tensors of inference mode count none.
    """
    if source.numel() == 1 and type(source) is not FakeTensor and not made.is_inference():
        placeholders.tell(made, source.item(), made._version + later)
    return made


def _dense(tensor: torch.Tensor) -> tuple[int, ...]:
    if tensor.is_contiguous():
        return tensor.stride()
    return torch.empty_like(torch.empty_strided(tensor.shape, tensor.stride(), device="meta")).stride()


def copy(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    target, source = args[0], args[1]
    recording = recorder.recording
    if is_on_device(target) and is_on_device(source):
        schema = recorder.schema(func)
        result = recorder.on_fakes(func, args, kwargs)
        recorder.note(schema, func, args, kwargs, [target, source], result)
        return result
    non_blocking = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
    if is_on_device(target):
        if target.numel():
            _sends(recorder, "aten::copy_", target, source, non_blocking=non_blocking)
        _as_sent(target, source, later=1)  # counted once this op is done
        numbers = values.of(target)
        if numbers is not None and type(source) is not FakeTensor:
            numbers.real.copy_(source)
        else:
            values.forget([target])
    elif source.numel():
        _fetches(recorder, "aten::copy_", source, pinned=recording.pinned.has(target), non_blocking=non_blocking)
        if type(target) is not FakeTensor and values.of(source) is not None:
            target.copy_(placeholders.on_host(recorder, source, target.dtype))
    return target
