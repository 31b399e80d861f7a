"""Which kernel torch's ``scaled_dot_product_attention`` would take on the chip, by torch's own rules; and that one op.

Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp of torch 2.13, dense tensors.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import _disable_current_modes

from runners.program.unimported import once_imported

CUDNN_VERSION = 92000
"""cuDNN of the CUDA wheel that is assumed, as torch.backends.cudnn.version() counts."""

BACKENDS = {
    "aten::_scaled_dot_product_flash_attention": "flash",
    "aten::_scaled_dot_product_flash_attention_backward": "flash",
    "aten::_scaled_dot_product_efficient_attention": "efficient",
    "aten::_scaled_dot_product_efficient_attention_backward": "efficient",
    "aten::_scaled_dot_product_cudnn_attention": "cudnn",
    "aten::_scaled_dot_product_cudnn_attention_backward": "cudnn",
}
"""Ops that are attention as a whole, and their kernel's name."""

_HALF = (torch.float16, torch.bfloat16)

ANY_DROPOUT = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 12)
"""Torch 2.11 gives cuDNN any dropout, later ones sixteenths alone (pytorch/pytorch, pull request 174245, 2026-02)."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the rules look at: queries, keys and values (B, H, S, D), mask, dropout, causality, gradient."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    dropout: float
    causal: bool
    grouped: bool
    gradient: bool


def backend(asked: Asked, capability: tuple[int, int]) -> str:
    """Return "cudnn", "flash", "efficient" or "math": the first that can, cuDNN first on Hopper and Blackwell."""
    cuda: Any = torch.backends.cuda
    prefers_cudnn = CUDNN_VERSION > 91500 and capability[0] in (9, 10)
    order: tuple[str, ...] = ("cudnn", "flash", "efficient") if prefers_cudnn else ("flash", "efficient", "cudnn")
    enabled = {
        "cudnn": cuda.cudnn_sdp_enabled(),
        "flash": cuda.flash_sdp_enabled(),
        "efficient": cuda.mem_efficient_sdp_enabled(),
    }
    if not prefers_cudnn and cuda.math_sdp_enabled():
        order = ("flash", "efficient")  # math stands before cuDNN where cuDNN is not preferred
    can = {"cudnn": _cudnn, "flash": _flash, "efficient": _efficient}
    if all(t.dim() == 4 for t in (asked.query, asked.key, asked.value)) and not _empty(asked):
        for name in order:
            if enabled[name] and can[name](asked, capability):
                return name
    return "math"


def _empty(asked: Asked) -> bool:
    return asked.query.shape[-2] == 0 or asked.key.shape[-2] == 0


def _heads_fit(asked: Asked, *, same_for_both: bool) -> bool:
    query, key, value = asked.query, asked.key, asked.value
    if not query.shape[0] == key.shape[0] == value.shape[0]:
        return False
    heads = query.shape[1], key.shape[1], value.shape[1]
    if not asked.grouped:
        return len(set(heads)) == 1
    return (heads[1] == heads[2] or not same_for_both) and heads[0] % heads[1] == 0 and heads[0] % heads[2] == 0


def _last_stride_fits(asked: Asked, *, single_counts: bool) -> bool:
    tensors = [asked.query, asked.key, asked.value]
    fits = all(t.stride(-1) == 1 or (not single_counts and t.shape[-1] == 1) for t in tensors)
    # a mask that one value was expanded to, as where every token sees every other, no fused kernel takes
    return fits and (asked.mask is None or asked.mask.stride(-1) == 1)


def _low_precision(asked: Asked, capability: tuple[int, int]) -> bool:
    known = _HALF if capability >= (8, 0) else (torch.float16,)
    return asked.query.dtype in known and asked.query.dtype == asked.key.dtype == asked.value.dtype


def _cudnn(asked: Asked, capability: tuple[int, int]) -> bool:
    wide, of_values = asked.query.shape[-1], asked.value.shape[-1]
    modern = capability == (9, 0) or capability[0] == 10
    most = 192 if modern and (wide, of_values) == (192, 128) else 128
    return (
        capability >= (8, 0)
        and _low_precision(asked, capability)
        and not (torch.are_deterministic_algorithms_enabled() and not _only_warns())
        and (ANY_DROPOUT or (asked.dropout * 16) == math.floor(asked.dropout * 16))
        and not (asked.mask is not None and asked.mask.requires_grad)  # T5's, by position: it gives masks no gradient
        and _last_stride_fits(asked, single_counts=False)
        and _heads_fit(asked, same_for_both=False)
        and max(wide, of_values) <= most
        and wide % 8 == of_values % 8 == 0
        and max(asked.query.shape[:2]) <= 65535
        and asked.key.shape[-2] != 1
        and not (asked.dropout and asked.query.shape[-2] == 1)
    )


def _only_warns() -> bool:
    return torch.is_deterministic_algorithms_warn_only_enabled()


def _flash(asked: Asked, capability: tuple[int, int]) -> bool:
    wide = asked.query.shape[-1]
    trains_wide = wide <= 192 or (not asked.dropout and wide > 224)
    return (
        capability >= (8, 0)
        and asked.mask is None
        and wide == asked.key.shape[-1] == asked.value.shape[-1] <= 256
        and (not asked.gradient or trains_wide or not ((8, 6) <= capability <= (8, 9) or capability[0] == 12))
        and (not asked.causal or asked.query.shape[-2] == asked.key.shape[-2])
        and _low_precision(asked, capability)
        and _heads_fit(asked, same_for_both=True)
        and _last_stride_fits(asked, single_counts=False)
    )


def _efficient(asked: Asked, capability: tuple[int, int]) -> bool:
    query = asked.query
    half = query.dtype in _HALF
    on_matrix_units = capability >= (8, 0) or (capability >= (7, 0) and half)
    align = 4 if capability >= (8, 0) else 1
    if on_matrix_units:
        align = max(align, 8 if half else 4)
    known = (torch.float16, torch.float32) + ((torch.bfloat16,) if capability >= (8, 0) else ())
    wide = asked.query.shape[-1]
    return (
        wide == asked.key.shape[-1]
        and wide % align == asked.value.shape[-1] % align == 0
        and all((t.storage_offset() % align) == 0 for t in (asked.query, asked.key, asked.value))
        and asked.query.dtype in known
        and asked.query.dtype == asked.key.dtype == asked.value.dtype
        and query.shape[1] == asked.key.shape[1] == asked.value.shape[1]  # none are shared
        and query.shape[0] == asked.key.shape[0] == asked.value.shape[0]
        and _last_stride_fits(asked, single_counts=True)
    )


def install(capability: tuple[int, int]) -> Any:
    """Make attention on the fake device one op, of the chip's kernel; that lives as long as what is returned."""
    make: Any = torch.library.Library
    library = make("aten", "IMPL")

    def run(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        return attend(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, capability)

    library.impl(torch.ops.aten.scaled_dot_product_attention.default, run, "AutogradPrivateUse1")
    return library


def install_causal_bias(capability: tuple[int, int]) -> None:
    """Let ``torch.nn.attention.bias`` make its masks, which have no data, and choose the chip's kernel for them."""
    once_imported("torch.nn.attention.bias", lambda bias: _patch_causal_bias(bias, capability))


def _patch_causal_bias(bias: Any, capability: tuple[int, int]) -> None:
    made = bias.CausalBias.__new__

    def new(kind: Any, *given: Any, **named: Any) -> Any:
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            return made(kind)

    def of(rule: Callable[[Asked, tuple[int, int]], bool]) -> Callable[..., bool]:
        def can(params: Any, debug: bool = False) -> bool:
            tensors = params.query, params.key, params.value
            gradient = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
            asked = Asked(
                query=params.query, key=params.key, value=params.value, mask=None, dropout=params.dropout,
                causal=False, grouped=params.enable_gqa, gradient=gradient,
            )  # fmt: skip
            return rule(asked, capability)

        return can

    bias.CausalBias.__new__ = new
    bias.can_use_flash_attention, bias.can_use_efficient_attention = of(_flash), of(_efficient)


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float,
    causal: bool,
    scale: float | None,
    grouped: bool,
    capability: tuple[int, int],
) -> Any:
    """Run the ops that torch would run around and for the kernel that its rules choose."""
    aten = torch.ops.aten
    gradient = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
    asked = Asked(
        query=query, key=key, value=value, mask=mask, dropout=dropout, causal=causal, grouped=grouped, gradient=gradient
    )
    chosen = backend(asked, capability)
    if chosen == "math":
        return aten._scaled_dot_product_attention_math.default(
            query, key, value, mask, dropout, causal, None, scale=scale, enable_gqa=grouped
        )[0]
    mask = _additive(mask, query.dtype)
    if chosen == "cudnn":
        return aten._scaled_dot_product_cudnn_attention.default(
            query, key, value, mask, gradient, dropout, causal, False, scale=scale
        )[0]
    if chosen == "efficient":
        return aten._scaled_dot_product_efficient_attention.default(
            query, key, value, _aligned(mask, query, key), gradient, dropout, causal, scale=scale
        )[0]
    wide = query.shape[-1]
    more = -wide % 8
    if more:
        scale = wide**-0.5 if scale is None else scale
        query, key, value = (torch.constant_pad_nd(t, [0, more], 0.0) for t in (query, key, value))
    found: Any = aten._scaled_dot_product_flash_attention.default(
        query, key, value, dropout, causal, False, scale=scale
    )[0]
    return found[..., :wide] if more else found


_storage_ref: Any = StorageWeakRef

_added: dict[tuple[Any, ...], tuple[Any, weakref.ref[torch.Tensor]]] = {}
"""Masks that a compiled region has made numbers of, by what they were made of."""


def _additive(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """A mask of booleans becomes zeros and −∞, by three kernels; a compiler does so once for all layers."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    if not torch.compiler.is_compiling():
        return _numbers(mask, dtype)
    storage = _storage_ref(mask.untyped_storage())
    key = (storage.cdata, tuple(mask.shape), mask.stride(), mask.storage_offset(), mask._version, dtype)
    kept = _added.get(key)
    made = None if kept is None or kept[0].expired() else kept[1]()
    if made is None:
        made = _numbers(mask, dtype)
        _added[key] = storage, weakref.ref(made)
    return made


def _numbers(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    zero = torch.scalar_tensor(0.0, dtype=dtype, device=mask.device)
    return torch.where(torch.logical_not(mask), -math.inf, zero)


def _aligned(mask: torch.Tensor | None, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor | None:
    """The efficient kernel wants rows of a multiple of 16 elements, else it is padded; and the mask of each head."""
    if mask is None:
        return None
    last = mask.shape[-1]
    if last % 16:
        mask = torch.constant_pad_nd(mask, [0, -last % 16], 0.0)[..., :last]
    shape = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    return mask.expand(shape)
