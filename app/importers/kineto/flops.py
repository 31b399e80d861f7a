"""FLOPs and bytes of the ops that do a trace's arithmetic, from the shapes that the profiler recorded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from app.importers.kineto.events import decoded_list
from estimator.scenario.aten_cost import bytes_of, convolution_flops, element_bytes, flops_of

_LARGEST_DIMENSION = 10**9
_MOST_DIMENSIONS = 8
_FORWARD_CONVOLUTIONS = {  # op → positions of stride, padding, dilation, groups among its inputs; −1: it has none
    "aten::cudnn_convolution": (3, 2, 4, 5),
    "aten::cudnn_convolution_relu": (3, 4, 5, 6),
    "aten::cudnn_convolution_add_relu": (5, 6, 7, 8),
    "aten::miopen_convolution_relu": (3, 4, 5, 6),
    "aten::miopen_convolution_add_relu": (5, 6, 7, 8),
    "aten::mkldnn_convolution": (4, 3, 5, 6),
    "aten::miopen_convolution": (4, 3, 5, 6),
    "aten::_slow_conv2d_forward": (4, 5, -1, -1),
    "aten::_conv_depthwise2d": (4, 5, 6, -1),
}
_BACKWARD_CONVOLUTION = "aten::convolution_backward"
_BACKWARD_GROUPS, _BACKWARD_MASK = 9, 10
_WHOLE_BACKWARDS = {  # op → positions of gradient, input and weights among its inputs
    _BACKWARD_CONVOLUTION: (0, 1, 2),
    "aten::cudnn_convolution_backward": (1, 0, 2),
    "aten::miopen_convolution_backward": (1, 0, 2),
}
GRADIENTS_OF_WEIGHTS = {
    "aten::cudnn_convolution_backward_weight": "aten::cudnn_convolution_backward",
    "aten::miopen_convolution_backward_weight": "aten::miopen_convolution_backward",
}
"""Of PyTorch before 1.11, by the op around them: that was given the weights, whose gradient they return."""
_GRADIENTS_OF_INPUTS = ("aten::cudnn_convolution_backward_input", "aten::miopen_convolution_backward_input")

Arithmetic = tuple[float | None, float | None]
Sizes = tuple[int, ...]
Results = dict[tuple[Sizes, Sizes], Sizes]
"""Sizes of a convolution's result by those of its input and weights; none where two calls contradict."""


def results_of(calls: Iterable[tuple[str, Sequence[bytes]]]) -> Results:
    """Gather what backward convolutions tell of forward ones: the gradient that they take has the result's size.

    Before 2.1 PyTorch's profiler wrote no strides, without which that size is unknown.
    """
    found: Results = {}
    for name, shape in calls:
        places = _WHOLE_BACKWARDS.get(name)
        shapes = _shapes(shape[0]) if places else []
        if places and len(shapes) > 2:
            gradient, entering, weight = (tuple(shapes[place]) for place in places)
            known = found.get((entering, weight), gradient)
            found[entering, weight] = gradient if known == gradient else ()
    return found


def arithmetic(name: str, shape: Sequence[bytes], told: Results | None = None) -> Arithmetic:
    """Return FLOPs and least bytes of one call of an op, each None where it is unknown.

    As ``estimator.scenario.aten_cost`` counts them. Parents such as linear, matmul and conv2d count nothing, since the
    op below them does. ``told``: sizes of results that other ops of the trace tell.
    """
    shapes, types = _shapes(shape[0]), _texts(shape[1])
    if not shapes:
        return None, None
    if name in _FORWARD_CONVOLUTIONS or name == _BACKWARD_CONVOLUTION:
        return _convolution(name, shapes, types, _texts(shape[2]), told or {})
    if name in _GRADIENTS_OF_INPUTS or name in GRADIENTS_OF_WEIGHTS:  # of these, with the shapes of the op around them
        gradient, weight = shapes[1:3] if len(shapes) > 2 else ([], [])
        return convolution_flops(gradient, weight) if gradient and len(weight) > 2 else None, None
    return flops_of(name, shapes, _texts(shape[2])), bytes_of(name, shapes, types)


def input_bytes(shape: Sequence[bytes]) -> float | None:
    """Bytes of an op's first input, None where its shape or type is unknown."""
    shapes, types = _shapes(shape[0]), _texts(shape[1])
    return _bytes(shapes[:1], element_bytes(types[0])) if shapes and types and shapes[0] else None


def score_size(name: str, shape: Sequence[bytes]) -> tuple[int, int] | None:
    """Return (batch · heads, S) where an op multiplies queries with keys into S × S scores, else None."""
    shapes = _shapes(shape[0])
    skip = 1 if name == "aten::baddbmm" else 0
    if name not in ("aten::bmm", "aten::baddbmm") or len(shapes) < skip + 2:
        return None
    first, second = shapes[skip], shapes[skip + 1]
    if len(first) == len(second) == 3 and first[1] == second[2] and first[2] < first[1] and first[0] > 1:
        return first[0], first[1]
    return None


def touches_scores(shape: Sequence[bytes], sizes: set[tuple[int, int]]) -> bool:
    """Whether any input of an op is a whole set of score matrices."""
    return any(
        len(one) > 2 and one[-1] == one[-2] and (math.prod(one[:-2]), one[-1]) in sizes for one in _shapes(shape[0])
    )


def _convolution(
    name: str, shapes: list[list[int]], types: list[str], concrete: list[str], told: Results
) -> Arithmetic:
    element = element_bytes(types[0]) if types else None
    if name == _BACKWARD_CONVOLUTION:
        if len(shapes) < 3 or len(shapes[2]) < 3:
            return None, None
        gradient, entering, weight = shapes[:3]
        mask = concrete[_BACKWARD_MASK].split(",")[:2] if len(concrete) > _BACKWARD_MASK else ["True", "True"]
        passes = sum("True" in wanted for wanted in mask)
        return convolution_flops(gradient, weight, passes), _bytes([gradient, entering, weight], element)
    entering, weight = shapes[0], shapes[1] if len(shapes) > 1 else []
    leaving = _output(name, entering, weight, concrete) or list(told.get((tuple(entering), tuple(weight)), ()))
    if not leaving:
        return None, None
    return convolution_flops(leaving, weight), _bytes([entering, weight, leaving], element)


def _output(name: str, entering: list[int], weight: list[int], concrete: list[str]) -> list[int] | None:
    """Shape of a convolution's result; None where its stride, padding or dilation was not recorded."""
    places = _FORWARD_CONVOLUTIONS[name][:3]
    if max(places) >= len(concrete):
        return None
    window = [
        _whole_list(concrete[place]) if place >= 0 else [fallback]
        for place, fallback in zip(places, (1, 0, 1), strict=True)
    ]
    sizes = convolved_sizes(entering, weight, *window)
    return None if sizes is None else [entering[0], weight[0], *sizes]


def convolved_sizes(
    entering: Sequence[int], weight: Sequence[int], stride: Any, padding: Any, dilation: Any
) -> list[int] | None:
    """Spatial sizes of a convolution's result: (in + 2·padding − dilation·(kernel − 1) − 1) / stride + 1, or None."""
    spatial = len(weight) - 2
    if spatial < 1 or len(entering) != len(weight):
        return None
    window = []
    for values in (stride, padding, dilation):
        if not isinstance(values, list) or len(values) not in (1, spatial) or not is_shape(values):
            return None
        window.append(values * spatial if len(values) == 1 else values)
    steps, edges, gaps = window
    if min(steps) < 1:
        return None
    sizes = [
        (entering[i + 2] + 2 * edges[i] - gaps[i] * (weight[i + 2] - 1) - 1) // steps[i] + 1 for i in range(spatial)
    ]
    return sizes if min(sizes) > 0 else None


def _bytes(tensors: list[list[int]], element: float | None) -> float | None:
    return None if element is None else float(element * sum(math.prod(tensor) for tensor in tensors))


def _shapes(data: bytes) -> list[list[int]]:
    """Decode input shapes; what is no plain shape (a list of tensors, a wrong type) becomes an empty one."""
    found = decoded_list(data)
    return [shape if is_shape(shape) else [] for shape in found]


def is_shape(shape: Any) -> bool:
    """Whether a value from a file is a plain shape of sane size."""
    return (
        isinstance(shape, list)
        and len(shape) <= _MOST_DIMENSIONS
        and all(isinstance(size, int) and 0 <= size <= _LARGEST_DIMENSION for size in shape)
    )


def _texts(data: bytes) -> list[str]:
    return [text if isinstance(text, str) else "" for text in decoded_list(data)]


def _whole_list(text: str) -> list[int] | None:
    parts = text.strip("[]").split(",")
    if not all(part.strip().isdigit() and len(part) < 8 for part in parts):
        return None
    return [int(part) for part in parts]
