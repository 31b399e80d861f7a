"""ATen results: what an op of a trace returned, which a profiler does not record, by its own rule from its inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from app.importers.kineto.aten_call import ARGUMENTS, AtenCall, fits, operand, value_of
from app.importers.kineto.flops import convolved_sizes, is_shape
from estimator.scenario.aten_cost import plain
from estimator.scenario.op_list import Operand, Signature

_CODES = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64",
    9: "complex64", 10: "complex128", 11: "bool", 15: "bfloat16", 23: "float8_e5m2", 24: "float8_e4m3fn",
    45: "float4_e2m1fn_x2",
}  # fmt: skip
"""``c10::ScalarType`` as arguments write it."""

_RANKED = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
_TO_BOOL = (
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_not",
    "logical_and",
    "logical_or",
    "isnan",
    "isinf",
    "isfinite",
)


def signature(call: AtenCall, **more: str | bool) -> Signature:
    """Write a call as a signature, with the arguments that matter and its results."""
    arguments = {
        key: value
        for key, at in ARGUMENTS.get(call.name, ARGUMENTS.get(plain(call.name), {})).items()
        if (value := value_of(call.text(at))) is not None
    }
    given = {key: value for key, value in more.items() if value}
    return Signature(op=call.name, inputs=call.inputs, outputs=results(call), arguments={**arguments, **given})


def results(call: AtenCall) -> tuple[Operand, ...]:
    """What an op returns, by its own rule or as an element-wise op does; nothing where that is unknown."""
    name = plain(call.name)
    if name.startswith(("_foreach_", "_fused_adam", "_fused_sgd", "_amp_")):
        return () if name.endswith("_") else call.arguments[0].tensors if call.arguments else ()
    try:
        if name in _RULES:
            found = tuple(one for one in _RULES[name](call) if one is not None)
            return found if all(map(fits, (one.shape for one in found))) else ()
        if not call.name.startswith("aten::"):
            return ()
        found = call.inputs[:1] if name.endswith("_") else _broadcast(call, name)
        return found if all(map(fits, (one.shape for one in found))) else ()
    except (
        IndexError,
        ValueError,
        AttributeError,
        TypeError,
        ArithmeticError,
    ):  # the file says something else than the op takes
        return ()


def _like(one: Operand | None, shape: Sequence[int] | None = None, dtype: str = "") -> Operand | None:
    if one is None:
        return None
    return Operand(shape=one.shape if shape is None else tuple(shape), dtype=dtype or one.dtype)


def _promoted(tensors: Sequence[Operand]) -> str:
    """Type of an element-wise result; a scalar counts only where it is of a higher kind."""

    def kind(dtype: str) -> int:
        return 0 if dtype == "bool" else 1 if "int" in dtype else 2

    def rank(dtype: str) -> int:
        return _RANKED.index(dtype) if dtype in _RANKED else len(_RANKED)

    ranked = [one.dtype for one in tensors if one.shape] or [one.dtype for one in tensors]
    best = max(ranked, key=rank)
    if {"float16", "bfloat16"} <= set(ranked) and best in ("float16", "bfloat16"):
        best = "float32"
    scalars = [one.dtype for one in tensors if not one.shape]
    highest = max(scalars, key=kind, default=best)
    return "float32" if kind(highest) > kind(best) and "complex" not in highest else best


def _broadcast(call: AtenCall, name: str) -> tuple[Operand, ...]:
    tensors = call.inputs
    if not tensors:
        return ()
    shape = list(max(tensors, key=lambda one: len(one.shape)).shape)
    for one in tensors:
        for at, size in enumerate(reversed(one.shape), 1):
            if shape[-at] == 1:
                shape[-at] = size
            elif size not in (1, shape[-at]):
                return ()
    dtype = "bool" if name in _TO_BOOL else _promoted(tensors)
    return (_laid(tuple(shape), dtype, next((one for one in tensors if one.shape == tuple(shape)), None)),)


def _laid(shape: tuple[int, ...], dtype: str, like: Operand | None) -> Operand:
    """A result whose dimensions lie in memory in the order of an input's, without its holes."""
    if like is None or like.strides is None:
        return Operand(shape=shape, dtype=dtype)
    steps, strides, own = 1, [0] * len(shape), like.strides
    for at in sorted(range(len(shape)), key=lambda at: (own[at], shape[at] != 1, -at)):
        strides[at] = steps
        steps *= max(shape[at], 1)
    return operand(list(shape), dtype, strides)


Found = Sequence[Operand | None]


def _product(call: AtenCall, first: int) -> Found:
    a, b = call.tensor(first), call.tensor(first + 1)
    if a is None or b is None:
        return ()
    return (Operand(shape=(*a.shape[:-1], *b.shape[-1:]) if len(b.shape) > 1 else a.shape[:-1], dtype=a.dtype),)


def _reduced(call: AtenCall) -> Found:
    name, entering = plain(call.name), call.tensor(0)
    if entering is None:
        return ()
    places = ARGUMENTS[name]
    dims, kept = value_of(call.text(places["dim"])), value_of(call.text(places["keepdim"]))
    if name in ("max", "min") and call.tensor(1) is not None:
        return _broadcast(call, name)
    rank = len(entering.shape)
    whole = dims is None or dims == [] or isinstance(dims, bool)
    axes = set(range(rank)) if whole else {at % max(rank, 1) for at in (dims if isinstance(dims, list) else [dims])}
    shape = [1 if at in axes else size for at, size in enumerate(entering.shape) if kept is True or at not in axes]
    dtype = "int64" if name.startswith("arg") else "bool" if name in ("any", "all") else entering.dtype
    found = Operand(shape=tuple(shape), dtype=dtype)
    return (found, _like(found, dtype="int64")) if name in ("max", "min") and not whole else (found,)


def _joined(call: AtenCall) -> Found:
    tensors = [one for one in call.arguments[0].tensors if one.shape != (0,)]
    if not tensors:
        return ()
    dim = value_of(call.text(1)) or 0
    first = list(tensors[0].shape)
    if plain(call.name) == "stack":
        at = dim % (len(first) + 1)
        return (_like(tensors[0], (*first[:at], len(tensors), *first[at:])),)
    at = dim % len(first)
    first[at] = sum(one.shape[at] for one in tensors)
    return (_like(tensors[0], first),)


def _copied(call: AtenCall) -> Found:
    code = value_of(call.text(1)) if plain(call.name) == "_to_copy" else None
    entering = call.tensor(0)
    if entering is None:
        return ()
    dtype = _CODES.get(code, "") if isinstance(code, int) else ""
    return (_laid(entering.shape, dtype or entering.dtype, None if plain(call.name) == "contiguous" else entering),)


def _made(call: AtenCall, dtype_at: int) -> Found:
    sizes, code = value_of(call.text(0)), value_of(call.text(dtype_at))
    if not isinstance(sizes, list) or not is_shape(sizes):
        return ()
    return (Operand(shape=tuple(sizes), dtype=_CODES.get(code, "float32") if isinstance(code, int) else "float32"),)


def _normalized(call: AtenCall) -> Found:
    entering = call.tensor(0)
    if entering is None:
        return ()
    sizes = value_of(call.text(1))
    kept = len(entering.shape) - len(sizes) if isinstance(sizes, list) else 1
    rows = (*entering.shape[:kept], *(1 for _ in entering.shape[kept:]))
    statistic = _like(entering, rows, "float32" if entering.dtype != "float64" else "")
    found = [_like(entering), statistic]
    return found if "rms" in call.name else [*found, statistic]


def _grouped(call: AtenCall) -> Found:
    """Mean and deviation of each image and group: (input, weight, bias, N, C, places, groups, eps)."""
    entering, images, groups = call.tensor(0), value_of(call.text(3)), value_of(call.text(6))
    if entering is None or not isinstance(images, int) or not isinstance(groups, int):
        return (_like(entering),)
    return _like(entering), *(2 * (_like(entering, (images, groups)),))


def _normalized_backward(call: AtenCall) -> Found:
    """Gradients of the input, and of weight and bias where there are any: (grad, input, shape, mean, rstd, w, b)."""
    rms = "rms" in call.name
    weight, bias = call.tensor(4 if rms else 5), None if rms else call.tensor(6)
    return _like(call.tensor(1)), _like(weight), _like(bias)


def _softmax(call: AtenCall) -> Found:
    raised = call.text(2) == "True"
    return (_like(call.tensor(0), dtype="float32" if raised else ""),)


def _softmax_backward(call: AtenCall) -> Found:
    code = value_of(call.text(3))
    return (_like(call.tensor(0), dtype=_CODES.get(code, "") if isinstance(code, int) else ""),)


def _looked_up(call: AtenCall) -> Found:
    table, places = call.tensor(0), call.tensor(1)
    return () if table is None or places is None else (_like(table, (*places.shape, *table.shape[1:])),)


def _table_gradient(call: AtenCall) -> Found:
    gradient, rows = call.tensor(0), value_of(call.text(2))
    return () if gradient is None or not isinstance(rows, int) else (_like(gradient, (rows, gradient.shape[-1])),)


def _gathered(call: AtenCall) -> Found:
    return (_like(call.tensor(0), places.shape) if (places := call.tensor(2)) else None,)


def _selected(call: AtenCall) -> Found:
    entering, places, dim = call.tensor(0), call.tensor(2), value_of(call.text(1))
    if entering is None or places is None or not isinstance(dim, int):
        return ()
    shape = list(entering.shape)
    shape[dim % len(shape)] = math.prod(places.shape)
    return (_like(entering, shape),)


def _indexed(call: AtenCall) -> Found:
    """Indices of one shape take the place of as many dimensions, from the first."""
    entering = call.tensor(0)
    places = call.arguments[1].tensors
    if entering is None or not places or any("bool" in one.dtype for one in places):
        return ()
    longest = max(places, key=lambda one: len(one.shape)).shape
    return (_like(entering, (*longest, *entering.shape[len(places) :])),)


def _loss(call: AtenCall) -> Found:
    logits, reduction = call.tensor(0), value_of(call.text(3))
    total = _like(logits, ())
    return (_like(logits, logits.shape[:1]) if reduction == 0 and logits else total, total)


def _attention(call: AtenCall) -> Found:
    q, v = call.tensor(0), call.tensor(2)
    if q is None or v is None or len(q.shape) != 4:
        return ()
    return _like(q, (*q.shape[:-1], v.shape[-1])), _like(q, q.shape[:3], "float32")


def _attention_backward(call: AtenCall) -> Found:
    return tuple(_like(call.tensor(at)) for at in (1, 2, 3))


def _convolved(call: AtenCall) -> Found:
    entering, weight = call.tensor(0), call.tensor(1)
    if entering is None or weight is None or call.text(6) == "True":
        return ()
    window = [value_of(call.text(at)) for at in (3, 4, 5)]
    sizes = convolved_sizes(entering.shape, weight.shape, *window)
    return () if sizes is None else (_like(entering, (entering.shape[0], weight.shape[0], *sizes)),)


def _convolved_backward(call: AtenCall) -> Found:
    wanted = value_of(call.text(10)) or [True, True, False]
    gradient, entering, weight = call.tensor(0), call.tensor(1), call.tensor(2)
    bias = _like(gradient, gradient.shape[1:2]) if gradient else None
    return [one for one, needed in zip((_like(entering), _like(weight), bias), wanted, strict=True) if needed]


def _dropped(call: AtenCall) -> Found:
    return _like(call.tensor(0)), _like(call.tensor(0), dtype="bool")


def _highest(call: AtenCall) -> Found:
    entering, count, dim = call.tensor(0), value_of(call.text(1)), value_of(call.text(2))
    if entering is None or not isinstance(count, int):
        return ()
    shape = list(entering.shape)
    shape[(dim if isinstance(dim, int) else -1) % len(shape)] = count
    return _like(entering, shape), _like(entering, shape, "int64")


def _first(call: AtenCall) -> Found:
    return (_like(call.tensor(0)),)


_RULES: dict[str, Callable[[AtenCall], Found]] = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot"), lambda call: _product(call, 0)),
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "_addmm_activation"), lambda call: _product(call, 1)),
    **dict.fromkeys((name for name, places in ARGUMENTS.items() if set(places) == {"dim", "keepdim"}), _reduced),
    **dict.fromkeys(("cat", "stack"), _joined),
    **dict.fromkeys(("_to_copy", "clone", "contiguous"), _copied),
    **dict.fromkeys(("zeros", "ones"), lambda call: _made(call, 1)),
    "full": lambda call: _made(call, 2),
    **dict.fromkeys(
        ("zeros_like", "ones_like", "full_like", "cumsum", "triu", "tril", "roll", "flip"), _first
    ),
    "nll_loss_backward": lambda call: (_like(call.tensor(1)),),
    **dict.fromkeys(("native_layer_norm", "_fused_rms_norm"), _normalized),
    "native_group_norm": _grouped,
    **dict.fromkeys(("native_layer_norm_backward", "_fused_rms_norm_backward"), _normalized_backward),
    **dict.fromkeys(("_softmax", "_log_softmax"), _softmax),
    **dict.fromkeys(("_softmax_backward_data", "_log_softmax_backward_data"), _softmax_backward),
    "embedding": _looked_up,
    "embedding_dense_backward": _table_gradient,
    "gather": _gathered,
    "index_select": _selected,
    "index": _indexed,
    "nll_loss_forward": _loss,
    "convolution": _convolved,
    "convolution_backward": _convolved_backward,
    "native_dropout": _dropped,
    "topk": _highest,
    **dict.fromkeys((name for name in ARGUMENTS if "scaled_dot" in name and "backward" not in name), _attention),
    **dict.fromkeys((name for name in ARGUMENTS if "scaled_dot" in name and "backward" in name), _attention_backward),
    **dict.fromkeys(
        ("_local_scalar_dense", "_index_put_impl_", "arange", "nonzero", "sort", "max_pool2d_with_indices",
         "avg_pool2d", "_adaptive_avg_pool2d", "native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm",
         "miopen_batch_norm", "native_batch_norm_backward", "cudnn_batch_norm_backward", "repeat", "repeat_interleave"),
        lambda _: (),
    ),
    **dict.fromkeys(("cudnn_batch_norm", "miopen_batch_norm", "native_batch_norm", "_native_batch_norm_legit"), _first),
    **dict.fromkeys(("cudnn_batch_norm_backward", "native_batch_norm_backward"), _first),
}  # fmt: skip
"""Op without namespace → what it returns; what is not here and not in place returns what broadcasting gives."""
