"""Host: a step without a device's kernels, as the own times of its ATen ops on the threads that ran them."""

from __future__ import annotations

from functools import cache

import numpy as np

from app.importers.kineto.columns import Trace
from app.importers.kineto.device import categories
from app.importers.kineto.flops import Arithmetic, arithmetic
from app.importers.kineto.intervals import groups
from app.importers.kineto.launches import OPTIMIZER, phases
from app.importers.kineto.nesting import innermost
from app.importers.kineto.pieces import COMMUNICATION, Piece
from app.importers.kineto.steps import Step
from runners.kernels import category_of

_ONLY_CHOOSES = ("matmul", "attention")


def host_pieces(trace: Trace, step: Step) -> list[Piece]:
    """Cut a step's ops into stretches of own time; the first stretch of a call carries its FLOPs and bytes.

    Ops that only choose the one below them (linear, matmul, conv2d) count as host time, as do views and the engine.
    Collectives are ranges on threads of their own.
    """
    starts = trace.ops.floats("ts")
    ends = starts + trace.ops.floats("dur")
    threads = trace.ops.wholes("thread")
    inside = np.flatnonzero((starts >= step.begin) & (starts < step.end))
    category_of_op = categories(trace)

    @cache
    def known(name: int, shape: int) -> Arithmetic:
        return arithmetic(trace.names[name], trace.shapes[shape]) if shape >= 0 else (None, None)

    pieces = _collectives(trace, step)
    for thread, members in groups(threads[inside]):
        ops = inside[members]
        low, high, owner, parents = innermost(starts[ops], ends[ops])
        phase = phases(trace, low, np.full(len(low), thread))
        seen: set[int] = set()
        for i, own in enumerate(owner.tolist()):
            op = int(ops[own])
            name = trace.names[trace.ops.name[op]]
            flops, moved = known(trace.ops.name[op], trace.ops.extra[op])
            category = _category(
                category_of_op(trace.ops.name[op], op), name, chooses=bool(parents[own]) and flops is None
            )
            if phase[i] == OPTIMIZER and category in ("elementwise", "other"):
                category = OPTIMIZER
            first = own not in seen
            seen.add(own)
            piece = Piece(name=name, category=category, phase=phase[i], start=float(low[i]), end=float(high[i]))
            piece.calls = int(first)
            if flops is not None:
                piece.flops, piece.bytes = (flops, moved) if first else (0.0, 0.0)
            pieces.append(piece)
    return pieces


def _category(category: str, name: str, chooses: bool) -> str:
    if name.startswith("c10d::"):  # it only starts the collective, which runs elsewhere
        return "host"
    return "host" if chooses and category in _ONLY_CHOOSES else category


def _collectives(trace: Trace, step: Step) -> list[Piece]:
    found = []
    for i in range(len(trace.marks)):
        name, begin = trace.names[trace.marks.name[i]], trace.marks.ts[i]
        if step.begin <= begin < step.end and category_of(name) == COMMUNICATION:
            end = begin + trace.marks.dur[i]
            found.append(Piece(name=name, category=COMMUNICATION, phase="backward", start=begin, end=end))
    return found
