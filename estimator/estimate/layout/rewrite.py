"""Rewrite: an op list written anew call by call; waits and storages follow what is put in, changed and left out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from estimator.operations.aten.operands import contiguous_strides
from estimator.scenario.aten_cost import element_bytes
from estimator.scenario.op_list import NONE, Call, Operand, OpList, Signature, Storage


class Rewrite:
    """Take every call of ``found`` in its order, by ``keep`` or ``drop``, and put others in between by ``add``."""

    def __init__(self, found: OpList) -> None:
        self.found = found
        self.calls: list[Call] = []
        self.storages: list[Storage] = []
        """What is added, by indices of the new calls."""
        self._signatures = {one: index for index, one in enumerate(found.signatures)}
        self._made = list(found.signatures)
        self._place: list[int] = []
        self._kept: list[bool] = []
        self._changed: dict[int, tuple[Signature, Signature]] = {}
        self._left: dict[int, Counter[int]] = {}

    def add(self, call: Call, signature: Signature | None = None) -> int:
        """Append a call that the list had not; return its index."""
        if signature is not None:
            call = replace(call, signature=self._index(signature))
        self.calls.append(call)
        return len(self.calls) - 1

    def wait(self, stream: int, target: int, phase: str) -> int:
        """Let a stream wait for a new call."""
        return self.add(Call(kind="wait", phase=phase, stream=stream, dispatches=0, waits_for=target))

    def keep(self, signature: Signature | None = None, **changes: Any) -> int:
        """Take the next call over, with another signature or other fields; return its index."""
        index = len(self._place)
        call = self.found.calls[index]
        if call.waits_for != NONE:
            changes["waits_for"] = self._place[call.waits_for] - (not self._kept[call.waits_for])
        if signature is not None and signature != self.found.of(call):
            self._changed[index] = (self.found.of(call), signature)
            changes["signature"] = self._index(signature)
        self._place.append(len(self.calls))
        self._kept.append(True)
        return self.add(replace(call, **changes) if changes else call)

    def drop(self) -> None:
        """Leave the next call out."""
        self._place.append(len(self.calls))
        self._kept.append(False)

    def hold(self, size: float, kind: str, born: int, died: int = NONE, weight: int = NONE) -> None:
        """Add memory that lives from one new call to before another."""
        if size > 0:
            self.storages.append(Storage(bytes=int(size), kind=kind, born=born, died=died, weight=weight))

    def now(self, index: int) -> int:
        """The new index of an old call; of one that was left out, of what follows it."""
        if index == NONE:
            return NONE
        return self._place[index] if index < len(self._place) else len(self.calls)

    def moved(self, one: Storage, **changes: Any) -> Storage:
        """A storage of the old list among the new calls."""
        return replace(one, born=self.now(one.born), died=self.now(one.died), **changes)

    def resized(self, one: Storage) -> Storage | None:
        """As ``moved``, as large as what the changed call for which it was born now makes of it; None: nothing."""
        before, after = self._changed.get(one.born, (None, None))
        if before is None or after is None:
            return self.moved(one)
        if len(before.outputs) != len(after.outputs):
            return self.moved(one) if self._is_left(one, before, after) else None
        for old, new in zip(before.outputs, after.outputs, strict=True):
            if bytes_of(old) == one.bytes:
                return self.moved(one, bytes=bytes_of(new))
        if len(before.inputs) == len(after.inputs):
            for old, new in zip(before.inputs, after.inputs, strict=True):
                if old != new and bytes_of(old) == one.bytes:
                    return self.moved(one, bytes=bytes_of(new))
        return self.moved(one)

    def _is_left(self, one: Storage, before: Signature, after: Signature) -> bool:
        """Whether a call over fewer tensors still makes one of so many bytes."""
        if one.bytes not in map(bytes_of, before.outputs):
            return True
        left = self._left.setdefault(one.born, Counter(map(bytes_of, after.outputs)))
        left[one.bytes] -= 1
        return left[one.bytes] >= 0

    def finish(self, storages: Iterable[Storage], assumption: str, **changes: Any) -> OpList:
        """The new list, with these storages and what was added."""
        lived = [one for one in (*storages, *self.storages) if one.died == NONE or one.died > one.born]
        return replace(
            self.found,
            calls=tuple(self.calls),
            signatures=tuple(self._made),
            storages=tuple(lived),
            assumptions=(*self.found.assumptions, assumption),
            **changes,
        )

    def _index(self, signature: Signature) -> int:
        found = self._signatures.get(signature)
        if found is None:
            found = self._signatures[signature] = len(self._made)
            self._made.append(signature)
        return found


def bytes_of(one: Operand) -> int:
    """Bytes of a tensor that is not expanded."""
    return math.ceil(math.prod(one.shape) * (element_bytes(one.dtype) or 4))


def divided(one: Operand, dim: int, parts: int) -> Operand:
    """The operand with one dimension divided, laid out in memory as before."""
    shape = tuple(-(-size // parts) if at == dim else size for at, size in enumerate(one.shape))
    if one.strides is None:
        return replace(one, shape=shape)
    whole, step = one.shape[dim], one.strides[dim]
    strides = tuple(
        stride // whole * shape[dim] if stride > step and whole and stride % whole == 0 else stride
        for stride in one.strides
    )
    return replace(one, shape=shape, strides=None if strides == contiguous_strides(shape) else strides)
