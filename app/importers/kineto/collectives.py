"""Collectives: size, ranks and time of each kind of message, from what NCCL's kernels say about themselves."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import numpy as np

from app.importers.bandwidth import bus_factor, collective_kind
from app.importers.kineto.flops import input_bytes
from app.importers.kineto.intervals import contains, union
from app.importers.kineto.steps import StepWindow
from app.importers.kineto.trace_columns import Trace, Wholes
from estimator.scenario.breakdown import Category
from estimator.scenario.measurement import MeasuredCollective, Warning
from estimator.scenario.units import counted
from runners.trace.kernel_category import category_of

_ELEMENT_BYTES = {
    "float": 4, "half": 2, "bfloat16": 2, "double": 8, "byte": 1, "char": 1, "bool": 1, "short": 2, "int": 4, "long": 8,
    "float8_e4m3fn": 1, "float8_e5m2": 1,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Message:
    """One collective of a step: what it is, in which group, as JSON, and seconds of its kernel on this rank."""

    kind: str
    bytes: float
    ranks: int
    members: str
    seconds: float


Groups = dict[tuple[str, float, int], list[float]]
_TOTAL_IS_OUTPUT = ("all-gather",)


def collectives(
    trace: Trace, every: list[StepWindow], world_size: int, warnings: list[Warning]
) -> tuple[MeasuredCollective, ...]:
    """Group the collectives of the given steps by kind, size and ranks, with the median time of each group.

    On a device they are kernels that say what they sent; on the CPU they are ranges such as ``gloo:all_reduce``, whose
    inputs were recorded, over all ranks.
    """
    groups: Groups = {}
    if len(trace.device):
        silent = _of_kernels(trace, np.concatenate([step.launched for step in every]), groups)
    else:
        silent = _of_ranges(trace, every, world_size, groups)
    if silent:
        message_text = (
            f"Of {counted(silent, 'collective')} only the time counts: how much was sent is not said (older PyTorch, "
            "or no shapes)"
        )
        warnings.append(Warning(code="collective-size-unknown", message=message_text))
    if groups or silent:
        message_text = "The time of a collective includes waiting for the other ranks"
        warnings.append(Warning(code="collective-includes-wait", message=message_text))
    ordered = sorted(groups.items(), key=lambda item: -sum(item[1]))
    return tuple(_measured(kind, size, ranks, times) for (kind, size, ranks), times in ordered)


def messages(trace: Trace, step: StepWindow) -> list[Message]:
    """Return the collectives that a step launched, in the order in which the device began them."""
    found = []
    ordered = step.launched[np.argsort(trace.device.floats("ts")[step.launched], kind="stable")]
    for index in _communicating(trace, ordered).tolist():
        name = trace.names[trace.device.name[index]]
        place = trace.device.extra[index]
        said = _described(trace, place) if place >= 0 else None
        kind, size, ranks = said or (collective_kind(name), 0.0, 0)
        members = trace.collectives[place].members if place >= 0 else ""
        seconds = trace.device.dur[index] * 1e-6
        found.append(Message(kind=kind, bytes=size, ranks=ranks, members=members, seconds=seconds))
    return found


def _communicating(trace: Trace, events: Wholes) -> Wholes:
    """Those of the device's events that communicate, by the names that they share."""
    numbers = trace.device.wholes("name")[events]
    present = np.flatnonzero(np.bincount(numbers)).tolist()
    found = [one for one in present if category_of(trace.names[one]) == Category.COMMUNICATION]
    return events[np.isin(numbers, found)] if found else events[:0]


def _of_kernels(trace: Trace, events: Wholes, groups: Groups) -> int:
    silent = 0
    for index in _communicating(trace, events).tolist():
        message = trace.device.extra[index]
        found = _described(trace, message) if message >= 0 else None
        if found is None:
            silent += 1
        else:
            groups.setdefault(found, []).append(trace.device.dur[index] * 1e-6)
    return silent


def _of_ranges(trace: Trace, every: list[StepWindow], world_size: int, groups: Groups) -> int:
    silent = 0
    starts, ends = union(np.array([step.begin for step in every]), np.array([step.end for step in every]))
    measured = contains(starts, ends, trace.marks.floats("ts"))
    for index in np.flatnonzero(measured).tolist():
        name = trace.names[trace.marks.name[index]]
        if category_of(name) != Category.COMMUNICATION:
            continue
        shape, kind = trace.marks.extra[index], collective_kind(name)
        size = input_bytes(trace.shapes[shape]) if shape >= 0 else None
        if size and kind:
            groups.setdefault((kind, size, world_size), []).append(trace.marks.dur[index] * 1e-6)
        else:
            silent += 1
    return silent


def _described(trace: Trace, index: int) -> tuple[str, float, int] | None:
    message = trace.collectives[index]
    kind = collective_kind(message.name)
    element = _ELEMENT_BYTES.get(message.dtype.lower())
    sent = message.out_elements if kind in _TOTAL_IS_OUTPUT else message.in_elements
    sent = sent or max(message.in_elements, message.out_elements)
    if not kind or element is None or sent <= 0 or message.ranks < 1:
        return None
    return kind, float(sent * element), message.ranks


def _measured(kind: str, size: float, ranks: int, times: list[float]) -> MeasuredCollective:
    seconds = statistics.median(times)
    algorithm = size / seconds if seconds > 0 else None
    return MeasuredCollective(
        kind=kind,
        bytes=size,
        ranks=ranks,
        seconds=seconds,
        algorithm_bytes_per_s=algorithm,
        bus_bytes_per_s=None if algorithm is None else algorithm * bus_factor(kind, ranks),
    )
