"""Splits of the LSTM's parts over many chips: which divide the model, and which is the softmax's fastest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from estimator.scenario.fitting import divisors
from estimator.studies.deepflow import lstm_step
from estimator.studies.deepflow.inputs import Inputs, rates_of, technology_of
from estimator.studies.deepflow.kernel_split import KernelSplit
from estimator.studies.deepflow.lstm import Lstm
from estimator.studies.deepflow.lstm_plan import PARTS, LstmPlan, replica
from estimator.studies.deepflow.lstm_price import Rates
from estimator.studies.deepflow.technology import machine

Layout = tuple[int, int, int, KernelSplit]
"""Replicas, stages of recurrent layers, 1 where the softmax has chips of its own, how a stage's products are cut."""


def layouts(chips: int, m: Lstm) -> Iterator[Layout]:
    """Yield every layout of all chips that divides the model."""
    for dp in divisors(chips):
        if dp > m.batch:
            continue
        rows = replica(m, dp).batch
        for hlp in divisors(chips // dp):
            if m.layers % hlp:
                continue
            for apart in (0, 1):
                if (chips // dp) % (hlp * (1 + apart)):
                    continue
                for hidden in splits_of(chips // dp // (hlp * (1 + apart))):
                    # The embedding is cut in the same way: batch, vocabulary, width.
                    inner = not 2 * m.hidden % hidden.inner and not m.vocab % hidden.inner
                    columns = not m.gates * m.hidden % hidden.columns and not m.hidden % hidden.columns
                    if inner and columns and not rows % hidden.rows:
                        yield dp, hlp, apart, hidden


@cache
def splits_of(degree: int) -> tuple[KernelSplit, ...]:
    """Every split over ``degree`` chips."""
    if degree == 1:
        return (KernelSplit(),)
    halves = (KernelSplit(kind="row-column", first=first, second=degree // first) for first in divisors(degree))
    return (KernelSplit(kind="column-row", first=degree, second=1), *halves)


def fastest_softmax(
    i: Inputs, m: Lstm, keys: Sequence[tuple[int, int, int]]
) -> dict[tuple[int, int, int], KernelSplit]:
    """Return the fastest split of the softmax, the first among equals, for replicas, degree and links of a chip.

    A key is left out where no split divides the softmax.
    """
    found: dict[tuple[int, int, int], tuple[float, KernelSplit]] = {}
    for kind in ("none", "column-row", "row-column"):
        listed = [
            (key, split)
            for key in keys
            for split in splits_of(key[1])
            if split.kind == kind and _divides(replica(m, key[0]), split)
        ]
        if not listed:
            continue
        own = replica(m, _column([key[0] for key, _ in listed]))
        rates = rates_by_links(i, np.array([key[2] for key, _ in listed]))
        forward, backward = lstm_step.softmax(own, rates, _joined([split for _, split in listed]), m.hidden)
        seconds = np.broadcast_to(np.asarray(forward.seconds + backward.seconds), (len(listed),))
        for (key, split), its_s in zip(listed, seconds.tolist(), strict=True):
            if key not in found or its_s < found[key][0]:
                found[key] = its_s, split
    return {key: split for key, (_, split) in found.items()}


def many(plans: Sequence[LstmPlan]) -> LstmPlan:
    """Write plans that cut each part in the same kind of way as one plan of arrays."""
    columns: dict[str, Any] = {name: _column([getattr(plan, name) for plan in plans]) for name in ("dp", "lp", "hlp")}
    columns |= {part: _joined([getattr(plan, part) for plan in plans]) for part in PARTS}
    return LstmPlan(**columns)


def rates_by_links(i: Inputs, links: Any) -> Rates:
    """Rates of chips whose link power is spread over as many links as the array says."""
    technology = technology_of(i)
    bandwidth = {int(n): machine(technology, int(n)).link_bytes_per_s for n in np.unique(links)}
    each = np.array([bandwidth[n] for n in links.tolist()], dtype=float)
    return replace(rates_of(i, machine(technology)), link_bytes_per_s=each)


def _divides(own: Lstm, split: KernelSplit) -> bool:
    rows = own.batch * own.sequence
    return not (rows % split.rows or own.hidden % split.inner or own.vocab % split.columns)


def _joined(splits: Sequence[KernelSplit]) -> KernelSplit:
    kind = splits[0].kind
    if kind == "none":
        return KernelSplit()
    return KernelSplit(
        kind=kind, first=_column([split.first for split in splits]), second=_column([split.second for split in splits])
    )


def _column(values: list[int]) -> Any:
    return np.array(values, dtype=float)
