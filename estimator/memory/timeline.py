"""Timeline: memory over a step from the lives of its storages, on a GPU as PyTorch's caching allocator serves them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from estimator.memory.allocator import GRANULE, LARGE_BYTES, MIDDLE_SEGMENT, ROUNDED, SMALL_BYTES, SMALL_SEGMENT
from estimator.scenario.breakdown import MEMORY_KINDS, MemoryKind
from estimator.scenario.op_list import NONE, Storage


@dataclass(frozen=True, kw_only=True)
class MemoryTimeline:
    """Bytes over a step. ``peak_call``: the call before which most is held; ``curve``: (call, bytes from there on).

    ``by_kind`` adds to ``peak_bytes``, both of blocks as allocated; ``reserved_bytes`` is what segments need in all.
    """

    peak_bytes: float
    reserved_bytes: float
    peak_call: int
    by_kind: dict[str, float]
    curve: tuple[tuple[int, float], ...]


def timeline(
    storages: Sequence[Storage],
    calls: int,
    workspace_bytes: float = 0.0,
    *,
    segments: bool = True,
    updates: int | None = None,
) -> MemoryTimeline:
    """Follow all storages through ``calls`` calls; ``workspace_bytes`` of libraries are held throughout.

    Before each call what died is freed, then what is born is allocated. ``updates``: the call before which a run's
    first step makes the optimizer's states, which all later steps begin with. Without ``segments``, on a CPU, each
    takes its own bytes, and nothing is held back.
    """
    count = len(storages)
    rows = list(map(attrgetter("bytes", "born", "died"), storages))
    sizes, born, died = np.array(rows, dtype=np.int64).reshape(count, 3).T.copy()
    died[died == NONE] = calls + 1
    workspace = float(-(-int(workspace_bytes) // GRANULE) * GRANULE)
    blocks, reserved = np.where(died > born, sizes, 0), 0.0
    if segments:
        states = np.array([one.kind == MemoryKind.OPTIMIZER and one.born < 0 for one in storages], dtype=bool)
        late = states & (died > calls)
        blocks, reserved = served(
            sizes, born, died, workspace, late=late, updates=calls if updates is None else updates
        )
    names = {kind: index for index, kind in enumerate(MEMORY_KINDS)}
    other = names[MemoryKind.TEMPORARIES]
    kinds = np.array([names.get(one.kind, other) for one in storages], dtype=np.int64)
    # What is there before the step is one moment earlier than the first call.
    steps = np.zeros(calls + 3, dtype=np.int64)
    np.add.at(steps, born + 1, blocks)
    np.add.at(steps, np.maximum(died, born) + 1, -blocks)
    held: NDArray[np.float64] = np.cumsum(steps[: calls + 2]).astype(np.float64) + workspace
    peak = int(np.argmax(held))
    alive = (born + 1 <= peak) & (died + 1 > peak)
    by_kind = np.bincount(kinds[alive], weights=blocks[alive], minlength=len(MEMORY_KINDS))
    found = dict(zip(MEMORY_KINDS, by_kind.tolist(), strict=True))
    found[MemoryKind.FRAMEWORK] += workspace
    return MemoryTimeline(
        peak_bytes=float(held[peak]),
        reserved_bytes=max(reserved, float(held[peak])),
        peak_call=max(peak - 1, 0),
        by_kind=found,
        curve=_curve(held),
    )


Wholes = NDArray[np.int64]


def _curve(held: NDArray[np.float64]) -> tuple[tuple[int, float], ...]:
    """The points at which the bytes change."""
    changes = np.flatnonzero(np.diff(held, prepend=held[0] - 1.0))
    return tuple(zip((np.maximum(changes - 1, 0)).tolist(), held[changes].tolist(), strict=True))


def served(
    sizes: Wholes,
    born: Wholes,
    died: Wholes,
    workspace: float = 0.0,
    *,
    late: NDArray[np.bool_] | None = None,
    updates: int = 0,
) -> tuple[Wholes, float]:
    """Bytes of the block that serves each storage, and of all segments that the caching allocator takes for them.

    The smallest free block that is large enough serves a request; what is left of it is split off where it is 512 bytes
    or more in a small segment, more than 1 MiB in another, and counts as allocated else. Neighbours that are free are
    joined. Segments stay. ``late`` storages are made before call ``updates`` of the first step, out of what the
    activations of that step have left; the next step finds its activations' places taken, and takes segments for them
    anew. Where there are such, the first step is followed by the one that is asked about.
    """
    granules = -(-sizes // GRANULE)
    lives = np.flatnonzero((granules > 0) & (died > born))
    count = len(lives)
    # Frees come before allocations of the same call; what is there before the step comes first.
    begins, ends = born[lives] * 2 + 1, died[lives] * 2
    wanted = granules[lives].tolist()
    small, large = _Pool(small=True), _Pool(small=False)
    if workspace:
        large.allocate(int(workspace) // GRANULE)
    pools = [small if size <= SMALL_BYTES // GRANULE else large for size in wanted]
    places = [0] * count
    broad = granules[lives] > SMALL_BYTES // GRANULE
    made = np.zeros(count, dtype=bool) if late is None else late[lives] & broad
    stays, before = made, wanted
    if made.any():
        # Small storages, whose segments are many and alike, are left out of the first step.
        stays = broad & (made | ((begins < 0) & (ends == ends.max())))
        before = list(wanted)
        events = np.concatenate([np.where(made, updates * 2 + 1, begins), ends])
        _serve(events, np.concatenate([broad, broad & ~stays]), pools, places, before)
    # What stays is there in the next step; what else is left of a step makes room for its like of the next.
    _serve(np.concatenate([begins, ends]), np.concatenate([~stays, ~stays]), pools, places, wanted)
    blocks = np.zeros(len(sizes), dtype=np.int64)
    blocks[lives] = np.where(stays, before, wanted) * GRANULE
    return blocks, float((small.reserved + large.reserved) * GRANULE)


def _serve(events: Wholes, some: NDArray[np.bool_], pools: list[_Pool], places: list[int], sizes: list[int]) -> None:
    """Allocate and free ``some`` of the storages, whose first and last moments are ``events``, in their order.

    ``places`` get the addresses, ``sizes`` those of the blocks.
    """
    count = len(pools)
    chosen = np.flatnonzero(some)
    for event in chosen[np.argsort(events[chosen], kind="stable")].tolist():
        if event < count:
            pool = pools[event]
            places[event] = address = pool.allocate(sizes[event])
            sizes[event] = pool.sizes[address]
        else:
            pools[event - count].free(places[event - count])


_ADDRESS_BITS = 40
_ADDRESS = (1 << _ADDRESS_BITS) - 1


class _Pool:
    """Blocks by address and, those that are free, by size, all in granules; addresses of segments do not touch."""

    def __init__(self, *, small: bool) -> None:
        self.small = small
        self.least_rest = 1 if small else SMALL_BYTES // GRANULE + 1
        self.reserved = 0
        self.top = 0
        self.open: list[int] = []
        """Sizes and addresses of free blocks, in one number each, in order."""
        self.sizes: dict[int, int] = {}
        self.free_at: dict[int, int] = {}
        """Sizes of free blocks by address."""
        self.free_until: dict[int, int] = {}
        """Addresses of free blocks by their end."""

    def allocate(self, size: int) -> int:
        """Return the address of a block of at least ``size``."""
        free = self.open
        place = bisect_left(free, size << _ADDRESS_BITS)
        if place < len(free):
            found = free.pop(place)
            address = found & _ADDRESS
            whole = found >> _ADDRESS_BITS
            del self.free_at[address], self.free_until[address + whole]
        else:
            whole = self._segment_size(size)
            address = self.top
            self.top += whole + 1
            self.reserved += whole
        left = whole - size
        if left >= self.least_rest:
            rest = address + size
            self.free_at[rest] = left
            self.free_until[rest + left] = rest
            insort(free, left << _ADDRESS_BITS | rest)
            whole = size
        self.sizes[address] = whole
        return address

    def free(self, address: int) -> None:
        """Give a block back, joined with its free neighbours."""
        size = self.sizes.pop(address)
        free, free_at, free_until = self.open, self.free_at, self.free_until
        end = address + size
        after = free_at.pop(end, 0)
        if after:
            del free[bisect_left(free, after << _ADDRESS_BITS | end)]
            end += after
            size += after
        before = free_until.pop(address, -1)
        if before >= 0:
            length = free_at[before]
            del free[bisect_left(free, length << _ADDRESS_BITS | before)]
            address = before
            size += length
        free_at[address] = size
        free_until[end] = address
        insort(free, size << _ADDRESS_BITS | address)

    def _segment_size(self, size: int) -> int:
        if self.small:
            return SMALL_SEGMENT // GRANULE
        if size < LARGE_BYTES // GRANULE:
            return MIDDLE_SEGMENT // GRANULE
        return -(-size // (ROUNDED // GRANULE)) * (ROUNDED // GRANULE)
