"""``torch.cuda.FloatTensor`` and its like, which programs from before ``device=`` make tensors with, and ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

TYPES = {
    "FloatTensor": torch.float32, "DoubleTensor": torch.float64, "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16, "LongTensor": torch.int64, "IntTensor": torch.int32, "ShortTensor": torch.int16,
    "CharTensor": torch.int8, "ByteTensor": torch.uint8, "BoolTensor": torch.bool,
}  # fmt: skip


class OfCuda(type):
    """Calling it makes a tensor on the device; an instance is whatever tensor lies there and is of its type."""

    dtype: torch.dtype

    def __call__(cls, *sizes_or_values: Any) -> Any:
        given = sizes_or_values[0] if len(sizes_or_values) == 1 else sizes_or_values
        if isinstance(given, int):
            given = (given,)
        if isinstance(given, torch.Size) or (isinstance(given, tuple) and all(isinstance(one, int) for one in given)):
            return torch.empty(given, dtype=cls.dtype, device="cuda")
        return torch.as_tensor(given, dtype=cls.dtype, device="cuda")

    def __instancecheck__(cls, one: Any) -> bool:
        return isinstance(one, torch.Tensor) and one.is_cuda and one.dtype == cls.dtype


def named(kind: Any) -> torch.dtype | None:
    """The number type of such a class or its name, None of anything else."""
    if isinstance(kind, OfCuda):
        return kind.dtype
    return TYPES.get(kind.removeprefix("torch.cuda.")) if isinstance(kind, str) and ".cuda." in kind else None


def install() -> None:
    """Put the classes where torch has those of CUDA, and let a default be one of them."""
    cuda: Any = torch.cuda
    for name, dtype in TYPES.items():
        setattr(cuda, name, OfCuda(name, (), {"dtype": dtype}))
    anywhere: Any = torch
    anywhere.set_default_tensor_type = _default(anywhere.set_default_tensor_type)


def _default(inner: Callable[[Any], None]) -> Callable[[Any], None]:
    def set_default(kind: Any) -> None:
        dtype = named(kind)
        if dtype is None:
            inner(kind)
            return
        torch.set_default_dtype(dtype)
        torch.set_default_device("cuda")

    return set_default
