"""Stages: the list of one pipeline stage, cut out of a whole one between its repeated layers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from estimator.estimate.layout.linear_split import is_product
from estimator.estimate.layout.rewrite import Rewrite, bytes_of
from estimator.estimate.layout.units import ROOT, Shares, Units, elements, unit_of, units_of
from estimator.scenario.aten_cost import op_name
from estimator.scenario.breakdown import MemoryKind, Phase
from estimator.scenario.op_list import NONE, OpList, Storage
from estimator.scenario.problems import InputProblems, Problem

LEAVE_OUT = "Leave it out."
STACK_FRAC = 0.1
"""Share of a stack's parameters from which other repeated modules are a stack of their own."""


@dataclass(frozen=True)
class Cut:
    """Where every call and parameter of a list stands on the way through its layers.

    ``layers``: their units in order. ``of_call``: index of the layer, −1 before the first, their number after the last;
    ``ends``: the first call after backward. ``of_weight``: as ``of_call``; ``tied``: parameters that the end uses too.
    """

    units: Units
    layers: tuple[str, ...]
    of_call: tuple[int, ...]
    of_weight: tuple[int, ...]
    tied: frozenset[int]
    ends: int

    @property
    def found(self) -> OpList:
        """The whole list."""
        return self.units.found

    @cached_property
    def boundary_bytes(self) -> float:
        """Bytes that a layer hands to the next for one micro-batch: what its last op makes."""
        last = NONE
        for index, call in enumerate(self.found.calls):
            if call.kind == "kernel" and call.phase == Phase.FORWARD and self.of_call[index] == 0:
                last = index
        outputs = self.found.of(self.found.calls[last]).outputs
        return float(max(map(bytes_of, outputs), default=0))

    @property
    def tied_bytes(self) -> float:
        """Bytes of gradients that first and last stage sum."""
        gradients = (one for one in self.found.storages if one.kind == MemoryKind.GRADIENTS and one.born != NONE)
        return float(sum(one.bytes for one in gradients if one.weight in self.tied))


def cut(found: OpList, field: str = "plan.pp") -> Cut:
    """Find a list's layers.

    Raises InputProblems, of the field that asks for it, for a list that has no layers, several stacks of them, or
    several micro-batches.
    """
    units = units_of(found, field)
    layers = _stack(units, field)
    index = {name: at for at, name in enumerate(layers)}
    own = [index.get(units.names[units.of(call)], NONE) for call in found.calls]
    backward = [at for at, call in enumerate(found.calls) if call.phase == Phase.BACKWARD]
    ends = backward[-1] + 1 if backward else len(found.calls)
    begins = backward[0] if backward else ends
    if any(call.phase == Phase.FORWARD for call in found.calls[begins:ends]):
        message = "needs a list of one micro-batch; this one goes forward again after backward"
        raise _refused(field, message, "Trace the program without gradient accumulation.")
    forward = [at for at in range(begins) if own[at] != NONE and found.calls[at].phase == Phase.FORWARD]
    starts = set({own[at]: at for at in reversed(forward)}.values())
    order = [own[at] for at in forward]
    if order != sorted(order):
        raise _refused(field, "needs layers that follow one another; forward comes back to an earlier one")
    of_call: list[int] = []
    here = -1
    for at in range(begins):
        if at in starts:
            here = own[at]
        if forward and at > forward[-1]:
            here = len(layers)
        of_call.append(here)
    here = len(layers)
    last_of_first = max((at for at in range(begins, ends) if own[at] == 0), default=ends)
    for at in range(begins, ends):
        if own[at] != NONE and own[at] < here:
            here = own[at]
        of_call.append(-1 if at > last_of_first else here)
    of_call += [NONE - 1] * (len(found.calls) - ends)
    of_weight = tuple(_place(units, at, index, of_call) for at in range(len(found.weights)))
    return Cut(units, layers, tuple(of_call), of_weight, _tied(units, of_call, of_weight, len(layers)), ends)


def stage(whole: Cut, layers: Iterable[int], *, embedding: bool, head: bool) -> OpList:
    """The list of one micro-batch on a stage of these layers, and of what its rank does once in a step."""
    found, kept = whole.found, set(layers)
    kept |= {-1} if embedding else set()
    kept |= {len(whole.layers)} if head else set()
    holds = [
        place in kept or (head and at in whole.tied) for at, place in enumerate(whole.of_weight)
    ]  # fmt: skip
    renamed = {at: new for new, at in enumerate(at for at, held in enumerate(holds) if held)}
    shares = Shares(found, lambda at: found.weights[at].shape if holds[at] else None)
    out = Rewrite(found)
    for index, call in enumerate(found.calls):
        if index < whole.ends:
            if whole.of_call[index] in kept:
                out.keep()
            else:
                out.drop()
        elif call.kind != "kernel":
            out.keep()
        else:
            own = shares.of(found.of(call))
            if own is None:
                out.drop()
            else:
                # once in a step, as the optimizer that it comes before
                out.keep(own, phase=Phase.OPTIMIZER)
    storages = []
    for one in found.storages:
        if one.weight != NONE:
            if holds[one.weight]:
                storages.append(replace(out.moved(one), weight=renamed[one.weight]))
            continue
        if one.born == NONE or one.born >= whole.ends or _here(whole, one, kept):
            left = out.resized(one)
            storages += [left] if left is not None else []
    weights = tuple(one for at, one in enumerate(found.weights) if holds[at])
    return replace(
        out.finish(storages, ""),
        assumptions=found.assumptions,
        weights=weights,
        parameters=sum(map(elements, weights)),
        trained_parameters=sum(elements(one) for one in weights if one.trains),
    )


def kept_bytes(whole: Cut, layers: Iterable[int], *, embedding: bool, head: bool) -> tuple[float, float]:
    """Bytes that one micro-batch keeps for its backward on such a stage: of layers and embedding, and of the head."""
    places = {*layers, *([-1] if embedding else [])}
    inside = at_head = 0.0
    begins = next((at for at, call in enumerate(whole.found.calls) if call.phase == Phase.BACKWARD), whole.ends)
    for one in whole.found.storages:
        lives = (
            one.kind == MemoryKind.ACTIVATIONS and NONE < one.born < begins and (one.died > begins or one.died == NONE)
        )
        if lives and whole.of_call[one.born] in places:
            inside += one.bytes
        elif lives and head and whole.of_call[one.born] == len(whole.layers):
            at_head += one.bytes
    return inside, at_head


def handed_bytes(whole: Cut) -> float:
    """Bytes of what the last stage hands to its schedule, the logits: what the largest product of the head makes."""
    made = 0
    for one in whole.found.storages:
        call = whole.found.calls[one.born] if one.born != NONE else None
        if call is None or call.phase != Phase.FORWARD or call.signature == NONE:
            continue
        if whole.of_call[one.born] == len(whole.layers) and is_product(whole.found.of(call)):
            made = max(made, one.bytes)
    return float(made)


def _here(whole: Cut, one: Storage, kept: set[int]) -> bool:
    """Whether a stage holds a tensor: it makes it, or is the last to use it, as what another stage sent."""
    if whole.of_call[one.born] in kept:
        return True
    last = one.died - 1
    return one.died != NONE and last < whole.ends and whole.of_call[last] in kept


def _stack(units: Units, field: str) -> tuple[str, ...]:
    sizes: dict[str, list[float]] = {}
    names: dict[str, list[str]] = {}
    for at, name in enumerate(units.names):
        if name != ROOT:
            parent = name.rpartition(".")[0]
            names.setdefault(parent, []).append(name)
            sizes.setdefault(parent, []).append(float(sum(map(elements, units.weights(at)))))
    stacks = sorted((parent for parent in names if len(names[parent]) > 1), key=lambda parent: -sum(sizes[parent]))
    if not stacks:
        raise _refused(field, "needs repeated layers to cut between; the list's modules have none")
    others = [parent for parent in stacks[1:] if sum(sizes[parent]) > STACK_FRAC * sum(sizes[stacks[0]])]
    if others:
        said = ", ".join(one or "the model itself" for one in (stacks[0], *others))
        raise _refused(field, f"needs one stack of layers to cut; the list has several: {said}")
    return tuple(names[stacks[0]])


def _place(units: Units, at: int, index: dict[str, int], of_call: list[int]) -> int:
    """Where a parameter is: in its layer, else where its module first runs."""
    name = units.found.weights[at].name
    if (unit := unit_of(name)) in index:
        return index[unit]
    path = name.rpartition(".")[0]
    for call, place in zip(units.found.calls, of_call, strict=False):
        if (
            call.phase == Phase.FORWARD
            and call.module != NONE
            and path
            and _within(units.found.modules[call.module], path)
        ):
            return -1 if place < len(index) else len(index)
    return -1


def _within(module: str, path: str) -> bool:
    return module == path or module.startswith(f"{path}.")


def _tied(units: Units, of_call: list[int], of_weight: tuple[int, ...], layers: int) -> frozenset[int]:
    """Parameters from before the layers that a product behind them uses: of a module that has none of its own."""
    own = {one.name.rpartition(".")[0] for one in units.found.weights}
    found = set()
    for call, place in zip(units.found.calls, of_call, strict=False):
        if place != layers or call.kind != "kernel" or call.phase != Phase.FORWARD or call.module == NONE:
            continue
        s = units.found.of(call)
        if op_name(s.op) in ("mm", "addmm", "linear") and units.found.modules[call.module] not in own:
            shapes = {one.shape for one in s.inputs} | {one.shape[::-1] for one in s.inputs}
            ahead = (at for at, place in enumerate(of_weight) if place == -1)
            shaped = {at: units.found.weights[at].shape for at in ahead}
            found |= {at for at, shape in shaped.items() if len(shape) == 2 and shape in shapes}
    return frozenset(found)


def _refused(field: str, message: str, remedy: str = LEAVE_OUT) -> InputProblems:
    return InputProblems([Problem(field=field, message=message, remedy=remedy)])
