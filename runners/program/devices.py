"""Names of the fake device: "cuda" where the program speaks, a slot of its own where torch listens."""

from __future__ import annotations

from typing import Any

import torch

DEVICE = "headroom"
"""The name under which torch knows the fake device; the program sees "cuda"."""


def inward(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Replace devices among positional values."""
    for value in args:
        kind = type(value)
        if kind is torch.device or kind is str:
            return tuple(map(known, args))
    return args


def inward_named(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Replace the device among named values."""
    if "device" not in kwargs and "map_location" not in kwargs:
        return kwargs
    changed = dict(kwargs)
    for name in ("device", "map_location"):
        if name in changed:
            value = changed[name]
            changed[name] = torch.device(DEVICE, 0) if type(value) is int else known(value)
    return changed


def known(value: Any) -> Any:
    """Return the device as torch knows it here, any other value as it is."""
    if type(value) is torch.device:
        return torch.device(DEVICE, 0) if value.type in ("cuda", DEVICE) else value
    if type(value) is str and (value == "cuda" or value.startswith("cuda:")):
        return DEVICE + ":0"
    return value
