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
    """Yield rows and their chunks by schedule; a pipeline of one stage apart, because it has one kind of stage."""
    found: dict[tuple[str, bool], tuple[list[int], list[int]]] = {}
    pairs = np.stack([np.asarray(table.degrees.pp), np.asarray(table.micro_batches)], axis=1)
    distinct, which = np.unique(pairs, axis=0, return_inverse=True)
    legal = [space.stagings(int(pp), int(m)) for pp, m in distinct]
    rows_of = [np.flatnonzero(which == i) for i in range(len(distinct))]
    for (pp, _), listed, rows in zip(distinct, legal, rows_of, strict=True):
        for schedule, virtual in listed:
            entry = found.setdefault((schedule, pp == 1), ([], []))
            entry[0].extend(rows.tolist())
            entry[1].extend([virtual] * len(rows))
    for (schedule, _), (rows_list, chunks) in found.items():
        yield schedule, np.array(rows_list, dtype=np.int64), np.array(chunks, dtype=np.int64)


def distinct(space: Space, table: Table, placement: str) -> NDArray[np.bool_]:
    """Where a placement stands for all that differ only in where axes of degree 1 come."""
    if "placement" in space.locked:
        return np.ones(len(table.choice), dtype=bool)
    degrees = np.stack([np.asarray(getattr(table.degrees, axis)) for axis in AXES], axis=1)
    kinds, which = np.unique(degrees == 1, axis=0, return_inverse=True)
    legal = [
        canonical(placement, {axis: 1 if one else 2 for axis, one in zip(AXES, row, strict=True)}) for row in kinds
    ]
    return np.array(legal)[which]


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
