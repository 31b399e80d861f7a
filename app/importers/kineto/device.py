"""Device: a step's kernels, copies and collectives as pieces, with the arithmetic of the ops that launched them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from app.importers.kineto.columns import Trace
from app.importers.kineto.flops import Arithmetic, arithmetic, score_size, touches_scores
from app.importers.kineto.launches import OPTIMIZER, Launches, phases
from app.importers.kineto.pieces import Piece
from app.importers.kineto.steps import Step
from runners.kernels import category_of

_ARITHMETIC = ("matmul", "attention")


def device_pieces(trace: Trace, launched: Launches, step: Step) -> list[Piece]:
    """Describe every device event of a step.

    A kernel's category is that of its name; the op that launched it settles what a name leaves open, and its FLOPs and
    bytes are shared among its kernels by their time, since split-k and reduction kernels work on one product.
    """
    index = step.launched
    phase = phases(trace, launched.time[index], launched.thread[index])
    starts, lengths = trace.device.floats("ts")[index], trace.device.floats("dur")[index]
    names, ops = trace.device.wholes("name")[index], launched.op[index]
    category_of_event = categories(trace)
    pieces: list[Piece] = []
    of_op: dict[int, list[Piece]] = {}
    for i, start in enumerate(starts.tolist()):
        op = int(ops[i])
        category = _placed(category_of_event(int(names[i]), op), phase[i])
        piece = Piece(
            name=trace.names[int(names[i])],
            category=category,
            phase=phase[i],
            start=start,
            end=start + float(lengths[i]),
        )
        claimed = trace.claimed.get(int(index[i]))
        if claimed is not None:
            piece.flops, piece.bytes = claimed
        elif op >= 0:
            of_op.setdefault(op, []).append(piece)
        pieces.append(piece)
    _share(trace, of_op)
    return pieces


def score_sizes(trace: Trace) -> set[tuple[int, int]]:
    """Sizes of the score matrices that eager attention makes, found by its products."""
    found = set()
    seen: set[tuple[int, int]] = set()
    for name, shape in zip(trace.ops.name, trace.ops.extra, strict=True):
        if shape >= 0 and (name, shape) not in seen:
            seen.add((name, shape))
            size = score_size(trace.names[name], trace.shapes[shape])
            if size is not None:
                found.add(size)
    return found


def categories(trace: Trace) -> Callable[[int, int], str]:
    """Return the function that tells the category of a kernel (or op) of one name, launched by one op (−1: unknown)."""
    sizes = score_sizes(trace)

    @cache
    def known(name: int, op_name: int, shape: int) -> str:
        behind = trace.names[op_name] if op_name >= 0 else ""
        return _category(trace.names[name], behind, trace.shapes[shape] if shape >= 0 else None, sizes)

    def category(name: int, op: int) -> str:
        return known(name, trace.ops.name[op], trace.ops.extra[op]) if op >= 0 else known(name, -1, -1)

    return category


def _category(name: str, op_name: str, shape: tuple[bytes, bytes, bytes] | None, sizes: set[tuple[int, int]]) -> str:
    """Category of a kernel or op by its name, refined by the op behind it and by whether it works on scores."""
    category = category_of(name)
    behind = category_of(op_name) if op_name else ""
    if behind == "attention" or (category == "other" and behind in _ARITHMETIC):
        category = behind if category != "communication" else category
    if shape is not None and sizes and category in ("matmul", "elementwise") and touches_scores(shape, sizes):
        return "attention"
    if shape is not None and op_name in ("aten::bmm", "aten::baddbmm") and score_size(op_name, shape) in sizes:
        return "attention"
    return category


def _placed(category: str, phase: str) -> str:
    if phase == OPTIMIZER and category in ("elementwise", "other"):
        return OPTIMIZER
    return "other" if category == "host" else category  # it ran on the device, whatever its name recalls


def _share(trace: Trace, of_op: dict[int, list[Piece]]) -> None:
    @cache
    def known(name: int, shape: int) -> Arithmetic:
        return arithmetic(trace.names[name], trace.shapes[shape])

    for op, parts in of_op.items():
        shape = trace.ops.extra[op]
        if shape < 0:
            continue
        flops, moved = known(trace.ops.name[op], shape)
        workers = [part for part in parts if part.category in _ARITHMETIC]
        if (flops is None and moved is None) or not workers:
            continue
        total = sum(part.end - part.start for part in workers)
        for part in workers:
            share = (part.end - part.start) / total if total else 1 / len(workers)
            part.flops = None if flops is None else flops * share
            part.bytes = None if moved is None else moved * share
