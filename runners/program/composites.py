"""Ops that CUDA runs as a kernel of its own, and that torch would take apart for a device that it does not know.

A kernel in the device's place tells the dispatcher to leave an op whole and to differentiate it by its own formula; it is
never run, as the recorder stands before it. Source: native_functions.yaml of torch 2.13, ops with a kernel for CUDA beside
CompositeImplicitAutograd.
"""

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten

NAMES = (
    "silu_backward", "mish_backward", "native_channel_shuffle", "_fused_rms_norm", "_fused_rms_norm_backward",
)  # fmt: skip


def install() -> torch.library.Library:
    """Register them for the fake device; they live as long as what is returned."""
    library = torch.library.Library("aten", "IMPL")
    for name in NAMES:
        library.impl(getattr(aten, name).default, _unreachable, "PrivateUse1")
    return library


def _unreachable(*_: Any, **__: Any) -> Any:
    raise AssertionError("the recorder stands before this")
