"""Names of Gluon's operations on Hopper, which moved between Triton 3.6 and 3.9."""

from __future__ import annotations

from typing import Any

from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import tma
from triton.language.core import builtin, ir

barrier = getattr(gl, "barrier", None) or gl.thread_barrier  # 3.7
async_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared  # 3.8
async_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global  # 3.8


@builtin  # type: ignore[untyped-decorator]
def _reduce_add(descriptor: Any, coordinates: Any, source: Any, _semantic: Any = None) -> None:
    coordinates = _semantic._convert_to_ir_values(coordinates, require_i64=False)
    kind = ir.DESCRIPTOR_REDUCE_KIND.ADD
    _semantic.builder.create_async_tma_reduce(kind, descriptor.handle, coordinates, source.handle)


async_add = getattr(tma, "async_atomic_add", None) or _reduce_add  # 3.8
