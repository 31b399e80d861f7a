"""Rows: which rows of a table are plans of their own under a schedule, a placement and a sharing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from estimator.plan import AXES, SHARDINGS
from estimator.search.choice import Sharing
from estimator.search.space import Space, canonical
from estimator.search.table import Table

Rows = NDArray[np.int64]


def staged(space: Space, table: Table) -> Iterator[tuple[str, Rows, Rows]]:
    """Yield rows and their chunks by schedule; a pipeline of one stage apart, because it has one kind of stage.

    Rows whose busy axes are the same follow one another, as they have the same placements.
    """
    found: dict[tuple[str, bool], list[tuple[Rows, Rows]]] = {}
    pairs = np.asarray(table.degrees.pp) + 1j * np.asarray(table.micro_batches)
    kinds, which = np.unique(pairs, return_inverse=True)
    order = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which, minlength=len(kinds)))
    for pair, rows in zip(kinds, np.split(order, ends[:-1]), strict=True):
        for schedule, virtual in space.stagings(int(pair.real), int(pair.imag)):
            found.setdefault((schedule, pair.real == 1), []).append((rows, np.full(len(rows), virtual)))
    busy = _busy(table)
    for (schedule, _), parts in found.items():
        rows, chunks = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(busy[rows], kind="stable")
        yield schedule, rows[order], chunks[order]


def distinct(space: Space, table: Table, placement: str) -> NDArray[np.bool_]:
    """Where a placement stands for all that differ only in where axes of degree 1 come."""
    if "placement" in space.locked:
        return np.ones(len(table.choice), dtype=bool)
    legal = [
        canonical(placement, {axis: 2 if code >> place & 1 else 1 for place, axis in enumerate(AXES)})
        for code in range(2 ** len(AXES))
    ]
    return np.array(legal)[_busy(table)]


def _busy(table: Table) -> Rows:
    """Which axes have a degree above 1, as bits of one number a row."""
    found = np.zeros(len(table.choice), dtype=np.int64)
    for place, axis in enumerate(AXES):
        found |= (np.asarray(getattr(table.degrees, axis)) > 1).astype(np.int64) << place
    return found


def usable_rows(space: Space, table: Table, sharing: Sharing) -> NDArray[np.bool_]:
    """Where a sharing is a plan of its own.

    One data rank shards nothing and exchanges nothing but experts; a copy spans fewer ranks than all.
    """
    data, ranks = np.asarray(table.degrees.data), sharing.shard_ranks
    if ranks:
        found = (data % ranks == 0) & ((data > ranks) | ("shard_ranks" in space.locked))
    else:
        found = (data > 1) | (sharing.sharding == space.allowed("sharding", SHARDINGS)[0])
    for name in ("ddp_mode", "overlap"):
        if getattr(sharing, name) != space.on_request(name)[0]:
            exchanged = data > 1
            if space.base.model.experts:
                exchanged = exchanged | (np.asarray(table.degrees.expert_data) > 1)
            found = found & exchanged
    return np.asarray(found)
