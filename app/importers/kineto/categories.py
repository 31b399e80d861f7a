"""Categories and arithmetic of a trace's events, worked out once for each distinct name, op and shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.importers.kineto.flops import GRADIENTS_OF_WEIGHTS, arithmetic, results_of, score_size, touches_scores
from app.importers.kineto.intervals import Floats, Wholes
from app.importers.kineto.trace_columns import Trace
from app.importers.kineto.work_spans import CODE
from estimator.scenario.breakdown import ARITHMETIC, Category
from runners.trace.kernel_category import category_of

_MOVES = ("Memset", "Memcpy")
_PRODUCTS = ("aten::bmm", "aten::baddbmm")


def categories(trace: Trace, name: Wholes, op: Wholes) -> Wholes:
    """Category of each kernel (or op) by its name, refined by the op behind it (−1: unknown).

    An op of attention makes its kernels attention; a kernel of no known name is what its op is; and products and
    element-wise kernels on whole score matrices are eager attention.
    """
    sizes = _score_sizes(trace)
    op_name, shape = _behind(trace, op)
    pair, pairs = _numbered(op_name + 1, shape + 1)
    triple, triples = _numbered(name, pair)
    found = np.empty(len(triples), dtype=np.int64)
    for i, (own, behind) in enumerate(triples.tolist()):
        behind_name, behind_shape = (int(part) - 1 for part in pairs[behind])
        found[i] = CODE[
            _category(
                trace.names[own],
                trace.names[behind_name] if behind_name >= 0 else "",
                trace.shapes[behind_shape] if behind_shape >= 0 else None,
                sizes,
            )
        ]
    return found[triple]


def arithmetic_of(trace: Trace, op: Wholes) -> tuple[Floats, Floats]:
    """FLOPs and least bytes of each op, NaN where they are unknown."""
    op_name, shape = _behind(trace, op)
    shape = _around_weights(trace, op, op_name, shape)
    pair, pairs = _numbered(op_name + 1, shape + 1)
    told = results_of(_convolutions(trace))
    found = np.full((len(pairs), 2), np.nan)
    for i, (name, recorded) in enumerate(pairs.tolist()):
        if name > 0 and recorded > 0:
            known = arithmetic(trace.names[name - 1], trace.shapes[recorded - 1], told)
            found[i] = [np.nan if value is None else value for value in known]
    return found[pair, 0], found[pair, 1]


def _category(name: str, op_name: str, shape: Sequence[bytes] | None, sizes: set[tuple[int, int]]) -> str:
    category = category_behind(name, op_name)
    if name.startswith(_MOVES) or shape is None or not sizes:
        return category
    if op_name in _PRODUCTS and score_size(op_name, shape) in sizes:
        return Category.ATTENTION
    if category in (Category.MATMUL, Category.ELEMENTWISE) and touches_scores(shape, sizes):
        return Category.ATTENTION
    return category


def category_behind(name: str, op_name: str) -> str:
    """Category of a kernel by its name and that of the op behind it."""
    category = category_of(name)
    if name.startswith(_MOVES):  # whatever op asked for it, it computes nothing
        return category
    behind = category_of(op_name) if op_name else ""
    unknown = category == Category.OTHER
    if category != Category.COMMUNICATION and (behind == Category.ATTENTION or (unknown and behind in ARITHMETIC)):
        return behind
    return category


def _convolutions(trace: Trace) -> list[tuple[str, Sequence[bytes]]]:
    """Each op of backward convolutions with each shape that it had."""
    named = [i for i, name in enumerate(trace.names) if name.endswith("convolution_backward")]
    mine = np.flatnonzero(np.isin(trace.ops.wholes("name"), named)) if named else np.empty(0, dtype=np.int64)
    _, pairs = _numbered(trace.ops.wholes("name")[mine], trace.ops.wholes("extra")[mine] + 1)
    return [(trace.names[name], trace.shapes[shape - 1]) for name, shape in pairs.tolist() if shape > 0]


def _around_weights(trace: Trace, op: Wholes, op_name: Wholes, shape: Wholes) -> Wholes:
    """Shapes of ops, of gradients of a convolution's weights those of the op around them."""
    number = {name: i for i, name in enumerate(trace.names)}
    starts, threads = trace.ops.floats("ts"), trace.ops.wholes("thread")
    for inner, outer in GRADIENTS_OF_WEIGHTS.items():
        mine = np.flatnonzero(op_name == number.get(inner, -2))
        around = np.flatnonzero(trace.ops.wholes("name") == number.get(outer, -2))
        for thread in np.unique(threads[around]):
            there = around[threads[around] == thread]
            there = there[np.argsort(starts[there], kind="stable")]
            inside = mine[threads[op[mine]] == thread]
            last = np.searchsorted(starts[there], starts[op[inside]], side="right") - 1
            shape[inside[last >= 0]] = trace.ops.wholes("extra")[there[last[last >= 0]]]
    return shape


def _score_sizes(trace: Trace) -> set[tuple[int, int]]:
    """Sizes of the score matrices that eager attention makes, found by its products."""
    products = [i for i, name in enumerate(trace.names) if name in _PRODUCTS]
    mine = np.flatnonzero(np.isin(trace.ops.wholes("name"), products))
    _, pairs = _numbered(trace.ops.wholes("name")[mine], trace.ops.wholes("extra")[mine] + 1)
    found = {score_size(trace.names[name], trace.shapes[shape - 1]) for name, shape in pairs.tolist() if shape > 0}
    return {size for size in found if size is not None}


def _behind(trace: Trace, op: Wholes) -> tuple[Wholes, Wholes]:
    """Name and shape of the op behind each event, −1 where there is none."""
    if not len(trace.ops):
        return np.full(len(op), -1), np.full(len(op), -1)
    safe = np.maximum(op, 0)
    return (
        np.where(op >= 0, trace.ops.wholes("name")[safe], -1),
        np.where(op >= 0, trace.ops.wholes("extra")[safe], -1),
    )


def _numbered(first: Wholes, second: Wholes) -> tuple[Wholes, Wholes]:
    """Number the distinct pairs of two columns of numbers from 0 up; return each row's number, and the pairs."""
    width = int(second.max()) + 1 if len(second) else 1
    keys, number = np.unique(first * width + second, return_inverse=True)
    return number, np.stack((keys // width, keys % width), axis=1)
