"""Amounts: numbers that tools print, which a damaged file may have made anything."""

from __future__ import annotations

LARGEST = 1e15


def amount(text: object, most: float = LARGEST) -> float | None:
    """Read a number from 0 up to ``most``; None for what is none, or no such."""
    try:
        value = float(str(text))
    except ValueError:
        return None
    return value if 0.0 <= value < most else None
