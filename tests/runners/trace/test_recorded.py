"""A recorded step over time: what is kept of it is short, in its place, and as busy as what ran."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.scenario.breakdown import Category, Phase
from runners.trace.recorded import MOST_BLOCKS, MOST_MOMENTS, Span, recorded

TOTAL_S = 1.0
KINDS = (Category.MATMUL, Category.ELEMENTWISE, Category.COMMUNICATION, Category.HOST)
times = st.floats(-0.1, 1.2, allow_nan=False)
spans = st.lists(
    st.builds(
        lambda kind, a, b: Span(kind, f"{kind} kernel", Phase.FORWARD, min(a, b), max(a, b)),
        st.sampled_from(KINDS), times, times,
    ),
    max_size=30,
)  # fmt: skip


def _union_s(some: list[tuple[float, float]]) -> float:
    found, reached = 0.0, 0.0
    for start, end in sorted(some):
        found += max(0.0, min(end, TOTAL_S) - max(start, reached))
        reached = max(reached, min(end, TOTAL_S))
    return found


@settings(max_examples=40)
@given(spans)
def test_a_lane_is_as_busy_as_what_ran_in_it_and_nothing_overlaps(some):
    found = recorded(some, TOTAL_S)
    lanes = {Category.COMMUNICATION: "communication", Category.HOST: "host"}
    ran: dict[str, list[tuple[float, float]]] = {}
    for one in some:
        ran.setdefault(lanes.get(one.kind, "compute"), []).append((one.start_s, one.end_s))
    if found is None:
        assert all(_union_s(some) == 0 for some in ran.values())
        return
    for at, lane in enumerate(found.lanes):
        mine = [(s, e) for where, s, e in zip(found.lane, found.start_s, found.end_s, strict=True) if where == at]
        assert all(end <= start + 1e-7 for (_, end), (start, _) in pairwise(mine))
        gaps_s = len(ran[lane]) * TOTAL_S / (4 * MOST_BLOCKS)
        assert 0 <= sum(e - s for s, e in mine) - _union_s(ran[lane]) + 1e-6 <= gaps_s + 2e-6


def test_many_small_kernels_become_pieces_of_what_ran_most():
    many = 20_000
    each = TOTAL_S / many
    kinds = (Category.MATMUL, Category.MATMUL, Category.ATTENTION)
    found = recorded(
        [Span(kinds[at % 3], "one", Phase.BACKWARD, at * each, (at + 0.9) * each) for at in range(many)],
        TOTAL_S,
        [(at / many, at) for at in range(many)],
    )
    assert found is not None
    assert len(found.lane) <= MOST_BLOCKS
    assert set(found.kind) == {Category.MATMUL}
    assert found.folded == "in pieces of 2.5 ms"
    busy = sum(e - s for s, e in zip(found.start_s, found.end_s, strict=True))
    assert busy == pytest.approx(0.9 * TOTAL_S, rel=0.02)
    assert len(found.memory) <= MOST_MOMENTS + 1
    assert max(held for _, held in found.memory) == many - 1
