"""JSON that nobody expects, for the tests of whatever reads a document: a value of any type, alone or nested."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

_WORDS = st.text(max_size=9)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _WORDS
"""What JSON can say that is neither a list nor an object."""

ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 10**30), st.floats(), _WORDS, st.lists(st.integers(), max_size=3)
)
"""What may stand in place of a number or a word, also numbers that JSON has no digits for."""


def documents(
    leaves: SearchStrategy = SCALARS, names: SearchStrategy[str] | None = None, max_leaves: int = 12
) -> SearchStrategy:
    """Leaves in lists and objects, whose keys are any text or one of ``names``."""
    keys = _WORDS if names is None else names | _WORDS
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5),
        max_leaves=max_leaves,
    )
