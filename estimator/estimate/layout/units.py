"""Units: the repeated modules of a program and the parameters that each holds; the root has what is outside of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from estimator.scenario.aten_cost import element_bytes, torch_name
from estimator.scenario.breakdown import Phase
from estimator.scenario.op_list import NONE, Call, Operand, OpList, Signature, Weight
from estimator.scenario.problems import InputProblems, Problem

ROOT = ""
"""The unit of all that stands in no repeated module, as in ``fully_shard(model)`` after its layers."""

_UNIT = re.compile(r"(?:.*?\.)??\d+(?=\.|$)")
NARROW = ("bfloat16", "float16")


@dataclass(frozen=True)
class Units:
    """A list's units by the path of their module, the root first, then in the order in which forward comes to them.

    ``of_weight``: the unit of each parameter. ``kept`` is the type in which parameters are kept, ``used`` the one in
    which forward multiplies them, another one under autocast alone.
    """

    found: OpList
    names: tuple[str, ...]
    of_weight: tuple[int, ...]
    kept: str
    used: str

    def weights(self, unit: int) -> list[Weight]:
        """The parameters of a unit."""
        return [one for one, at in zip(self.found.weights, self.of_weight, strict=True) if at == unit]

    @cached_property
    def of_module(self) -> tuple[int, ...]:
        """The unit of each module of the list, 0 for those outside of repeated ones."""
        index = {name: at for at, name in enumerate(self.names)}
        return tuple(index.get(unit_of(path), 0) for path in self.found.modules)

    def of(self, call: Call) -> int:
        """The unit that a call runs in."""
        return 0 if call.module == NONE else self.of_module[call.module]

    def is_cast(self, call: Call) -> bool:
        """Whether autocast casts a parameter here, or its gradient back."""
        if self.kept == self.used or call.kind != "kernel" or call.phase == Phase.OPTIMIZER:
            return False
        s = self.found.of(call)
        if s.op != "aten::_to_copy" or not s.inputs or not s.outputs:
            return False
        types = {torch_name(s.inputs[0].dtype), torch_name(s.outputs[0].dtype)}
        return types == {self.kept, self.used} and s.inputs[0].shape in self._shapes(call)

    def _shapes(self, call: Call) -> set[tuple[int, ...]]:
        path = "" if call.module == NONE else self.found.modules[call.module]
        return self._own.get(path, set())

    @cached_property
    def _own(self) -> dict[str, set[tuple[int, ...]]]:
        own: dict[str, set[tuple[int, ...]]] = {}
        for one in self.found.weights:
            shapes = own.setdefault(one.name.rpartition(".")[0], set())
            shapes |= {one.shape, one.shape[::-1]}
        return own


class Shares:
    """What a rank keeps of each parameter, as ops over all of them see it: ``after`` is its shape there, None: nothing.

    Lists of an optimizer's op stand in the order of the parameters, so that the n-th operand of a shape is the n-th
    parameter of it; ops over one tensor come in that order, too.
    """

    def __init__(self, found: OpList, after: Callable[[int], tuple[int, ...] | None]) -> None:
        self._of: dict[tuple[int, ...], list[tuple[int, ...] | None]] = {}
        self._met: dict[tuple[str, int, tuple[int, ...]], int] = {}
        kept = [after(index) for index in range(len(found.weights))]
        for one, shape in zip(found.weights, kept, strict=True):
            self._of.setdefault(one.shape, []).append(shape)
        # Steps that are counted on the device: one number for each parameter.
        self._of.setdefault((), [None if shape is None else () for shape in kept])

    def of(self, s: Signature) -> Signature | None:
        """The op on this rank, None where nothing is left of what it works on."""
        inputs, outputs = self._kept(s.op, 0, s.inputs), self._kept(s.op, 1, s.outputs)
        gone = any(one.shape for one in s.inputs) and not any(one.shape for one in inputs)
        return None if gone else replace(s, inputs=inputs, outputs=outputs)

    def _kept(self, op: str, side: int, operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        counts: dict[tuple[int, ...], int] = {}
        for one in operands:
            counts[one.shape] = counts.get(one.shape, 0) + 1
        seen: dict[tuple[int, ...], int] = {}
        found = []
        for one in operands:
            shapes = self._of.get(one.shape)
            if shapes is None or (not one.shape and counts[()] % len(shapes)):
                found.append(one)
                continue
            if counts[one.shape] % len(shapes):
                # Of one tensor: its turn among those of its shape; an op reads several of the same.
                at = self._met.get((op, side, one.shape), 0)
                if one.shape not in seen:
                    self._met[op, side, one.shape] = at + 1
                else:
                    at -= 1
                seen[one.shape] = 1
            else:
                at = seen[one.shape] = seen.get(one.shape, -1) + 1
            shape = shapes[at % len(shapes)]
            if shape is not None:
                found.append(one if shape == one.shape else replace(one, shape=shape, strides=None))
        return tuple(found)


def unit_of(path: str) -> str:
    """The outermost numbered module of a path, ROOT where it has none: model.layers.3 of model.layers.3.mlp.up."""
    found = _UNIT.match(path)
    return found.group(0) if found else ROOT


def elements(one: Weight) -> int:
    """How many numbers a parameter has."""
    return math.prod(one.shape)


def width(dtype: str) -> int:
    """Bytes of an element of a type, whole ones: parameters, which are exchanged, have no narrower ones."""
    return math.ceil(element_bytes(dtype) or 4)


def units_of(found: OpList, field: str) -> Units:
    """Find a list's units; raise InputProblems that name ``field`` where it does not say what it takes to be laid out.

    It must say which parameters which module has and what memory holds them.
    """
    if reason := lacks(found):
        raise InputProblems([Problem(field=field, message=reason, remedy="Trace the program: `headroom trace`.")])
    types = {one.dtype for one in found.weights}
    if len(types) > 1:
        message = f"asks for parameters of one type; the list has {', '.join(sorted(types))}"
        remedy = "Let the program keep all its parameters in one type, and trace it again."
        raise InputProblems([Problem(field=field, message=message, remedy=remedy)])
    seen: dict[str, None] = {ROOT: None}
    for call in found.calls:
        if call.phase == Phase.FORWARD and call.module != NONE:
            seen.setdefault(unit_of(found.modules[call.module]))
    holding = {unit_of(one.name) for one in found.weights}
    names = tuple(name for name in seen if name == ROOT or name in holding)
    index = {name: at for at, name in enumerate(names)}
    (kept,) = types
    return Units(
        found=found,
        names=names,
        of_weight=tuple(index.get(unit_of(one.name), 0) for one in found.weights),
        kept=kept,
        used=_used(found, kept),
    )


def alone(found: OpList, field: str) -> None:
    """Raise InputProblems that name ``field`` for a list that is spread over ranks already."""
    if reason := spread(found):
        remedy = "Trace it for one rank, or for as many as are meant."
        raise InputProblems([Problem(field=field, message=reason, remedy=remedy)])


def spread(found: OpList) -> str:
    """Why a list is not of one rank alone, "" where it is."""
    if found.world_size > 1:
        return f"is of one rank of {found.world_size} already"
    return "has collectives already" if any(call.kind == "collective" for call in found.calls) else ""


def lacks(found: OpList) -> str:
    """What a list does not say that layouts by module need, "" where it says all."""
    if not found.weights:
        whose = "a profile does not say" if found.source == "profile" else "the list does not say"
        return f"needs to know which module has which parameters, which {whose}"
    if not any(one.weight != NONE for one in found.storages):
        return "needs to know what memory the parameters take, which the list does not say"
    return ""


def _used(found: OpList, kept: str) -> str:
    """The type of forward's products where autocast narrows that of the parameters."""
    if kept in NARROW:
        return kept
    for call in found.calls:
        if call.kind == "kernel" and call.phase == Phase.FORWARD:
            s = found.of(call)
            if (
                s.op.startswith(("aten::mm", "aten::addmm", "aten::linear"))
                and s.inputs
                and torch_name(s.inputs[-1].dtype) in NARROW
            ):
                return torch_name(s.inputs[-1].dtype)
    return kept
