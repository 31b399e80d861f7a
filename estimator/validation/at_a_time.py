"""How many sequences a rank takes at a time where a table of measured steps does not say."""

from __future__ import annotations

MOST_SHARES = 64
"""Micro-batches of a step up to which one that fits is looked for."""
AS_MANY_AS_FIT = "as many sequences of a GPU at a time as fit"


def sizes_at_a_time(each: int, pp: int) -> list[int]:
    """What people try, the most first: all ``each``, then equal shares; one in a pipeline, which lives on many."""
    if pp > 1 or each < 1:
        return [1]
    return [each // share for share in range(1, min(each, MOST_SHARES) + 1) if each % share == 0]
