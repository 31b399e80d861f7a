"""Cells: numbers and flags of a CSV table, where an empty or unreadable cell means unknown."""

from __future__ import annotations

import math


def number(text: str) -> float | None:
    """Read a number; None where the cell is empty or is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    # Tables written by pandas say nan where nothing is known.
    return value if math.isfinite(value) else None


def flag(text: str, default: bool) -> bool:
    """Read true, 1 or yes; ``default`` where the cell is empty."""
    return default if not text else text.lower() in ("true", "1", "yes")
