"""Memory over a step: by hand, and as laws for any storages."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.memory.timeline import timeline
from estimator.scenario.op_list import NONE, Storage
from estimator.scenario.units import MIB


def held(*storages, calls=10, workspace=0.0):
    return timeline([Storage(bytes=size, born=born, died=died) for size, born, died in storages], calls, workspace)


def test_the_peak_is_where_most_is_alive():
    found = timeline(
        [
            Storage(bytes=1024, kind="parameters"),
            Storage(bytes=4096, born=2, died=5, kind="activations"),
            Storage(bytes=2048, born=4, died=6),
            Storage(bytes=4096, born=5),
        ],
        10,
    )
    assert found.peak_bytes == 1024 + 4096 + 2048
    assert found.peak_call == 4
    assert found.by_kind["parameters"] == 1024
    assert found.by_kind["activations"] == 4096
    assert found.by_kind["temporaries"] == 2048
    assert found.curve == ((0, 1024), (2, 5120), (4, 7168), (6, 5120))


def test_what_dies_before_a_call_leaves_its_place_to_what_is_born_there():
    assert held((MIB, 0, 3), (MIB, 3, 5)).peak_bytes == MIB
    assert held((3 * MIB, 0, 3), (3 * MIB, 3, 5)).reserved_bytes == 20 * MIB


@pytest.mark.parametrize(
    ("sizes", "reserved"),
    [
        ([1], 2 * MIB),
        ([MIB, MIB], 2 * MIB),
        ([MIB, MIB, 1], 4 * MIB),
        ([MIB + 1], 20 * MIB),
        ([9 * MIB, 9 * MIB], 20 * MIB),
        ([9 * MIB, 9 * MIB, 9 * MIB], 40 * MIB),
        ([10 * MIB + 1], 12 * MIB),
        ([33 * MIB], 34 * MIB),
        ([33 * MIB, MIB + 1], 54 * MIB),
    ],
)
def test_segments_are_those_of_the_caching_allocator(sizes, reserved):
    assert held(*((size, 0, NONE) for size in sizes)).reserved_bytes == reserved


def test_neighbours_that_are_free_are_joined_and_the_smallest_fit_is_taken():
    # Two halves of a segment make room for one that needs both.
    assert held((8 * MIB, 0, 2), (8 * MIB, 0, 2), (14 * MIB, 3, NONE)).reserved_bytes == 20 * MIB
    # The 12 MiB block serves 11 MiB, the 20 MiB one stays whole for 20 MiB.
    found = held((20 * MIB, 0, 2), (12 * MIB, 0, 2), (11 * MIB, 3, NONE), (20 * MIB, 4, NONE))
    assert found.reserved_bytes == 32 * MIB


def test_the_workspace_of_libraries_is_held_throughout():
    found = held((512, 0, NONE), workspace=64 * MIB)
    assert found.peak_bytes == 64 * MIB + 512
    assert found.by_kind["framework"] == 64 * MIB


def test_states_take_the_places_of_the_first_steps_activations():
    activations = [Storage(bytes=40 * MIB, born=0, died=5), Storage(bytes=40 * MIB, born=1, died=4)]
    states = [Storage(bytes=24 * MIB, kind="optimizer") for _ in range(2)]
    found = timeline([*activations, *states], 10, updates=6)
    # Each state lies in a segment of 40 MiB, whose rest is too small for an activation: two more in the next step.
    assert found.reserved_bytes == 160 * MIB
    assert found.peak_bytes == 128 * MIB
    # States that were there before everything have segments of their own.
    before = timeline([*activations, *(Storage(bytes=24 * MIB, kind="parameters") for _ in range(2))], 10, updates=6)
    assert (before.reserved_bytes, before.peak_bytes) == (128 * MIB, 128 * MIB)


def test_gradients_of_one_step_leave_their_places_to_those_of_the_next():
    storages = [
        Storage(bytes=12 * MIB, kind="parameters"),
        Storage(bytes=12 * MIB, kind="gradients", died=1),
        Storage(bytes=12 * MIB, kind="gradients", born=3),
        Storage(bytes=24 * MIB, kind="optimizer"),
    ]
    assert timeline(storages, 10, updates=5).reserved_bytes == 48 * MIB


def test_a_list_without_storages_holds_nothing():
    assert timeline([], 5).peak_bytes == 0


storages = st.builds(
    Storage,
    bytes=st.sampled_from((0, 1, 700, 4096, 600_000, MIB, 3 * MIB, 12 * MIB, 33 * MIB + 5)),
    born=st.integers(NONE, 10),
    died=st.integers(NONE, 10),
    kind=st.sampled_from(("parameters", "activations", "temporaries")),
)


@settings(max_examples=300)
@given(st.lists(storages, max_size=40))
def test_the_peak_is_no_less_than_any_moment_and_segments_hold_it(found_storages):
    found = timeline(found_storages, 10, 1000.0)
    for moment in range(NONE, 11):
        alive = sum(
            one.bytes
            for one in found_storages
            if one.born <= moment and (one.died == NONE or one.died > moment) and one.died != one.born
        )
        assert found.peak_bytes >= alive
    assert sum(found.by_kind.values()) == pytest.approx(found.peak_bytes)
    assert found.reserved_bytes >= found.peak_bytes
    assert max(size for _, size in found.curve) == found.peak_bytes


def test_a_rest_that_is_too_small_to_split_counts_as_allocated():
    assert held((11 * MIB + MIB // 2, 0, NONE)).peak_bytes == 12 * MIB
    assert held((11 * MIB - 512, 0, NONE)).peak_bytes == 11 * MIB - 512, "1 MiB and more is split off"


def test_without_segments_every_storage_takes_its_own_bytes():
    sizes = [(700, NONE, NONE), (11 * MIB + MIB // 2, 0, 3), (5, 4, 4)]
    found = timeline([Storage(bytes=size, born=born, died=died) for size, born, died in sizes], 10, segments=False)
    assert found.peak_bytes == found.reserved_bytes == 700 + 11 * MIB + MIB // 2
