"""Queue: the host launches a step's calls in their order, streams work them off, and each waits for the others.

A call ends at max(end of the one before it on its stream, its launch, what its stream waits for) + its own time. Over a
run of kernels of one stream that is a sum and a running maximum, so whole runs are taken at once; and every time may be
an array of variants, which an interval prices together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimator.scenario.op_list import CALLS, NONE, Call

Floats = NDArray[np.float64]

DEFAULT_STREAM = 0
"""The stream on which a step computes: what runs beside it is hidden, until it waits."""

KERNEL, COLLECTIVE, WAIT, SYNC = range(4)
_CODES = {name: index for index, name in enumerate(CALLS)}
assert tuple(_CODES) == ("kernel", "collective", "wait", "sync")


@dataclass(frozen=True, kw_only=True)
class Order:
    """The calls of a list as columns, and where its runs begin; worked out once for any times.

    ``starts``: first calls of runs of kernels on one stream and in one phase, none of them awaited but the last;
    every other call is a run of its own.
    """

    kind: NDArray[np.int8]
    stream: NDArray[np.int32]
    phase: NDArray[np.int16]
    waits_for: NDArray[np.int64]
    starts: NDArray[np.int64]
    exchanging: frozenset[int]
    """Streams that carry collectives."""


@dataclass(frozen=True, kw_only=True)
class Times:
    """Seconds of every call, (variants, calls): ``device`` its kernels or its exchange, ``gap`` idle between kernels,
    ``host`` until it is launched. ``products_frac``: share of a call's time in matrix products, (calls,);
    ``contention_frac`` as in cost/collectives, (variants,). ``last_s``: what the host does after the last call."""

    device: Floats
    gap: Floats
    host: Floats
    products_frac: Floats
    contention_frac: Floats
    last_s: Floats


@dataclass(kw_only=True)
class Queue:
    """How a step passes; every value (variants,): ``seconds`` = busy + waits + exposed + beside.

    ``busy_s``: kernels of the default stream. ``waits_s``: that stream idle for the host or between kernels, by index
    of the phase. ``exposed_s``: idle for, or slowed by, a collective and the copies of its stream, by the call's index.
    ``beside_s``: idle for kernels of another stream, by the index of the awaited one. ``streams_s``: every stream's own
    kernels and exchanges. ``ends_s``: when the last call of each run ended, in the first variant.
    """

    seconds: Floats
    busy_s: Floats
    waits_s: dict[int, Floats]
    exposed_s: dict[int, Floats]
    beside_s: dict[int, Floats]
    streams_s: dict[int, Floats]
    ends_s: list[float]


def order_of(calls: Sequence[Call], phases: Sequence[str]) -> Order:
    """Lay a list's calls out; ``phases``: the phase that each counts to."""
    count = len(calls)
    names = {name: index for index, name in enumerate(dict.fromkeys(phases))}
    kind = np.fromiter((_CODES[call.kind] for call in calls), np.int8, count)
    stream = np.fromiter((call.stream for call in calls), np.int32, count)
    phase = np.fromiter((names[name] for name in phases), np.int16, count)
    waits_for = np.fromiter((call.waits_for for call in calls), np.int64, count)
    first = np.ones(count, dtype=bool)
    if count:
        same = (kind[1:] == KERNEL) & (kind[:-1] == KERNEL) & (stream[1:] == stream[:-1]) & (phase[1:] == phase[:-1])
        first[1:] = ~same
        awaited = waits_for[(waits_for != NONE) & ((kind == WAIT) | (kind == SYNC))]
        first[np.minimum(awaited + 1, count - 1)] |= awaited + 1 < count
    return Order(
        kind=kind,
        stream=stream,
        phase=phase,
        waits_for=waits_for,
        starts=np.flatnonzero(first),
        exchanging=frozenset(stream[kind == COLLECTIVE].tolist()),
    )


STEPS_BEFORE = 2
"""Steps after which the host has the lead over the device that it keeps from step to step."""


def queued(order: Order, times: Times, *, follows_on: bool = False) -> Queue:
    """Let host and streams work the calls off; the host starts with the device, as after reading a loss.

    ``follows_on``: it starts when it is done with the step before, while the device still works that off.
    """
    clock = _started(order, times, follows_on=follows_on)
    clock.take_all()
    return clock.close(follows_on=follows_on)


def _started(order: Order, times: Times, *, follows_on: bool) -> _Clock:
    lead = None
    for _ in range(STEPS_BEFORE if follows_on and len(order.kind) else 0):
        before = _Clock(order, times, lead)
        before.take_all()
        lead = before.done() + times.last_s - before.ended()
    return _Clock(order, times, lead)


@dataclass(frozen=True, kw_only=True)
class Moments:
    """When each call of a step runs, in seconds of its first variant, (calls,): on its stream from ``begins_s`` to
    ``ends_s``, and on the host, which launches it, from ``called_s`` to ``launched_s``."""

    begins_s: Floats
    ends_s: Floats
    called_s: Floats
    launched_s: Floats


def moments(order: Order, times: Times, *, follows_on: bool = False) -> Moments:
    """Take a step apart as :func:`queued` puts it together: in a run a kernel ends at

    max over those up to it (launch + all kernels from there on to it), no earlier than its stream was free.
    """
    clock = _started(order, times, follows_on=follows_on)
    count = len(order.kind)
    begins_s, ends_s, launched_s = (np.zeros(count) for _ in range(3))
    for run, (begin, end) in enumerate(zip(clock.starts, clock.stops, strict=True)):
        stream = int(order.stream[begin])
        held = clock.ready.get(stream)
        free_s = max(float(clock.free.get(stream, clock.zero)[0]), float(held[0][0]) if held else 0.0)
        own, lead_s = slice(begin, end), float(clock.lead[0])
        clock.take(run)
        done_s = float(clock.ends[end - 1][0])
        launched_s[own] = clock.host[0, own] + lead_s
        if order.kind[begin] in (SYNC, WAIT):
            begins_s[own] = ends_s[own] = done_s
            continue
        spent = clock.spent[0, own]
        length = clock.length[0, own]
        before = spent[0] - length[0]
        launched = np.maximum.accumulate(launched_s[own] - (spent - length))
        ends_s[own] = spent + np.maximum(launched, free_s - before)
        begins_s[own] = ends_s[own] - times.device[0, own]
        ends_s[end - 1] = done_s
    called_s = launched_s - times.host[0]
    if follows_on:  # what was launched while the step before lasted stands at the beginning
        called_s, launched_s = np.maximum(called_s, 0.0), np.maximum(launched_s, 0.0)
    return Moments(begins_s=begins_s, ends_s=ends_s, called_s=called_s, launched_s=launched_s)


REMEMBERED = 256
"""Runs of the default stream that a later collective may still fall beside."""


class _Clock:
    """Where host and streams stand while runs are taken in their order."""

    def __init__(self, order: Order, times: Times, lead: Floats | None = None) -> None:
        self.order, self.times = order, times
        variants, count = times.device.shape
        self.zero = np.zeros(variants)
        self.length = times.device + times.gap
        self.spent = np.cumsum(self.length, axis=1)
        self.busy = np.cumsum(times.device, axis=1)
        self.host = np.cumsum(times.host, axis=1)
        self.products = np.cumsum(times.device[0] * times.products_frac)
        self.starts = order.starts.tolist()
        self.stops = [*self.starts[1:], count]
        # A run ends no earlier than any of its launches and all its kernels from there on.
        late = self.host - self.spent + self.length
        self.late = np.maximum.reduceat(late, order.starts, axis=1) if count else late
        self.lead = self.zero if lead is None else lead
        self.free: dict[int, Floats] = {}
        self.ready: dict[int, tuple[Floats, int]] = {}
        self.ends: dict[int, Floats] = {}
        self.flying: list[tuple[Floats, Floats, int]] = []
        self.recent: list[tuple[Floats, Floats, float]] = []
        self.phase = 0
        self.found = Queue(
            seconds=self.zero, busy_s=self.zero, waits_s={}, exposed_s={}, beside_s={}, streams_s={}, ends_s=[]
        )

    def take_all(self) -> None:
        """Work all runs off."""
        for run in range(len(self.starts)):
            self.take(run)

    def done(self) -> Floats:
        """When the host is done with its calls."""
        return self.host[:, -1] + self.lead

    def ended(self) -> Floats:
        """When the last stream is done."""
        latest: Floats = np.maximum.reduce([self.zero, *self.free.values()])
        return latest

    def take(self, run: int) -> None:
        """Work one run off."""
        begin, end = self.starts[run], self.stops[run]
        kind, stream = int(self.order.kind[begin]), int(self.order.stream[begin])
        self.phase = int(self.order.phase[begin])
        if kind == SYNC:
            done = self._sync(begin)
        elif kind == WAIT:
            done = self._wait(begin, stream)
        else:
            done = self._work(begin, end, run, kind, stream)
        self.ends[end - 1] = done
        # Of the step before, which the host had left behind, nothing is of this one.
        self.found.ends_s.append(max(float(done[0]), 0.0))

    def _sync(self, index: int) -> Floats:
        target = int(self.order.waits_for[index])
        now = self.host[:, index] + self.lead
        ends = [self.ends[target]] if target != NONE else list(self.free.values())
        for one in ends:
            self.lead = self.lead + np.maximum(one - now, 0.0)
            now = np.maximum(now, one)
        return now

    def _wait(self, index: int, stream: int) -> Floats:
        target = int(self.order.waits_for[index])
        held = self.ready.get(stream)
        if target != NONE:
            until = self.ends[target]
            if held is None or bool(np.any(until > held[0])):
                held = (until if held is None else np.maximum(held[0], until), target)
                self.ready[stream] = held
        free = self.free.get(stream, self.zero)
        return free if held is None else np.maximum(free, held[0])

    def _work(self, begin: int, end: int, run: int, kind: int, stream: int) -> Floats:
        before = self.spent[:, begin] - self.length[:, begin]
        length = self.spent[:, end - 1] - before
        free = self.free.get(stream, self.zero)
        start = np.maximum(free, self.lead + self.late[:, run] + before)
        held = self.ready.pop(stream, None)
        delayed = self.zero if held is None else np.maximum(held[0] - start, 0.0)
        stop = start + delayed + length
        found = self.found
        found.streams_s[stream] = found.streams_s.get(stream, self.zero) + length
        if stream == DEFAULT_STREAM:
            if held is not None:
                self._owe(held[1], delayed)
            if kind == COLLECTIVE:
                self._idle(start - free)
                self._owe(begin, length)
            else:
                worked = self.busy[:, end - 1] - self.busy[:, begin] + self.times.device[:, begin]
                self._idle(start + length - free - worked)
                found.busy_s = found.busy_s + worked
                stop = self._slowed(begin, end, worked, stop - length, stop)
        elif kind == COLLECTIVE:
            self._beside(begin, stop - length, stop)
        self.free[stream] = stop
        return stop

    def _slowed(self, begin: int, end: int, worked: Floats, start: Floats, stop: Floats) -> Floats:
        """Lengthen a run by what its products lose to the collectives beside it."""
        first = self.products[begin] - self.times.device[0, begin] * self.times.products_frac[begin]
        made = float(self.products[end - 1] - first)
        share = made / float(worked[0]) if worked[0] > 0 else 0.0
        for from_s, to_s, index in self.flying:
            lost = self.times.contention_frac * share * _overlap(from_s, to_s, start, stop)
            self._owe(index, lost)
            stop = stop + lost
        self.flying = [one for one in self.flying if bool(np.any(one[1] > stop))]
        self.recent.append((start, stop, share))
        del self.recent[:-REMEMBERED]
        return stop

    def _beside(self, index: int, start: Floats, stop: Floats) -> None:
        """Take up a collective, and what it costs runs that were taken before it."""
        self.flying.append((start, stop, index))
        for from_s, to_s, share in reversed(self.recent):
            if not bool(np.any(to_s > start)):
                break
            lost = self.times.contention_frac * share * _overlap(from_s, to_s, start, stop)
            self.free[DEFAULT_STREAM] = self.free[DEFAULT_STREAM] + lost
            self._owe(index, lost)

    def _idle(self, seconds: Floats) -> None:
        waits = self.found.waits_s
        waits[self.phase] = waits.get(self.phase, self.zero) + seconds

    def _owe(self, index: int, seconds: Floats) -> None:
        """Book what the default stream lost to an earlier call."""
        order = self.order
        while order.kind[index] == WAIT and order.waits_for[index] != NONE:
            index = int(order.waits_for[index])
        exchanges = order.kind[index] == COLLECTIVE or int(order.stream[index]) in order.exchanging
        book = self.found.exposed_s if exchanges else self.found.beside_s
        book[index] = book.get(index, self.zero) + seconds

    def close(self, *, follows_on: bool = False) -> Queue:
        """End the step when every stream and the host are done; what lasts beyond the default stream is its loss.

        Where the next follows on, the host's end is none of the step.
        """
        order, found = self.order, self.found
        now = self.free.get(DEFAULT_STREAM, self.zero)
        last_on = {
            int(order.stream[begin]): begin for begin in self.starts if order.kind[begin] in (KERNEL, COLLECTIVE)
        }
        for stream, stop in self.free.items():
            if stream != DEFAULT_STREAM:
                self._owe(last_on[stream], np.maximum(stop - now, 0.0))
                now = np.maximum(now, stop)
        if len(order.kind) and not follows_on:
            done = self.done()
            self._idle(np.maximum(done - now, 0.0) + self.times.last_s)
            now = np.maximum(now, done) + self.times.last_s
        found.seconds = now
        return found


def _overlap(start: Floats, stop: Floats, other_start: Floats, other_stop: Floats) -> Floats:
    shared: Floats = np.clip(np.minimum(stop, other_stop) - np.maximum(start, other_start), 0.0, None)
    return shared
