"""Chunks: over how many the layers spread, and that what is named as remedy does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.scenario.legality import chunk_counts, chunk_problems, spreads


@pytest.mark.parametrize(
    ("layers", "stages", "counts"),
    [(16, 4, [1, 2, 4]), (16, 5, [1, 2]), (126, 16, [1, 2, 4]), (62, 4, [1, 2, 4, 8]), (4, 4, [1])],
)
def test_every_count_of_chunks_that_is_accepted(layers, stages, counts):
    assert chunk_counts(layers, stages) == counts


def test_the_refusal_names_the_counts_and_the_reason():
    (problem,) = chunk_problems("interleaved", 4, 3, 16)
    assert problem.field == "plan.virtual_stages"
    assert problem.message == (
        "16 layers in pp·virtual_stages = 4·3 = 12 chunks of 2 fall 8 short, "
        "and at most one for each of the 4 stages is accepted"
    )
    assert problem.remedy == "With pp = 4 choose virtual_stages 1, 2 or 4."
    (problem,) = chunk_problems("interleaved", 4, 5, 16)
    assert "20 chunks need more than 16 layers" in problem.message
    assert problem.remedy == "With pp = 4 choose virtual_stages 1, 2 or 4."


def test_two_chunks_by_themselves_are_a_matter_of_the_stages():
    (problem,) = chunk_problems("zero-bubble-v", 6, 1, 16)
    assert problem.field == "plan.pp"
    assert "2·pp = 2·6 = 12 chunks of 2 fall 8 short" in problem.message
    assert problem.remedy == "Choose pp 5 or 8, or set schedule to zero-bubble."
    (problem,) = chunk_problems("zero-bubble-v", 9, 2, 16)
    assert problem.remedy == "Choose pp 8, or set schedule to zero-bubble."


@given(st.sampled_from(["interleaved", "zero-bubble-v"]), st.integers(2, 40), st.integers(1, 40), st.integers(2, 200))
def test_remedies_are_accepted(schedule, stages, virtual_stages, layers):
    for problem in chunk_problems(schedule, min(stages, layers), virtual_stages, layers):
        stages = min(stages, layers)
        chosen = problem.remedy.partition("choose virtual_stages " if schedule == "interleaved" else "Choose pp ")[2]
        numbers = [int(word) for word in chosen.replace(",", " ").replace(".", " ").split() if word.isdigit()]
        assert numbers
        for number in numbers:
            pair = (stages, number) if schedule == "interleaved" else (number, virtual_stages)
            assert chunk_problems(schedule, *pair, layers) == []


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zero-bubble"])
def test_one_chunk_per_rank_always_spreads(schedule):
    assert all(spreads(layers, stages, 1) for layers in range(1, 40) for stages in range(1, layers + 1))
    assert chunk_problems(schedule, 4, 3, 16) == []
