"""Encoding: dataclasses and plain values to JSON in one go, in C."""

from __future__ import annotations

from typing import Any

import msgspec


def encode_json(value: Any) -> bytes:
    """Encode as JSON bytes; NumPy scalars and arrays become numbers and lists, NaN and infinity null."""
    return msgspec.json.encode(value, enc_hook=_plain)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")
