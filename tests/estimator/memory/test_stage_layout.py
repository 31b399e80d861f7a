"""Layout: blocks dealt out over stages and chunks, and where embedding, head and leading blocks are."""

import numpy as np
import pytest

from estimator.memory.stage_layout import StageKind, stage_kinds


def kinds(layers=(12,), leading=(False,), *, stages=4, virtual_stages=1, folded=False) -> dict[str, StageKind]:
    found = stage_kinds(layers, leading, stages=stages, virtual_stages=virtual_stages, folded=folded)
    return {kind.name: kind for kind in found}


def counts(**rest) -> list[float]:
    found = kinds(**rest)
    return [float(found[name].layers) for name in ("first", "middle", "last")]


def test_one_stage_has_everything():
    found = kinds(stages=1)
    assert list(found) == ["only"]
    assert found["only"] == StageKind(name="only", blocks=(12.0,), embedding=True, head=True)


def test_blocks_are_divided_evenly_where_they_can_be():
    assert counts() == [3, 3, 3]
    assert counts(stages=6, virtual_stages=2) == [2, 2, 2]


@pytest.mark.parametrize(
    ("layers", "stages", "expected"),
    [
        (11, 4, [3, 3, 2]),  # one short: the last stage has the head
        (10, 4, [2, 3, 2]),  # two short: the first has the embedding
        (126, 16, [7, 8, 7]),  # Llama 3 405B, as arXiv 2407.21783, section 3.3.2, takes one block off each end
        (3, 2, [2, 1, 1]),
    ],
)
def test_the_ends_go_short_first(layers, stages, expected):
    assert counts(layers=(layers,), stages=stages) == expected


def test_two_stages_and_their_blocks_are_all_there_are():
    for layers in range(2, 12):
        first, _, last = counts(layers=(layers,), stages=2)
        assert first + last == layers


@pytest.mark.parametrize("stages", [3, 4, 8, 16])
@pytest.mark.parametrize("short", [0, 1, 2])
def test_no_block_is_lost_or_doubled(stages, short):
    layers = 4 * stages - short
    first, middle, last = counts(layers=(layers,), stages=stages)
    assert first + (stages - 2) * middle + last == layers


def test_embedding_is_on_the_first_and_head_on_the_last_stage():
    found = kinds()
    assert {name: (kind.embedding, kind.head) for name, kind in found.items()} == {
        "first": (True, False), "middle": (False, False), "last": (False, True)
    }  # fmt: skip


def test_a_folded_schedule_ends_where_it_began():
    # Zero-bubble V: the last chunk is on the first rank (arXiv 2405.15362, figure 2).
    found = kinds(virtual_stages=2, folded=True, layers=(24,))
    assert (found["first"].embedding, found["first"].head) == (True, True)
    assert not found["last"].head
    # One short: the first rank has the head. Two short: it has the embedding too.
    assert counts(layers=(23,), virtual_stages=2, folded=True) == [5, 6, 6]
    assert counts(layers=(22,), virtual_stages=2, folded=True) == [4, 6, 6]


def test_leading_blocks_fill_the_first_stage():
    # DeepSeek-V3: 3 dense blocks of 61, 16 stages: 3 dense and one with experts, then experts only.
    found = kinds((3, 58), (True, False), stages=16)
    assert found["first"].blocks == (3, 0)
    assert found["middle"].blocks == (0, 4)
    assert found["last"].blocks == (0, 3)


def test_leading_blocks_that_the_first_stage_cannot_hold_spill_over():
    found = kinds((5, 7), (True, False), stages=4)
    assert found["first"].blocks == (3, 0)
    total = [sum(found[name].blocks[i] * n for name, n in (("first", 1), ("middle", 2), ("last", 1))) for i in (0, 1)]
    assert total == pytest.approx([5, 7])


def test_kinds_that_alternate_mix_evenly():
    found = kinds((6, 6), (False, False))
    assert {kind.blocks for kind in found.values()} == {(1.5, 1.5)}


def test_many_pipelines_at_once_are_each_of_them_alone():
    stages, virtual = np.array([2, 3, 4, 6, 12, 5.0]), np.array([1, 2, 3, 1, 1, 2.0])
    together = stage_kinds((2, 11), (True, False), stages=stages, virtual_stages=virtual, folded=False)
    for i, (p, v) in enumerate(zip(stages, virtual, strict=True)):
        alone = stage_kinds((2, 11), (True, False), stages=float(p), virtual_stages=float(v), folded=False)
        for many, one in zip(together, alone, strict=True):
            assert [float(np.broadcast_to(count, 6)[i]) for count in many.blocks] == pytest.approx(list(one.blocks))
