"""Ladders by name: each gives its probes for a GPU or a CPU, all of them or a few small ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from runners.probes.host import launches, optimizers
from runners.probes.probe import Probe
from runners.probes.products import attentions, gemms
from runners.probes.runtimes import runtimes
from runners.probes.streams import copies, elementwise, reductions

LADDERS: dict[str, Callable[[bool, bool], Iterator[Probe]]] = {
    "gemm": gemms,
    "attention": attentions,
    "elementwise": elementwise,
    "reduction": reductions,
    "copy": copies,
    "launch": launches,
    "optimizer": optimizers,
    "runtime": runtimes,
}
