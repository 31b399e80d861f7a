"""A machine of ranks that pass arrays to each other, message by message, and count the words they receive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np

Rank = Hashable
Blocks = dict[Rank, np.ndarray]


class Machine:
    """Counts received words and messages by (phase, axis, rank), and FLOPs of products by (phase, rank)."""

    def __init__(self) -> None:
        self.phase = "forward"
        self.words: Counter[tuple[str, str, Rank]] = Counter()
        self.messages: Counter[tuple[str, str, Rank]] = Counter()
        self.flops: Counter[tuple[str, Rank]] = Counter()
        self.ranks: set[Rank] = set()
        self.critical_words = 0
        """Words that pass one after the other if all messages of a round travel at once."""

    def round(self, axis: str, messages: Iterable[tuple[Rank, Rank, np.ndarray]]) -> Blocks:
        """Deliver messages (from, to, array) that travel at the same time; return what each rank received."""
        delivered: Blocks = {}
        longest = 0
        for sender, receiver, array in messages:
            assert sender != receiver
            self.ranks |= {sender, receiver}
            assert receiver not in delivered, "a rank receives one message per round"
            delivered[receiver] = array.copy()
            self.words[self.phase, axis, receiver] += array.size
            self.messages[self.phase, axis, receiver] += 1
            longest = max(longest, array.size)
        self.critical_words += longest
        return delivered

    def multiply(self, rank: Rank, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        self.flops[self.phase, rank] += 2 * left.shape[0] * left.shape[1] * right.shape[1]
        return left @ right

    def all_gather(self, axis: str, groups: Sequence[Sequence[Rank]], blocks: Blocks) -> dict[Rank, list[np.ndarray]]:
        """Pass blocks around a ring, n − 1 times; every rank ends with the group's blocks in the group's order."""
        held = {r: {place: blocks[r]} for group in groups for place, r in enumerate(group)}
        for step in range(len(groups[0]) - 1):
            sent = [
                (r, group[(place + 1) % len(group)], held[r][(place - step) % len(group)])
                for group in groups
                for place, r in enumerate(group)
            ]
            got = self.round(axis, sent)
            for group in groups:
                for place, r in enumerate(group):
                    held[r][(place - 1 - step) % len(group)] = got[r]
        return {r: [held[r][place] for place in range(len(group))] for group in groups for r in group}

    def reduce_scatter(
        self, axis: str, groups: Sequence[Sequence[Rank]], parts: dict[Rank, list[np.ndarray]]
    ) -> Blocks:
        """Pass partial sums around a ring; the rank at place p ends with the sum of everyone's part p."""
        sums = {r: [part.copy() for part in parts[r]] for group in groups for r in group}
        for step in range(len(groups[0]) - 1):
            sent = [
                (r, group[(place + 1) % len(group)], sums[r][(place - 1 - step) % len(group)])
                for group in groups
                for place, r in enumerate(group)
            ]
            got = self.round(axis, sent)
            for group in groups:
                for place, r in enumerate(group):
                    sums[r][(place - 2 - step) % len(group)] += got[r]
        return {r: sums[r][place] for group in groups for place, r in enumerate(group)}

    def all_reduce(self, axis: str, groups: Sequence[Sequence[Rank]], blocks: Blocks) -> Blocks:
        """Reduce-scatter, then all-gather, of the flattened array cut into as many parts as ranks."""
        n = len(groups[0])
        parts = {r: np.split(blocks[r].ravel(), n) for group in groups for r in group}
        gathered = self.all_gather(axis, groups, self.reduce_scatter(axis, groups, parts))
        return {r: np.concatenate(found).reshape(blocks[r].shape) for r, found in gathered.items()}

    def all_to_all(
        self, axis: str, group: Sequence[Rank], parts: dict[Rank, list[np.ndarray]]
    ) -> dict[Rank, list[np.ndarray]]:
        """Rank at place p gets part p of everyone, in the group's order."""
        n = len(group)
        found = {r: [parts[r][place]] * n for place, r in enumerate(group)}
        for distance in range(1, n):
            got = self.round(
                axis,
                [(r, group[(place + distance) % n], parts[r][(place + distance) % n]) for place, r in enumerate(group)],
            )
            for place, r in enumerate(group):
                found[r][(place - distance) % n] = got[r]
        return found

    def received(self, phase: str, axis: str | None = None) -> int:
        """Words that each rank received, after a check that all received as many."""
        return _equal(self.words, self.ranks, phase, axis)

    def steps(self, axis: str | None = None) -> int:
        """Messages that each rank received in both phases, after a check that all received as many."""
        return sum(_equal(self.messages, self.ranks, phase, axis) for phase in ("forward", "backward"))


def groups_along(ranks: Iterable[tuple[int, ...]], index: int) -> list[list[tuple[int, ...]]]:
    """Group ranks that differ only in one coordinate, in its order."""
    found: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for rank in sorted(ranks):
        found.setdefault(rank[:index] + rank[index + 1 :], []).append(rank)
    return list(found.values())


def block(matrix: np.ndarray, row: int, rows: int, column: int, columns: int) -> np.ndarray:
    """Cut block (row, column) out of rows × columns equal ones."""
    return np.split(np.split(matrix, rows, axis=0)[row], columns, axis=1)[column]


def scattered(ranks: Iterable[Rank], matrix: np.ndarray, rows: int, columns: int, place: Callable) -> Blocks:
    """Give every rank its block; ``place`` maps a rank to (row, column)."""
    return {r: block(matrix, place(r)[0], rows, place(r)[1], columns) for r in ranks}


def _equal(counts: Counter, ranks: set[Rank], phase: str, axis: str | None) -> int:
    totals = dict.fromkeys(ranks, 0)
    for (of_phase, of_axis, rank), count in counts.items():
        if of_phase == phase and axis in (None, of_axis):
            totals[rank] += count
    assert len(set(totals.values())) <= 1, f"ranks received different amounts: {totals}"
    return next(iter(totals.values()), 0)
