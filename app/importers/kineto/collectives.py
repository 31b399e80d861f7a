"""Collectives: size, ranks and time of each kind of message, from what NCCL's kernels say about themselves."""

from __future__ import annotations

import statistics

from app.importers.bandwidth import bus_factor, collective_kind
from app.importers.kineto.columns import Trace, Wholes
from estimator.measurement import MeasuredCollective, Warning
from runners.kernels import category_of

_ELEMENT_BYTES = {
    "float": 4, "half": 2, "bfloat16": 2, "double": 8, "byte": 1, "char": 1, "bool": 1, "short": 2, "int": 4, "long": 8,
    "float8_e4m3fn": 1, "float8_e5m2": 1,
}  # fmt: skip
_TOTAL_IS_OUTPUT = ("all-gather",)


def collectives(trace: Trace, events: Wholes, warnings: list[Warning]) -> tuple[MeasuredCollective, ...]:
    """Group the communication kernels among ``events`` by kind, size and ranks, with the median time of each group."""
    groups: dict[tuple[str, float, int], list[float]] = {}
    silent = 0
    for index in events.tolist():
        if category_of(trace.names[trace.device.name[index]]) != "communication":
            continue
        message = trace.device.extra[index]
        found = _described(trace, message) if message >= 0 else None
        if found is None:
            silent += 1
        else:
            groups.setdefault(found, []).append(trace.device.dur[index] * 1e-6)
    if silent:
        message_text = (
            f"{silent} communication kernels do not say how much they sent (older PyTorch); only their time counts"
        )
        warnings.append(Warning(code="collective-size-unknown", message=message_text))
    if groups or silent:
        message_text = "The time of a communication kernel includes waiting for the other ranks"
        warnings.append(Warning(code="collective-includes-wait", message=message_text))
    ordered = sorted(groups.items(), key=lambda item: -sum(item[1]))
    return tuple(_measured(kind, size, ranks, times) for (kind, size, ranks), times in ordered)


def _described(trace: Trace, index: int) -> tuple[str, float, int] | None:
    message = trace.messages[index]
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
