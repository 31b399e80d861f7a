"""What an op's schema says: whether it launches a kernel, gives a view, asks a question; which arguments matter."""

from __future__ import annotations

from typing import Any

import torch

from runners.program.attention import BACKENDS

LARGE = 1 << 20
"""Elements from which a tensor on the host is faked, too: weights before they move, whole data sets."""

_ALLOCATIONS = {
    "aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided",
    "aten::empty_permuted", "aten::resize_", "aten::set_", "aten::lift_fresh", "aten::_unsafe_view", "aten::alias",
    "aten::record_stream", "aten::_reshape_alias", "aten::is_pinned", "aten::_pin_memory", "aten::detach",
    "aten::_version", "aten::resize_as_", "aten::_assert_async", "aten::_functional_assert_async",
    "aten::unsafe_split", "aten::unsafe_chunk", "aten::_unsafe_index_put_", "aten::_nested_tensor_from_tensor_list",
    "aten::_has_compatible_shallow_copy_type", "aten::_to_copy_nothing",
}  # fmt: skip
"""Give memory or another view of it, without a kernel, although their schema does not say so."""

_FACTORIES = {"empty", "zeros", "ones", "full", "rand", "randn", "randint", "arange", "linspace", "normal"}
_FLOATS_THAT_MATTER = {"p", "dropout_p", "dropout"}
_ARGUMENTS_WITHOUT_WEIGHT = {"device", "layout", "pin_memory", "generator", "memory_format", "non_blocking"}

_KERNELS_OF_CUDA = {
    "aten::silu_backward", "aten::mish_backward", "aten::native_channel_shuffle", "aten::_fused_rms_norm",
}  # fmt: skip

_METADATA = {"aten::size", "aten::stride", "aten::is_contiguous", "aten::numel", "aten::dim", "aten::storage_offset"}

_PRODUCTS = {
    "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::addmv", "aten::mv", "aten::convolution",
    "aten::convolution_backward", "aten::_cudnn_rnn", "aten::_cudnn_rnn_backward",
}  # fmt: skip

_MAY_COPY = {"aten::contiguous", "aten::reshape", "aten::to"}


class Schema:
    """What an op's schema says of it, worked out once."""

    def __init__(self, func: Any) -> None:
        schema = func._schema
        # The overload alone tells how many lists of tensors such an op reads.
        several = "_foreach_" in schema.name and schema.overload_name
        self.name: str = f"{schema.name}.{schema.overload_name}" if several else schema.name
        self.namespace: str = func.namespace
        self.query = self.namespace == "prim" or ("sym_" in self.name) or not _returns_or_writes(schema)
        if self.name in ("aten::_local_scalar_dense",):
            self.query = False
        aliases = [one.alias_info for one in schema.returns]
        listed = self.name in _ALLOCATIONS
        self.view = any(alias is not None and not alias.is_write for alias in aliases) and self.name not in _MAY_COPY
        self.launches = not self.view and not listed
        self.composite = (
            torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
            and self.name not in _KERNELS_OF_CUDA
            and self.namespace == "aten"
            and not ("sym_" in self.name or self.name in _METADATA)
        )  # reaches a mode where autograd is off, as in inference
        self._factory = self.namespace == "aten" and self.name.removeprefix("aten::") in _FACTORIES
        self._kept = [
            (index, one.name, one.default_value if one.has_default_value() else None)
            for index, one in enumerate(schema.arguments)
            if "Tensor" not in str(one.type) and one.name not in _ARGUMENTS_WITHOUT_WEIGHT
        ]

    def makes_large(self, args: Any) -> bool:
        """Whether it would make a tensor on the host that is better faked."""
        if not self._factory or not args:
            return False
        size = next((one for one in args if isinstance(one, (list, tuple, torch.Size))), None)
        if size is None:
            return False
        count = 1
        for width in size:
            count *= int(width)
        return count >= LARGE

    def arguments(self, args: Any, kwargs: Any) -> tuple[tuple[str, Any], ...]:
        """What else matters, of the values given that are no tensors and not the default."""
        found: list[tuple[str, Any]] = []
        for index, name, default in self._kept:
            value = args[index] if index < len(args) else kwargs.get(name, default)
            if value is None or value == default:
                continue
            if isinstance(value, float) and name not in _FLOATS_THAT_MATTER:
                continue
            kept = _hashable(value)
            if kept is not None:
                found.append((name, kept))
        backend = BACKENDS.get(self.name)
        if backend is not None:
            given = dict(zip(("is_causal", "dropout_p"), (False, 0.0), strict=True)) | dict(found)
            mask = any(
                isinstance(args[index] if index < len(args) else None, torch.Tensor)
                for index, one in enumerate(_schema_names(self.name))
                if one == "attn_bias"
            )
            return (
                ("backend", backend),
                ("dropout", float(given["dropout_p"])),
                ("is_causal", bool(given["is_causal"])),
                ("mask", mask),
            )
        if self.name in _PRODUCTS and _runs_as_tf32(self.name, args):
            found.append(("tf32", True))
        return tuple(found)


def _runs_as_tf32(name: str, args: Any) -> bool:
    """Whether the program lets products of fp32 round their inputs; of convolutions, torch does by default."""
    if args[0].dtype != torch.float32:
        return False
    if "convolution" in name or "cudnn" in name:
        return bool(torch._C._get_cudnn_allow_tf32())
    return bool(torch._C._get_cublas_allow_tf32())


def _schema_names(name: str) -> list[str]:
    op = getattr(torch.ops.aten, name.removeprefix("aten::")).default
    return [one.name for one in op._schema.arguments]


def _returns_or_writes(schema: Any) -> bool:
    if any("Tensor" in str(one.type) for one in schema.returns):
        return True
    return any(one.alias_info is not None and one.alias_info.is_write for one in schema.arguments)


def _hashable(value: Any) -> Any:
    if isinstance(value, (bool, int, str, float, torch.dtype)):
        return value
    if isinstance(value, (list, tuple, torch.Size)) and all(isinstance(one, (bool, int)) for one in value):
        return tuple(value)
    return None
