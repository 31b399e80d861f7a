"""Proton, Triton's profiler (``proton.finalize()`` writes ``*.hatchet``): kernels by name, of the whole recording.

A tree of scopes whose nodes with a time are kernels. FLOPs and bytes are what a program said of its kernels, beside the
time or, where a launch says them, in the scope around a single kernel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec

from app.importers.amounts import amount
from app.importers.counted import CountedLaunches, counted_kernels
from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.names import short_name
from app.importers.source import Source
from app.importers.whole_recording import no_steps
from estimator.scenario.measurement import Measurement, Origin, Warning
from estimator.scenario.units import MIB

_TIME, _BYTES, _FLOPS = "time (ns)", "bytes", "flops"
_NS = 1e-9
_MOST = 1e24
"""FLOPs or bytes of all launches of a kernel; what is more was not counted."""
_MOST_BYTES = 256 * MIB
_REMEDY = "Upload the .hatchet that proton.finalize() wrote; its default data are a tree, and its context the kernels."


class Frame(msgspec.Struct):
    """Where a node is."""

    name: str = ""


class Node(msgspec.Struct):
    """A scope or a kernel; the last of the file is a table of devices and is neither."""

    frame: Frame = msgspec.field(default_factory=Frame)
    metrics: dict[str, Any] = {}
    children: list[Node] = []


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Sum kernels by name; raise ImportRefused where there is none."""
    try:
        trees = msgspec.json.decode(source.read("proton", _MOST_BYTES), type=list[Node])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ImportRefused("proton", "", f"this is no profile that can be read ({error})", _REMEDY) from None
    runs: dict[str, list[CountedLaunches]] = defaultdict(list)
    devices = set()
    for node, said in _timed(trees):
        seconds, count = (amount(node.metrics[_TIME]) or 0.0) * _NS, amount(node.metrics.get("count")) or 1.0
        launches = CountedLaunches(seconds=seconds, count=int(count), flops=_flops(said), bytes=_bytes(said))
        runs[short_name(node.frame.name or "(unnamed)")].append(launches)
        devices.add(str(node.metrics.get("device_id", ""))[:20])
    if not runs:
        raise ImportRefused("proton", "", "no kernel with a time is in it", _REMEDY)
    kernels = counted_kernels(runs)
    warnings = [no_steps("Proton")]
    if len(devices) > 1:
        message = f"Kernels of {len(devices)} devices are added up"
        warnings.append(Warning(code="devices-added", message=message))
    measurement = Measurement(
        label=filename[:200],
        origin=Origin(kind="upload", format="proton", producer="Proton"),
        device={"count": len(devices)} if len(devices) > 1 else {},
        kernels=tuple(kernels[: limits.kernels]),
        warnings=tuple(warnings),
    )
    return Imported(
        measurements=(measurement,), warnings=tuple(warnings), skipped=max(0, len(kernels) - limits.kernels)
    )


def _timed(trees: list[Node]) -> Iterator[tuple[Node, dict[str, Any]]]:
    """Every node with a time, and the figures that are said of it."""
    waiting: list[tuple[Node, dict[str, Any]]] = [(node, {}) for node in trees]
    while waiting:
        node, around = waiting.pop()
        if amount(node.metrics.get(_TIME)):
            own = _flops(node.metrics) is not None or _bytes(node.metrics) is not None
            yield node, node.metrics if own else around
        alone = len(node.children) == 1
        waiting += [(child, node.metrics if alone and _TIME not in node.metrics else {}) for child in node.children]


def _flops(said: dict[str, Any]) -> float | None:
    """``flops``, ``flops8``, ``flops16`` …: of one width each."""
    found = [value for name, text in said.items() if name.startswith(_FLOPS) and (value := amount(text, _MOST))]
    return sum(found) if found else None


def _bytes(said: dict[str, Any]) -> float | None:
    return amount(said.get(_BYTES), _MOST) or None
