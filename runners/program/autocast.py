"""Autocast on the fake device: the lists of ops that CUDA's autocast casts, applied at the dispatcher's own place for it.

Source of the lists: ATen/autocast_mode.h, which torch's wheel has; a test holds them to it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

KEY = "AutocastPrivateUse1"

LOWER_PRECISION = (
    "_convolution", "_convolution.deprecated", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d",
    "conv_transpose2d.input", "conv_transpose3d.input", "convolution", "prelu", "addmm", "addmv", "addr", "matmul",
    "einsum", "mm", "mv", "linalg_vecdot", "linear", "addbmm", "baddbmm", "bmm", "chain_matmul", "linalg_multi_dot",
    "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell",
    "_scaled_dot_product_flash_attention", "scaled_dot_product_attention",
)  # fmt: skip
"""Run in the type that autocast was given."""

FULL_PRECISION = (
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "sinh",
    "tan", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "softplus", "layer_norm", "native_layer_norm",
    "rms_norm", "group_norm", "frobenius_norm.dim", "nuclear_norm", "nuclear_norm.dim", "cosine_similarity",
    "poisson_nll_loss", "cosine_embedding_loss", "nll_loss", "nll_loss2d", "hinge_embedding_loss", "kl_div", "l1_loss",
    "smooth_l1_loss", "huber_loss", "mse_loss", "margin_ranking_loss", "multilabel_margin_loss", "soft_margin_loss",
    "triplet_margin_loss", "multi_margin_loss", "binary_cross_entropy_with_logits", "dist", "pdist", "cdist", "renorm",
    "logsumexp", "upsample_nearest1d", "_upsample_nearest_exact1d", "upsample_nearest2d", "_upsample_nearest_exact2d",
    "upsample_nearest3d", "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d",
    "_upsample_bilinear2d_aa", "upsample_trilinear3d", "upsample_bicubic2d", "_upsample_bicubic2d_aa",
)  # fmt: skip
"""Run in fp32."""

FULL_PRECISION_RESULT = (
    "prod", "prod.dim_int", "softmax.int", "log_softmax.int", "cumprod", "cumsum", "linalg_vector_norm",
    "linalg_matrix_norm", "linalg_matrix_norm.str_ord", "sum", "sum.dim_IntList",
)  # fmt: skip
"""Given dtype=float32 where the caller gave none: the kernel converts as it reads."""

WIDEST = (
    "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "grid_sampler", "index_put", "tensordot",
    "scatter_add",
)  # fmt: skip
"""Run in the widest type among the inputs."""

_LOW = (torch.float16, torch.bfloat16)


class CastCache:
    """Casts of fp32 weights that a step has made, kept until the outermost autocast region ends, as torch does."""

    def __init__(self) -> None:
        self._casts: dict[int, tuple[weakref.ref[torch.Tensor], torch.Tensor]] = {}

    def cast(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Return the tensor in that type; a leaf that requires a gradient is cast once."""
        if tensor.dtype == dtype:
            return tensor
        keep = (
            tensor.dtype == torch.float32
            and dtype in _LOW
            and tensor.requires_grad
            and tensor.is_leaf
            and torch.is_autocast_cache_enabled()
            and not tensor._is_view()
        )
        if not keep:
            return tensor.to(dtype)
        found = self._casts.get(id(tensor))
        if found is not None and found[0]() is tensor and found[1].dtype == dtype:
            return found[1]
        made = tensor.to(dtype)
        self._casts[id(tensor)] = (weakref.ref(tensor), made)
        return made

    def clear(self) -> None:
        """Forget all of them."""
        self._casts.clear()


@dataclass(frozen=True)
class Setting:
    """The device's name, the casts that are kept, and which tensors are on the device."""

    device: str
    cache: CastCache
    on_device: Callable[[torch.Tensor], bool]


def install(device: str, cache: CastCache, on_device: Callable[[torch.Tensor], bool]) -> list[torch.library.Library]:
    """Register the lists for the device's name; they live as long as what is returned.

    ``torch.autocast`` with the device type "cuda" means that device from then on.
    """
    fallback = torch.library.Library("_", "IMPL")
    fallback.fallback(torch.library.fallthrough_kernel, KEY)
    ops = torch.library.Library("aten", "IMPL")
    rules: tuple[tuple[tuple[str, ...], Callable[..., Any]], ...] = (
        (LOWER_PRECISION, _lower),
        (FULL_PRECISION, _full),
        (FULL_PRECISION_RESULT, _full_result),
        (WIDEST, _widest),
    )
    for names, rule in rules:
        for name in names:
            op = _overload(name)
            if op is not None:
                ops.impl(op, _kernel(op, rule, Setting(device, cache, on_device)), KEY)
    return [fallback, ops]


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)


def _kernel(op: Any, rule: Callable[..., Any], setting: Setting) -> Callable[..., Any]:
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, KEY))

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(keys):
            args, kwargs = rule(op, args, kwargs, setting)
            return op(*args, **kwargs)

    return run


def _mapped(values: tuple[Any, ...], kwargs: dict[str, Any], change: Callable[[Any], Any]) -> tuple[Any, Any]:
    return tuple(map(change, values)), {name: change(value) for name, value in kwargs.items()}


def _casting(dtype: torch.dtype, setting: Setting) -> Callable[[Any], Any]:
    def change(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            fits = value.is_floating_point() and value.dtype != torch.float64 and setting.on_device(value)
            return setting.cache.cast(value, dtype) if fits else value
        if isinstance(value, (list, tuple)) and any(isinstance(one, torch.Tensor) for one in value):
            return type(value)(map(change, value))
        return value

    return change


def _lower(op: Any, args: Any, kwargs: Any, setting: Setting) -> tuple[Any, Any]:
    return _mapped(args, kwargs, _casting(torch.get_autocast_dtype(setting.device), setting))


def _full(op: Any, args: Any, kwargs: Any, setting: Setting) -> tuple[Any, Any]:
    return _mapped(args, kwargs, _casting(torch.float32, setting))


def _full_result(op: Any, args: Any, kwargs: Any, setting: Setting) -> tuple[Any, Any]:
    names = [argument.name for argument in op._schema.arguments]
    at = names.index("dtype")
    given = args[at] if at < len(args) else kwargs.get("dtype")
    first = args[0] if args else kwargs[names[0]]
    if given is None and setting.on_device(first) and first.dtype in _LOW:
        args = args[:at]
        kwargs = {**kwargs, "dtype": torch.float32}
    return args, kwargs


def _widest(op: Any, args: Any, kwargs: Any, setting: Setting) -> tuple[Any, Any]:
    found: list[torch.dtype] = []

    def note(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_floating_point() and setting.on_device(value):
            found.append(value.dtype)
        elif isinstance(value, (list, tuple)):
            for one in value:
                note(one)
        return value

    _mapped(args, kwargs, note)
    if len(set(found)) < 2:
        return args, kwargs
    dtype = torch.float32 if torch.float32 in found else torch.get_autocast_dtype(setting.device)
    return _mapped(args, kwargs, _casting(dtype, setting))
