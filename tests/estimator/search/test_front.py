"""Front: of a stream of blocks, the best and the Pareto front, as if all plans had been compared at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.search.evaluate import Evaluated
from estimator.search.front import Front
from estimator.search.space import Choice, Shape, Sharing, Space
from tests.estimator.search.spaces import base

CHOICE = Choice(tp_kind="1d", sequence_parallel=False, cp_kind="ring", recompute="none")
SHAPE = Shape(tp=1, tp_depth=1, cp=1, ep=1, expert_tp=1, micro_batch=1, pp=1, dp=4)
SPACE = Space(base(), {})


def block(pairs: list[tuple[float, float]], chunks: list[int] | None = None) -> Evaluated:
    """Plans of one shape with given seconds and bytes, and virtual stages to tell them apart."""
    count = len(pairs)
    rows = np.zeros(count, dtype=np.int64)
    virtual = np.array(chunks) if chunks else rows + 1
    return Evaluated(
        space=SPACE, choices=[CHOICE], shapes=[[SHAPE]], choice=rows, shape=rows, changed=rows, schedule="1f1b",
        virtual_stages=virtual, sharing=Sharing(sharding="ddp"), placement="tp-cp-dp-pp", tried=count,
        step_s=np.array([pair[0] for pair in pairs]), peak_bytes=np.array([pair[1] for pair in pairs]),
        reserved_bytes=np.array([pair[1] for pair in pairs]),
    )  # fmt: skip


def fed(blocks: list[list[tuple[float, float]]], *, objective: str = "step_time", kept: int = 3) -> Front:
    found = Front(objective=objective, kept=kept)
    for pairs in blocks:
        found.add(block(pairs), np.arange(len(pairs)))
    return found


def numbers(candidates) -> list[tuple[float, float]]:
    return [(c.step_s, c.peak_bytes) for c in candidates]


def test_the_front_by_hand():
    found = fed([[(3, 1), (2, 9)], [(1, 9), (1, 9)]])
    assert numbers(found.pareto()) == [(1, 9), (3, 1)]


@pytest.mark.parametrize(
    ("objective", "expected"),
    [("step_time", [(1, 9), (2, 5)]), ("cost", [(1, 9), (2, 5)]), ("memory", [(9, 1), (3, 4)])],
)
def test_the_best_by_an_objective(objective, expected):
    found = fed([[(9, 1), (2, 5)], [(1, 9)], [(3, 4)]], objective=objective, kept=2)
    assert numbers(found.best()) == expected


def test_only_usable_plans_count():
    found = Front(objective="step_time", kept=5)
    found.add(block([(1, 1), (2, 2), (3, 1)]), np.array([1, 2]))
    assert numbers(found.best()) == [(2, 2), (3, 1)]
    found.add(block([(1, 1)]), np.array([], dtype=np.int64))
    assert numbers(found.pareto()) == [(2, 2), (3, 1)]


def test_a_candidate_names_its_plan():
    (found,) = fed([[(1, 1)]]).best()
    assert (found.plan.dp, found.plan.micro_batch) == (4, 1)


def test_plans_that_tie_are_one_place_the_simplest_of_them_counted():
    found = Front(objective="step_time", kept=2)
    rounding = 1 + 1e-12
    found.add(block([(1, 9), (2, 5 * rounding), (2, 6)], [2, 3, 1]), np.arange(3))
    found.add(block([(1 * rounding, 9), (2 * rounding, 5), (3, 5)], [1, 1, 1]), np.arange(3))
    found.add(block([(2, 5), (1, 9.001)], [2, 1]), np.arange(2))
    assert [(c.plan.virtual_stages, c.ties) for c in found.pareto()] == [(1, 1), (1, 2)]
    assert [(c.plan.virtual_stages, c.ties) for c in found.best()] == [(1, 1), (1, 0)]
    # Each place has its own plan's numbers.
    assert numbers(found.pareto()) == [(1 * rounding, 9), (2 * rounding, 5)]


def test_a_place_that_is_beaten_takes_its_ties_along():
    found = fed([[(2, 5), (2, 5)], [(2, 4)], [(1, 4), (1, 4), (1, 4)]])
    assert [(c.step_s, c.peak_bytes, c.ties) for c in found.pareto()] == [(1, 4, 2)]


def test_numbers_that_differ_by_more_than_rounding_do_not_tie():
    found = fed([[(1, 9), (1 - 1e-6, 9), (1, 9 - 1e-5)]])
    assert len(found.pareto()) == 2
    assert [c.ties for c in found.pareto()] == [0, 0]


# Few values, so that ties and plans that are equal in one respect come up.
pairs = st.tuples(st.integers(1, 12).map(float), st.integers(1, 12).map(float))


@given(st.lists(st.lists(pairs, max_size=12), max_size=8), st.sampled_from(("step_time", "memory")), st.integers(1, 6))
@settings(max_examples=200, deadline=None)
def test_a_stream_gives_what_a_comparison_of_all_gives(blocks, objective, kept):
    found = fed(blocks, objective=objective, kept=kept)
    every = [pair for pairs in blocks for pair in pairs]
    front = {
        (s, p) for s, p in every
        if not any(other[0] <= s and other[1] <= p and other != (s, p) for other in every)
    }  # fmt: skip
    assert numbers(found.pareto()) == sorted(front)
    assert [c.ties for c in found.pareto()] == [every.count(pair) - 1 for pair in sorted(front)]
    order = sorted(set(every), key=lambda pair: pair[::-1] if objective == "memory" else pair)
    assert numbers(found.best()) == order[:kept]
    assert [c.ties for c in found.best()] == [every.count(pair) - 1 for pair in order[:kept]]
