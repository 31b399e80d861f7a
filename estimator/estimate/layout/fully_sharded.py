"""Fully sharded: every unit's parameters, gradients and states divided over ranks, as torch's ``fully_shard`` does it.

Each unit is gathered before its forward and again before its backward (``fsdp``), or once and kept (``zero3``); its
gradients are scattered after its backward. The root keeps what it gathered. Streams, copies and waits are those of
FSDP2 (torch.distributed.fsdp, _fsdp_param_group.py), so that such a list is priced as one that was traced of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from estimator.communication.data import data_messages
from estimator.communication.message import Message
from estimator.estimate.layout.rewrite import Rewrite, bytes_of
from estimator.estimate.layout.units import Shares, Units, alone, elements, units_of, width
from estimator.scenario.breakdown import MemoryKind, Phase
from estimator.scenario.op_list import NONE, Call, Operand, OpList, Signature, Storage, Weight
from estimator.scenario.precision import ByteWidths
from estimator.schedule.queue import DEFAULT_STREAM

OPS = {"all-gather": "c10d::_allgather_base_", "reduce-scatter": "c10d::_reduce_scatter_base_"}


def with_fully_sharded(ranks: int, *, reshard: bool = True, group: tuple[int, ...] = ()) -> Callable[[OpList], OpList]:
    """The step of one of ``ranks`` that share all states; ``reshard``: units are gathered again for their backward."""

    def of(found: OpList) -> OpList:
        if not group:
            alone(found, "plan.sharding")
        units = units_of(found, "plan.sharding")
        return found if ranks < 2 else _Sharding(units, ranks, reshard, group or tuple(range(ranks))).made()

    return of


@dataclass
class _Run:
    """A unit's calls that follow one another in forward or backward, from the first to before ``stop``."""

    unit: int
    phase: str
    first: int
    stop: int


@dataclass
class _Gathered:
    """What a unit holds while it is whole: memory that dies when it is given back."""

    collective: int = NONE
    buffer: int = NONE
    held: list[tuple[int, int]] = field(default_factory=list)


class _Sharding:
    """One list under way to its sharded form."""

    def __init__(self, units: Units, ranks: int, reshard: bool, group: tuple[int, ...]) -> None:
        found = units.found
        self.found, self.units, self.ranks, self.reshard, self.group = found, units, ranks, reshard, group
        self.out = Rewrite(found)
        base = len(found.streams)
        self.copies, self.gathers, self.scatters = base, base + 1, base + 2
        self.runs = _runs(units)
        self.whole: dict[int, _Gathered] = {}
        self.shares = Shares(found, lambda index: self._rows(found.weights[index]))
        self.last_backward = max(
            (at for at, call in enumerate(found.calls) if call.phase == Phase.BACKWARD), default=-1
        )
        self.split = NONE
        """The last unit that was laid out as tensors."""
        self.scattered = NONE
        self.gather_buffer: tuple[int, int] | None = None
        self.scatter_buffer: tuple[int, int] | None = None
        """Bytes and births of the buffers that the last gather of forward and the last scatter still hold."""
        self.gone: dict[int, list[int]] = {}
        """Indices from which each unit's own gradients are gone."""

    def made(self) -> OpList:
        """Write the list."""
        starts = {run.first: run for run in self.runs}
        stops = {run.stop - 1: run for run in self.runs}
        after = {one.first: two for one, two in zip(self.runs, self.runs[1:], strict=False)}
        passes = _passes(self.runs, self.found)
        for index, call in enumerate(self.found.calls):
            run = starts.get(index)
            if index in passes.forward:
                self._gather(0, call)
                self._unshard(0, call)
            if index in passes.ahead:
                self._gather(passes.ahead[index].unit, call)
            if run is not None and run.phase == Phase.FORWARD:
                self._gather(run.unit, call)
                self._unshard(run.unit, call)
            elif run is not None:
                self._unshard(run.unit, call)
                following = after.get(index)
                if following is not None and following.phase == Phase.BACKWARD:
                    self._gather(following.unit, call)
            self._take(index, call)
            run = stops.get(index)
            if run is not None and run.phase == Phase.FORWARD and self.reshard:
                self._release(run.unit)
            elif run is not None and run.phase == Phase.BACKWARD:
                self._scatter(run.unit, call)
            if index in passes.forward_ends and self.split != NONE:
                self.out.wait(self.copies, self.split, Phase.FORWARD)
                self.out.wait(self.gathers, self.split, Phase.FORWARD)
                self._free_gathered(len(self.out.calls))
            if index in passes.backward:
                self._scatter(0, call)
                self.out.wait(DEFAULT_STREAM, self.scattered, Phase.BACKWARD)
                self._free_scattered(len(self.out.calls))
        return self._finish()

    # what a unit does

    def _message(self, unit: int, kind: str, phase: str) -> Message | None:
        """The message of the closed form for one unit alone, None where it has nothing to send."""
        weights = [one for one in self.units.weights(unit) if one.trains or kind == "all-gather"]
        used, kept = float(width(self.units.used)), float(width(self.units.kept))
        widths = ByteWidths(
            compute=used, residual=used, parameter=kept, gradient=kept, optimizer=2 * kept, autocast=False, peak="",
            linear=used, linear_peak="",
        )  # fmt: skip
        messages = data_messages(
            sharding="fsdp" if self.reshard and unit else "zero3",
            numbers=widths,
            parameters=float(sum(map(elements, weights))),
            layers=1.0,
            tensors=float(len(weights)),
            micro_batches=1.0,
            bucket_bytes=1.0,
            shard_ranks=self.ranks,
        )
        return next((one for one in messages if weights and (one.kind, one.phase) == (kind, phase)), None)

    def _gather(self, unit: int, call: Call) -> None:
        """Send for a unit's parameters, on streams of their own."""
        if unit in self.whole:
            return
        phase = Phase.BACKWARD if call.phase == Phase.BACKWARD else Phase.FORWARD
        message = self._message(unit, "all-gather", phase)
        if message is None:
            return
        used, weights = self.units.used, self.units.weights(unit)
        parts = tuple(Operand(shape=(self._part(one),), dtype=used) for one in weights)
        part = Operand(shape=(sum(one.shape[0] for one in parts),), dtype=used)
        whole = Operand(shape=(int(message.payload_bytes) // width(used),), dtype=used)
        now = replace(call, kind="kernel", stream=self.copies, dispatches=3, recomputed=False, waits_for=NONE,
                      measured_s=None, compiled=False, dtensor=0)  # fmt: skip
        cast = NONE
        if used != self.units.kept:
            given = tuple(replace(one, dtype=self.units.kept) for one in parts)
            cast = self.out.add(now, Signature(op="aten::_foreach_copy_", inputs=(*parts, *given)))
        laid = Signature(op="fsdp::all_gather_copy_in", inputs=(*parts, whole), outputs=(part, whole))
        copied = self.out.add(replace(now, dispatches=2), laid)
        self.out.wait(self.gathers, copied, phase)
        signature = Signature(
            op=OPS[message.kind], inputs=(part,), outputs=(whole,), arguments={"group": len(self.found.groups)}
        )
        sent = self.out.add(replace(now, kind="collective", stream=self.gathers, dispatches=1), signature)
        self.whole[unit] = _Gathered(collective=sent, buffer=copied)
        if cast != NONE:
            self.out.hold(bytes_of(part), MemoryKind.TEMPORARIES, cast, sent + 2)

    def _unshard(self, unit: int, call: Call) -> None:
        """Wait for a unit's parameters and lay them out as tensors."""
        state = self.whole.get(unit)
        if state is None or state.held:
            return
        backward = call.phase == Phase.BACKWARD
        phase = Phase.BACKWARD if backward else Phase.FORWARD
        before = self.split
        if not backward and before != NONE:
            self.out.wait(self.copies, before, phase)
            self.out.wait(self.gathers, before, phase)
        self.out.wait(DEFAULT_STREAM, state.collective, phase)
        used, weights = self.units.used, self.units.weights(unit)
        shards = tuple(Operand(shape=(self.ranks, self._part(one)), dtype=used) for one in weights)
        rows = Operand(shape=(self.ranks, sum(one.shape[1] for one in shards)), dtype=used)
        now = replace(call, kind="kernel", stream=DEFAULT_STREAM, dispatches=len(weights) + 2, recomputed=False,
                      waits_for=NONE, measured_s=None, compiled=False, dtensor=0)  # fmt: skip
        self.split = self.out.add(now, Signature(op="fsdp::split_with_sizes_copy", inputs=(rows, *shards)))
        state.held = [(elements(one) * width(used), self.split) for one in weights]
        buffer = bytes_of(rows)
        if backward:
            self.out.wait(self.copies, self.split, phase)
            self.out.wait(self.gathers, self.split, phase)
            self.out.hold(buffer, MemoryKind.COMMUNICATION, state.buffer, self.split + 3)
        else:
            # Kept until the next unit is laid out: its copy may still read it.
            self._free_gathered(self.split + 1)
            self.gather_buffer = (buffer, state.buffer)

    def _free_gathered(self, died: int) -> None:
        if self.gather_buffer is not None:
            size, born = self.gather_buffer
            self.out.hold(size, MemoryKind.COMMUNICATION, born, died)
            self.gather_buffer = None

    def _release(self, unit: int) -> None:
        """Give a unit's whole parameters back."""
        state = self.whole.pop(unit, None)
        for size, born in state.held if state else []:
            self.out.hold(size, MemoryKind.COMMUNICATION, born, len(self.out.calls))

    def _scatter(self, unit: int, call: Call) -> None:
        """Lay a unit's gradients side by side and send every rank its part; what was whole is given back."""
        message = self._message(unit, "reduce-scatter", Phase.BACKWARD)
        if message is not None:
            weights = [one for one in self.units.weights(unit) if one.trains]
            used, kept = self.units.used, self.units.kept
            if self.scattered != NONE:
                self.out.wait(DEFAULT_STREAM, self.scattered, Phase.BACKWARD)
            given = tuple(Operand(shape=one.shape, dtype=used) for one in weights)
            whole = Operand(shape=(int(message.payload_bytes) // width(kept),), dtype=kept)
            part = Operand(shape=(sum(map(self._part, weights)),), dtype=kept)
            rows = Operand(shape=(self.ranks, part.shape[0]), dtype=kept)
            now = replace(call, kind="kernel", phase=Phase.BACKWARD, stream=DEFAULT_STREAM, dispatches=3,
                          recomputed=False, waits_for=NONE, measured_s=None, compiled=False, dtensor=0)  # fmt: skip
            catted = self.out.add(now, Signature(op="fsdp::chunk_cat", inputs=(*given, rows)))
            self._free_scattered(catted)
            self.scatter_buffer = (bytes_of(rows), catted)
            self.out.wait(self.scatters, catted, Phase.BACKWARD)
            signature = Signature(
                op=OPS[message.kind], inputs=(whole,), outputs=(part,), arguments={"group": len(self.found.groups)}
            )
            self.scattered = self.out.add(
                replace(now, kind="collective", stream=self.scatters, dispatches=2), signature
            )  # fmt: skip
            if unit not in self.gone:
                self.out.hold(bytes_of(part), MemoryKind.GRADIENTS, self.scattered)
            self.gone.setdefault(unit, []).append(catted + 1)
        self._release(unit)

    def _free_scattered(self, died: int) -> None:
        if self.scatter_buffer is not None:
            size, born = self.scatter_buffer
            self.out.hold(size, MemoryKind.COMMUNICATION, born, died)
            self.scatter_buffer = None

    # what stays

    def _take(self, index: int, call: Call) -> None:
        """Take a call over: parameters come cast already; what comes after backward works on parts alone."""
        if self.units.is_cast(call):
            self.out.drop()
        elif call.kind == "kernel" and index > self.last_backward:
            s = self.found.of(call)
            shrunk = self.shares.of(s) or s
            self.out.keep(shrunk, **({"dtensor": 1} if call.phase == Phase.OPTIMIZER and shrunk != s else {}))
        else:
            self.out.keep()

    def _rows(self, one: Weight) -> tuple[int, ...]:
        """A parameter's shape on one rank: its part of the rows; the last ranks may have fewer."""
        return (-(-one.shape[0] // self.ranks), *one.shape[1:]) if one.shape else ()

    def _part(self, one: Weight) -> int:
        """Elements of a parameter on one rank."""
        return math.prod(self._rows(one))

    def _finish(self) -> OpList:
        storages = [kept for one in self.found.storages for kept in self._storage(one)]
        words = (
            f"{self.ranks} ranks share parameters, gradients and optimizer state by"
            f" {len(self.units.names) - 1} modules and what is outside of them, as fully_shard does"
            + (
                f"; parameters travel in {self.units.used}, autocast stays as it is."
                if self.units.used != self.units.kept
                else "."
            )
        )
        return self.out.finish(
            storages, words,
            streams=(*self.found.streams, "copies of parameters", "all-gather", "reduce-scatter"),
            groups=(*self.found.groups, self.group),
            world_size=self.found.world_size * self.ranks,
        )  # fmt: skip

    def _storage(self, one: Storage) -> list[Storage]:
        weight = self.found.weights[one.weight] if one.weight != NONE else None
        if weight is None:
            if one.born != NONE and self.units.is_cast(self.found.calls[one.born]):
                return []
            left = self.out.resized(one)
            return [left] if left is not None else []
        if one.kind == MemoryKind.GRADIENTS and one.born != NONE and weight.trains:
            unit = self.units.of_weight[one.weight]
            size = elements(weight) * width(self.units.used)
            until = next((at for at in self.gone.get(unit, []) if at > self.out.now(one.born)), NONE)
            return [replace(self.out.moved(one), bytes=size, died=until, kind=MemoryKind.TEMPORARIES, weight=NONE)]
        each, rest = divmod(one.bytes, max(elements(weight), 1))
        return [self.out.moved(one) if rest or not each else self.out.moved(one, bytes=each * self._part(weight))]


@dataclass(frozen=True)
class _Passes:
    """First and last calls of the model in each forward; where backward sends for its first unit; its last calls."""

    forward: frozenset[int]
    forward_ends: frozenset[int]
    ahead: dict[int, _Run]
    backward: frozenset[int]


def _runs(units: Units) -> list[_Run]:
    """The units' calls as runs, in order; what the root does in between belongs to no run."""
    found: list[_Run] = []
    for index, call in enumerate(units.found.calls):
        unit = units.of(call)
        if not unit or call.phase not in (Phase.FORWARD, Phase.BACKWARD) or call.kind == "wait":
            continue
        if found and (found[-1].unit, found[-1].phase) == (unit, call.phase):
            found[-1].stop = index + 1
        else:
            found.append(_Run(unit, call.phase, index, index + 1))
    return found


def _passes(runs: list[_Run], found: OpList) -> _Passes:
    forward, ends, backward, ahead = set[int](), set[int](), set[int](), dict[int, _Run]()
    before, last, inside = "", NONE, NONE
    for index, call in enumerate(found.calls):
        if call.phase not in (Phase.FORWARD, Phase.BACKWARD) or call.kind == "wait":
            continue
        if call.phase == Phase.FORWARD and before != Phase.FORWARD:
            forward.add(index)
            if last != NONE:
                backward.add(last)
        if call.phase == Phase.BACKWARD:
            last = index
            if before == Phase.FORWARD:
                ends.add(inside)
        elif call.module != NONE:
            inside = index
        before = call.phase
    if last != NONE:
        backward.add(last)
    for run, earlier in zip(runs, [None, *runs], strict=False):
        if run.phase == Phase.BACKWARD and (earlier is None or earlier.phase == Phase.FORWARD):
            begin = earlier.stop if earlier else 0
            first = next(
                i for i in range(begin, run.first + 1)
                if found.calls[i].phase == Phase.BACKWARD and (found.calls[i].module != NONE or i == run.first)
            )  # fmt: skip
            ahead[first] = run
    return _Passes(frozenset(forward), frozenset(ends - {NONE}), ahead, frozenset(backward))
