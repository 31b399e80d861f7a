"""Orders: what each rank of a pipeline schedule runs, in sequence, as the papers define it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class OrderedWork(NamedTuple):
    """One piece of a rank's order: F forward, B backward (to the input alone where W is apart), W to the weights."""

    kind: str
    chunk: int
    micro_batch: int


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How a schedule lays out and orders a rank's work.

    ``overlaps``: messages travel beside the work. ``split``: W is apart from B. ``folded``: a rank's second chunk lies
    on the way back to rank 0.
    """

    order: Callable[[int, int, int, int], list[OrderedWork]]
    overlaps: bool = True
    split: bool = False
    folded: bool = False

    def position(self, rank: int, chunk: int, stages: int) -> int:
        """Place of a rank's chunk on a micro-batch's way through the model."""
        if self.folded:
            return 2 * stages - 1 - rank if chunk else rank
        return chunk * stages + rank


def gpipe(rank: int, stages: int, micro_batches: int, chunks: int) -> list[OrderedWork]:
    """All forwards, then all backwards (Huang 2019, arXiv 1811.06965, section 2.3)."""
    return [*_whole("F", micro_batches), *_whole("B", micro_batches)]


def one_forward_one_backward(rank: int, stages: int, micro_batches: int, chunks: int) -> list[OrderedWork]:
    """After min(m, p − 1 − rank) forwards, forward and backward in turn (Narayanan 2021, arXiv 2104.04473, 2.2.1)."""
    return _alternate(_whole("F", micro_batches), _whole("B", micro_batches), stages - 1 - rank)


def interleaved(rank: int, stages: int, micro_batches: int, chunks: int) -> list[OrderedWork]:
    """After 2(p − 1 − rank) + (v − 1)p forwards of a chunk, one forward and one backward in turn.

    Micro-batches go in groups of p through every chunk; backward meets the chunks in reverse (Narayanan 2021,
    arXiv 2104.04473, section 2.2.2; Megatron-LM, core/pipeline_parallel/schedules.py, for the warm-up).
    """
    groups = range(0, micro_batches, stages)
    forward = [OrderedWork("F", c, g + k) for g in groups for c in range(chunks) for k in range(stages)]
    backward = [OrderedWork("B", c, g + k) for g in groups for c in reversed(range(chunks)) for k in range(stages)]
    return _alternate(forward, backward, 2 * (stages - 1 - rank) + (chunks - 1) * stages)


def zero_bubble_h1(rank: int, stages: int, micro_batches: int, chunks: int) -> list[OrderedWork]:
    """1F1B with W apart from B, and ``rank`` micro-batches later, so that every rank holds as many as the first.

    ZB-H1, the handcrafted schedule with the memory of 1F1B (Qi 2023, arXiv 2401.10241).
    """
    found: list[OrderedWork] = []
    for work in one_forward_one_backward(rank, stages, micro_batches, chunks):
        found.append(work)
        if work.kind == "B" and work.micro_batch >= rank:
            found.append(OrderedWork("W", 0, work.micro_batch - rank))
    return found + [OrderedWork("W", 0, k) for k in range(max(micro_batches - rank, 0), micro_batches)]


def zero_bubble_v(rank: int, stages: int, micro_batches: int, chunks: int) -> list[OrderedWork]:
    """Two chunks per rank, down the ranks and back up, packed for F = B = W.

    ZB-V (Qi 2023, arXiv 2401.10241v1; Qi 2024, arXiv 2405.15362, V-ZB). Filling takes 2p − 1
    micro-batches; with fewer, what the others would have run is left out.
    """
    m, ahead = max(2 * stages - 1, micro_batches), stages - rank
    full = m - (2 * stages - 1) + rank
    names = [
        *["F0"] * (2 * ahead - 1),
        *["F1", "F0"] * rank,
        *["F1", "B1", "W1"] * ahead,
        *["F0", "B0", "W0", "F1", "B1", "W1"] * full,
        *["B0", "W0", "F1", "B1", "W1"] * (m - stages - full),
        *["B0", "B1"] * rank,
        *["B0", "W0"] * ahead,
        *["W1"] * rank,
        *["W0"] * rank,
    ]
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        found.append(OrderedWork(name[0], int(name[1]), seen[name]))
        seen[name] += 1
    return [work for work in found if work.micro_batch < micro_batches]


SCHEDULES: dict[str, Schedule] = {
    "gpipe": Schedule(order=gpipe, overlaps=False),
    "1f1b": Schedule(order=one_forward_one_backward, overlaps=False),
    "interleaved": Schedule(order=interleaved),
    "zero-bubble": Schedule(order=zero_bubble_h1, split=True),
    "zero-bubble-v": Schedule(order=zero_bubble_v, split=True, folded=True),
}
"""Megatron-LM exchanges in line under 1F1B, and beside the work when it interleaves (``overlap_p2p_comm``)."""


def schedule_named(name: str, virtual_stages: int) -> Schedule:
    """Look a schedule up; interleaving one chunk per rank is 1F1B."""
    return SCHEDULES["1f1b" if name == "interleaved" and virtual_stages == 1 else name]


def _whole(kind: str, micro_batches: int) -> list[OrderedWork]:
    return [OrderedWork(kind, 0, k) for k in range(micro_batches)]


def _alternate(forward: list[OrderedWork], backward: list[OrderedWork], warm_up: int) -> list[OrderedWork]:
    warm_up = min(warm_up, len(forward))
    steady = [work for pair in zip(forward[warm_up:], backward, strict=False) for work in pair]
    return forward[:warm_up] + steady + backward[len(forward) - warm_up :]
