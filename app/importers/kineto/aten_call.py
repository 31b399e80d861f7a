"""ATen calls: what an op of a trace was called with, as the profiler wrote it.

It records no types inside lists of tensors; they are worked out from kernels and from what else has the shape.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from app.importers.kineto.events import decoded_list
from app.importers.kineto.flops import is_shape
from estimator.operations.aten.operands import contiguous_strides
from estimator.scenario.aten_cost import CAUSAL_AT, ELEMENT_BYTES, plain, torch_name
from estimator.scenario.op_list import Operand

_OTHER_TYPES = {
    "char": "int8", "byte": "uint8", "complex<float>": "complex64", "complex<double>": "complex128",
    "complex<half>": "complex32",
}  # fmt: skip
"""What NCCL's kernels and older profilers write besides."""

_MOST_OPERANDS = 512
_MOST_ELEMENTS = 1 << 40
"""No tensor has more; the list's own reader takes some more."""
_FUNCTOR_DTYPE = re.compile(r"Functor\w*<\s*(?:c10::)?(BFloat16|Half|float|double)\b")
_KERNEL_DTYPES = {"BFloat16": "bfloat16", "Half": "float16", "float": "float32", "double": "float64"}

ARGUMENTS: dict[str, dict[str, int]] = {
    **{
        name: {"dropout_p": 9 if name.endswith("efficient_attention_backward") else at - 1, "is_causal": at}
        for name, at in CAUSAL_AT.items()
        if name.startswith("_scaled")
    },
    "_flash_attention_forward": {"max_seqlen": 5, "dropout_p": 7, "is_causal": 8, "window": 11},
    "_flash_attention_backward": {"max_seqlen": 8, "dropout_p": 10, "is_causal": 11, "window": 15},
    "_flash_attn_forward": {"dropout_p": 3, "is_causal": 5, "window": 6},
    "_flash_attn_backward": {"dropout_p": 9, "is_causal": 11, "window": 12},
    "_flash_attn_varlen_forward": {"max_seqlen": 5, "dropout_p": 7, "is_causal": 9, "window": 10},
    "_flash_attn_varlen_backward": {"max_seqlen": 11, "dropout_p": 13, "is_causal": 15, "window": 16},
    "flash_attn_3::_flash_attn_forward": {"max_seqlen": 12, "is_causal": 24, "window": 25},
    "flash_attn_3::_flash_attn_backward": {"max_seqlen": 10, "is_causal": 13, "window": 14},
    "convolution": {"stride": 3, "padding": 4, "dilation": 5, "transposed": 6, "groups": 8},
    "convolution_backward": {"stride": 4, "padding": 5, "dilation": 6, "transposed": 7, "groups": 9, "output_mask": 10},
    "native_dropout": {"p": 1}, "bernoulli_": {"p": 1},
    "add": {"alpha": 2}, "add_": {"alpha": 2}, "sub": {"alpha": 2}, "sub_": {"alpha": 2},
    "addmm": {"beta": 3, "alpha": 4}, "baddbmm": {"beta": 3, "alpha": 4},
    "sum": {"dim": 1, "keepdim": 2}, "mean": {"dim": 1, "keepdim": 2}, "amax": {"dim": 1, "keepdim": 2},
    "amin": {"dim": 1, "keepdim": 2}, "argmax": {"dim": 1, "keepdim": 2}, "argmin": {"dim": 1, "keepdim": 2},
    "logsumexp": {"dim": 1, "keepdim": 2}, "any": {"dim": 1, "keepdim": 2}, "all": {"dim": 1, "keepdim": 2},
    "prod": {"dim": 1, "keepdim": 2}, "max": {"dim": 1, "keepdim": 2}, "min": {"dim": 1, "keepdim": 2},
    "var": {"dim": 1, "keepdim": 3}, "std": {"dim": 1, "keepdim": 3}, "norm": {"dim": 2, "keepdim": 3},
    "linalg_vector_norm": {"dim": 2, "keepdim": 3}, "cumsum": {"dim": 1},
    "_softmax": {"dim": 1}, "_log_softmax": {"dim": 1},
    "_softmax_backward_data": {"dim": 2}, "_log_softmax_backward_data": {"dim": 2},
    "cat": {"dim": 1}, "stack": {"dim": 1}, "gather": {"dim": 1}, "index_select": {"dim": 1},
    "topk": {"k": 1, "dim": 2},
    "embedding_dense_backward": {"num_weights": 2},
}  # fmt: skip
"""Op → its arguments that decide time or size, and where they stand; by its whole name where another's differ."""


_RESULT_AT = {"mm": 2, "bmm": 2, "addmm": 5, "baddbmm": 5, "mul": 2, "div": 2, "add": 3, "sub": 3, "cat": 2}
"""Where an op takes the tensor for its result, which it does not read."""


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One argument: the tensors that it holds (none where it is no tensor), and what a scalar is written as."""

    tensors: tuple[Operand, ...] = ()
    is_list: bool = False
    cut: bool = False
    """A list of so many tensors that the profiler wrote none of them."""
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class AtenCall:
    """An op's arguments in order."""

    name: str
    arguments: tuple[Argument, ...] = ()

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """Its tensors, lists flattened."""
        return tuple(one for argument in self.arguments for one in argument.tensors)

    def tensor(self, at: int) -> Operand | None:
        """The tensor at a position, None where there is none."""
        held = self.arguments[at].tensors if at < len(self.arguments) else ()
        return held[0] if held else None

    def text(self, at: int) -> str:
        """The scalar at a position as it was written, "" where there is none."""
        return self.arguments[at].text if at < len(self.arguments) else ""


def aten_call(name: str, shape: Sequence[bytes]) -> AtenCall:
    """Read what the profiler wrote of a call: shapes, types, scalars, strides; what makes no sense is left out."""
    dims, types, concrete, strides = (decoded_list(part) for part in (*shape, b"", b"")[:4])
    found = []
    for at, sizes in enumerate(dims[:_MOST_OPERANDS]):
        kind = types[at] if at < len(types) and isinstance(types[at], str) else ""
        text = concrete[at] if at < len(concrete) and isinstance(concrete[at], str) else ""
        given = strides[at] if at < len(strides) else None
        if kind in ("TensorList", "GenericList") or (sizes and isinstance(sizes, list) and isinstance(sizes[0], list)):
            found.append(_tensor_list(sizes, given, text))
        elif dtype := kineto_dtype(kind):
            tensors = (operand(sizes, dtype, given),) if is_shape(sizes) and fits(sizes) else ()
            found.append(Argument(tensors=tensors, text=text))
        else:
            found.append(Argument(text=text))
    if any(one.shape for argument in found for one in argument.tensors):
        found = [Argument(text=one.text) if _is_number(one) else one for one in found]
    return AtenCall(name=name, arguments=tuple(found[: _RESULT_AT.get(plain(name), len(found))]))


def typed(call: AtenCall, dtype_of: Callable[[tuple[int, ...]], str]) -> AtenCall:
    """Give the tensors in lists the type that a shape is known to have."""
    arguments = tuple(
        argument
        if not argument.is_list
        else Argument(
            tensors=tuple(
                one if one.dtype else Operand(shape=one.shape, dtype=dtype_of(one.shape), strides=one.strides)
                for one in argument.tensors
            ),
            is_list=True,
            cut=argument.cut,
            text=argument.text,
        )
        for argument in call.arguments
    )
    return AtenCall(name=call.name, arguments=arguments)


def filled(call: AtenCall, tensors: tuple[Operand, ...], lists: int) -> AtenCall:
    """Put tensors into the first lists, those that were too long to be recorded."""
    arguments = tuple(
        Argument(tensors=tensors, is_list=True) if argument.cut and at < lists else argument
        for at, argument in enumerate(call.arguments)
    )
    return AtenCall(name=call.name, arguments=arguments)


def dtype_of_kernel(name: str) -> str:
    """The type that a kernel over lists of tensors works on, by its template; "" where it does not say."""
    found = _FUNCTOR_DTYPE.search(name)
    return _KERNEL_DTYPES[found[1]] if found else ""


def fits(shape: Sequence[int]) -> bool:
    """Whether a tensor can have this shape."""
    return all(size >= 0 for size in shape) and math.prod(shape) < _MOST_ELEMENTS


def _is_number(argument: Argument) -> bool:
    """Whether an argument is a plain number that PyTorch wrapped as a tensor: it lies on the host."""
    return any(one.shape == () and one.dtype in ("float64", "int64") for one in argument.tensors)


def operand(sizes: list[int], dtype: str, strides: Any) -> Operand:
    """A tensor, with strides where they are not the usual ones."""
    shape = tuple(sizes)
    usual = contiguous_strides(shape)
    odd = (
        isinstance(strides, list)
        and len(strides) == len(shape)
        and is_shape(strides)
        and any(step != own for step, own, size in zip(strides, usual, shape, strict=True) if size > 1)
    )
    return Operand(shape=shape, dtype=dtype, strides=tuple(strides) if odd else None)


def _tensor_list(sizes: Any, strides: Any, text: str) -> Argument:
    if not isinstance(sizes, list) or not sizes:
        return Argument(is_list=True, cut=True, text=text)
    shapes = [one for one in sizes[:_MOST_OPERANDS] if is_shape(one) and fits(one)]
    steps = strides if isinstance(strides, list) and len(strides) == len(shapes) else [None] * len(shapes)
    tensors = tuple(operand(one, "", step) for one, step in zip(shapes, steps, strict=True))
    return Argument(tensors=tensors, is_list=True, text=text)


def kineto_dtype(kind: str) -> str:
    """The type of tensors as torch prints it, from what the profiler writes; "" where it is none."""
    word = kind.removeprefix("c10::").lower()
    found = _OTHER_TYPES.get(word) or torch_name(word)
    return found if found in ELEMENT_BYTES else ""


def value_of(text: str) -> Any:
    """A scalar or list of scalars as the profiler writes it; None where it is none."""
    if text in ("True", "False"):
        return text == "True"
    if text.startswith("["):
        parts = [value_of(part.strip()) for part in text.strip("[]").split(",") if part.strip()]
        return None if len(parts) > 16 or None in parts else parts
    if re.fullmatch(r"-?\d{1,15}", text):
        return int(text)
    try:
        found = float(text) if len(text) < 40 else math.nan
    except ValueError:
        return None
    return found if math.isfinite(found) else None
