"""Device memory of the program: when each storage was born and died, and what it held."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from estimator.scenario.breakdown import MemoryKind, Phase
from estimator.scenario.op_list import NONE, Storage


@dataclass(slots=True)
class Held:
    """One storage; ``born`` and ``died`` count calls, as in Storage."""

    bytes: int
    born: int
    died: int = NONE
    kind: str = MemoryKind.TEMPORARIES
    phase: str = ""
    weight: int = NONE


class _Reference(weakref.ref[Any]):
    """Remembers the address of a storage that is gone."""

    __slots__ = ("key",)
    key: int

    def __new__(cls, storage: Any, end: Callable[[Any], None]) -> _Reference:
        made = super().__new__(cls, storage, end)
        made.key = storage._cdata
        return made


class Storages:
    """Storages of fake tensors by their identity; a weak reference tells of their end.

    ``now``: returns how many calls were recorded. A storage that is resized dies and is born anew.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._alive: dict[int, Held] = {}
        self._references: dict[int, weakref.ref[Any]] = {}
        self._all: list[Held] = []
        self.bytes = 0
        self.peak_bytes = 0

    def add(self, tensor: torch.Tensor, phase: str, kind: str = MemoryKind.TEMPORARIES) -> bool:
        """Take up the storage behind a tensor of the device; False where it is known already."""
        if tensor.layout is not torch.strided:  # its indices and values are tensors of their own
            return False
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._alive:
            return False
        self._take(key, storage.nbytes(), phase, kind)
        self._references[key] = _Reference(storage, self._end)
        return True

    def mark(self, tensors: Iterable[torch.Tensor], kind: str, among: Iterable[str] | None = None) -> None:
        """Say what the storages of these tensors hold; with ``among``, only of those that were of such a kind."""
        for tensor in tensors:
            held = self._of(tensor)
            if held is not None and (among is None or held.kind in among):
                held.kind = kind

    def mark_of(self, weight: int, tensor: torch.Tensor, kind: str) -> None:
        """Say what the storage of this tensor holds, and of which parameter."""
        self.mark((tensor,), kind)
        held = self._of(tensor)
        if held is not None:
            held.weight = weight

    def kind_of(self, tensor: torch.Tensor) -> str:
        """What the storage behind a tensor holds, "" where it is not known."""
        held = self._of(tensor)
        return "" if held is None else held.kind

    def resized(self, storage: Any, size: int) -> None:
        """A storage of the device has other bytes now."""
        key = storage._cdata
        held = self._alive.get(key)
        if held is None or held.bytes == size:
            return
        held.died = self._now()
        self.bytes -= held.bytes
        self._take(key, size, held.phase, held.kind, held.weight)

    def backward_begins(self) -> None:
        """What the forward has left is kept for the backward."""
        for held in self._alive.values():
            if held.kind == MemoryKind.TEMPORARIES and held.phase == Phase.FORWARD:
                held.kind = MemoryKind.ACTIVATIONS

    def restart(self) -> None:
        """A step begins: forget what is gone; what is there was born before it."""
        self._all = [held for held in self._alive.values() if held.bytes]
        for held in self._alive.values():
            held.born = NONE
            if held.kind == MemoryKind.ACTIVATIONS:
                held.kind = MemoryKind.TEMPORARIES

    def listed(self) -> tuple[Storage, ...]:
        """Storages in the order of their birth."""
        return tuple(
            Storage(bytes=held.bytes, born=held.born, died=held.died, kind=held.kind, weight=held.weight)
            for held in self._all
            if held.bytes and (held.died == NONE or held.died > held.born)
        )

    def _of(self, tensor: torch.Tensor) -> Held | None:
        return self._alive.get(tensor.untyped_storage()._cdata) if tensor.layout is torch.strided else None

    def _take(self, key: int, size: int, phase: str, kind: str, weight: int = NONE) -> None:
        held = Held(bytes=size, born=self._now(), kind=kind, phase=phase, weight=weight)
        self._alive[key] = held
        self._all.append(held)
        self.bytes += size
        self.peak_bytes = max(self.peak_bytes, self.bytes)

    def _end(self, reference: _Reference) -> None:
        key = reference.key
        self._references.pop(key, None)
        held = self._alive.pop(key, None)
        if held is not None:
            held.died = self._now()
            self.bytes -= held.bytes
