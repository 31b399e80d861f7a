"""Attention's softmax: which one a table's memory is of, told from what each keeps, figure by figure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from estimator.scenario.units import MIB
from estimator.validation.swept_attention import SWEPT_BATCH, WIDTHS, WRITTEN_OUT_BYTES, kept_bytes

_KEPT = "memory_before_backward_bytes"
_WORKSPACES = (8_519_680.0, 32.0 * MIB)
"""Of cuBLAS for one thread, 2·4096 + 8·16 KiB before Hopper and 32 MiB since (aten/src/ATen/cuda/CUDABlas.cpp)."""
_AGREEING = 0.8


def recognise_memory(rows: list[dict[str, Any]]) -> None:
    """Write down whose memory it is, where one reading gives nearly all rows to their last digit.

    ``softmax``: written out, where each row of scores keeps its sum and the place of its maximum; ``workspaces`` 1 in a
    first row that was read before any backward; ``dynamic_shapes`` where torch.compile built its graph anew for any
    length, after the first one.
    """
    kept = [row for row in rows if row.get(_KEPT) is not None and isinstance(row.get("seq_len"), int) and _width(row)]
    tolerance = _digit({row[_KEPT] for row in kept})
    readings = [(workspace, row_bytes) for workspace in _WORKSPACES for row_bytes in (0.0, WRITTEN_OUT_BYTES)]
    best, agreeing = readings[0], -1
    for workspace, row_bytes in readings:
        count = sum(_fits(row, 2 * workspace, row_bytes, tolerance) for row in kept)
        if count > agreeing:
            best, agreeing = (workspace, row_bytes), count
    if len(kept) < 3 or agreeing < _AGREEING * len(kept):
        return
    workspace, row_bytes = best
    for row in kept:
        if row_bytes:
            row["softmax"] = "written out"
        if _fits(row, workspace, row_bytes, tolerance) and not _fits(row, 2 * workspace, row_bytes, tolerance):
            row["workspaces"] = 1
        if not _fits(row, 2 * workspace, row_bytes, tolerance) and _fits(
            row, 2 * workspace, row_bytes, tolerance, widened=True
        ):
            row["dynamic_shapes"] = True


def _fits(row: dict[str, Any], workspace: float, row_bytes: float, tolerance: float, *, widened: bool = False) -> bool:
    batch = int(row.get("batch", SWEPT_BATCH))
    found = kept_bytes(batch, row["seq_len"], _width(row), row_bytes=row_bytes, widened=widened) + workspace
    return abs(float(found) - float(row[_KEPT])) <= tolerance


def _width(row: dict[str, Any]) -> int:
    return next((row[name] for name in WIDTHS if isinstance(row.get(name), int)), 0)


def _digit(sizes: Iterable[float]) -> float:
    """Half of the last digit of megabytes printed with up to two decimals."""
    scales = (float(MIB), 1e6)
    for decimals in (0, 1, 2):
        for scale in scales:
            if all(abs(size / scale - round(size / scale, decimals)) < 1e-6 for size in sizes):
                return 0.51 * scale * 10.0**-decimals
    return 0.51 * scales[0] * 1e-2
