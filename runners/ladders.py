"""Ladders by name: each gives its rungs for a GPU or a CPU, all of them or a few small ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from runners.ladders_host import launches, optimizers
from runners.ladders_products import attentions, gemms
from runners.ladders_streams import copies, elementwise, reductions
from runners.rungs import Rung

LADDERS: dict[str, Callable[[bool, bool], Iterator[Rung]]] = {
    "gemm": gemms,
    "attention": attentions,
    "elementwise": elementwise,
    "reduction": reductions,
    "copy": copies,
    "launch": launches,
    "optimizer": optimizers,
}
