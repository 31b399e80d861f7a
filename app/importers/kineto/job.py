"""Job: the traces of several ranks of one job as one measurement, with what only they together can tell.

Ranks leave a collective together, so the one that came last was in its kernel the shortest: that is the transfer, and
what another rank's kernel took beyond it was waiting. No clock needs to be shared for that.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.importers.bandwidth import bus_factor
from app.importers.imported import Imported
from app.importers.kineto import RankTrace
from app.importers.kineto.collectives import Message
from estimator.scenario.breakdown import WORK_PHASES, Phase
from estimator.scenario.measurement import MeasuredCollective, Measurement, Warning, step_time_s

_MILD_SKEW_FRAC = 0.05


@dataclass(frozen=True, kw_only=True)
class Call:
    """One collective of one step: seconds of its kernel by rank."""

    message: Message
    seconds: dict[int, float]

    @property
    def transfer_s(self) -> float:
        """Time of the rank that came last."""
        return min(self.seconds.values())

    @property
    def last(self) -> int:
        """The rank that all others waited for."""
        return min(self.seconds, key=lambda rank: self.seconds[rank])


def joined(traces: Sequence[RankTrace], label: str) -> Imported:
    """Join the traces of different ranks of one job; steps are those that all of them have, by their number."""
    by_rank = {trace.imported.measurements[0].rank: trace for trace in traces}
    first = {rank: trace.imported.measurements[0] for rank, trace in sorted(by_rank.items())}
    common = [
        name for name in next(iter(by_rank.values())).step_s if all(name in one.step_s for one in by_rank.values())
    ]
    calls = [call for name in common for call in _calls({rank: one.messages[name] for rank, one in by_rank.items()})]
    steps_s = tuple(max(one.step_s[name] for one in by_rank.values()) for name in common)
    slowest = max(first, key=lambda rank: step_time_s(first[rank].steps_s) or 0.0)
    rows = [_row(rank, by_rank[rank], calls, len(common)) for rank in first]
    world = max(max(one.world_size for one in first.values()), len(first))
    said = [Warning(code=w.code, message=f"rank {rank}: {w.message}", where=w.where)
            for rank, one in first.items() for w in one.warnings if w.code != "collective-includes-wait"]  # fmt: skip
    said = _notes(first, world, common, rows) + said
    measurement = replace(
        first[slowest],
        label=label,
        world_size=world,
        rank=slowest,
        steps_s=steps_s or first[slowest].steps_s,
        rows=(*rows, *_collective_rows(calls, len(common))),
        collectives=_measured(calls) or first[slowest].collectives,
        warnings=tuple(said),
    )
    lists = by_rank[slowest].imported.op_lists
    skipped = sum(trace.imported.skipped for trace in traces)
    return Imported(measurements=(measurement,), warnings=tuple(said), skipped=skipped, op_lists=lists)


def _calls(messages: Mapping[int, Sequence[Message]]) -> list[Call]:
    """Match the n-th collective of a kind, size and group on every rank of that group."""
    found: dict[tuple[Any, ...], dict[int, float]] = defaultdict(dict)
    described: dict[tuple[Any, ...], Message] = {}
    for rank, some in messages.items():
        seen: dict[tuple[Any, ...], int] = defaultdict(int)
        for one in some:
            what = (one.kind, one.bytes, one.ranks, one.members)
            key = (*what, seen[what])
            seen[what] += 1
            found[key][rank] = one.seconds
            described[key] = one
    return [Call(message=described[key], seconds=seconds) for key, seconds in found.items() if len(seconds) > 1]


def _row(rank: int, trace: RankTrace, calls: Sequence[Call], steps: int) -> dict[str, Any]:
    own = trace.imported.measurements[0]
    mine = [call for call in calls if rank in call.seconds]
    row: dict[str, Any] = {
        "rank": rank,
        "step_s": step_time_s(own.steps_s),
        "compute_s": sum(own.phases_s.get(phase, 0.0) for phase in WORK_PHASES),
        "communication_s": trace.communication_s,
        "exposed_communication_s": own.phases_s.get(Phase.EXPOSED_COMMUNICATION, 0.0),
        "host_wait_s": own.phases_s.get(Phase.HOST_WAIT, 0.0),
    }
    if steps:
        row["transfer_s"] = sum(call.transfer_s for call in mine) / steps
        row["waiting_s"] = sum(call.seconds[rank] - call.transfer_s for call in mine) / steps
        row["came_last"] = sum(call.last == rank for call in mine)
    if own.memory.peak_bytes is not None:
        row["peak_bytes"] = own.memory.peak_bytes
    return row


def _grouped(calls: Sequence[Call]) -> dict[tuple[str, float, int], list[Call]]:
    groups: dict[tuple[str, float, int], list[Call]] = defaultdict(list)
    for call in calls:
        groups[call.message.kind, call.message.bytes, call.message.ranks or len(call.seconds)].append(call)
    return groups


def _collective_rows(calls: Sequence[Call], steps: int) -> list[dict[str, Any]]:
    rows = []
    for (kind, size, ranks), some in _grouped(calls).items():
        waits = [seconds - call.transfer_s for call in some for seconds in call.seconds.values()]
        skews = [max(call.seconds.values()) - call.transfer_s for call in some]
        row = {"kind": kind, "ranks": ranks, "calls_per_step": len(some) / steps}
        if size:
            row["size_bytes"] = size
        rows.append({
            **row,
            "transfer_s": statistics.median(call.transfer_s for call in some),
            "mean_waiting_s": statistics.fmean(waits),
            "mean_skew_s": statistics.fmean(skews),
            "max_skew_s": max(skews),
        })  # fmt: skip
    return sorted(rows, key=lambda row: -row["transfer_s"] * row["calls_per_step"])


def _measured(calls: Sequence[Call]) -> tuple[MeasuredCollective, ...]:
    found = []
    for (kind, size, ranks), some in _grouped(calls).items():
        seconds = statistics.median(call.transfer_s for call in some)
        if size and kind and seconds > 0:
            rate = size / seconds
            found.append(
                MeasuredCollective(
                    kind=kind,
                    bytes=size,
                    ranks=ranks,
                    seconds=seconds,
                    algorithm_bytes_per_s=rate,
                    bus_bytes_per_s=rate * bus_factor(kind, ranks),
                )
            )
    return tuple(found)


def _notes(
    first: Mapping[int, Measurement], world: int, common: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> list[Warning]:
    found = []
    if len(first) < world:
        message = f"Traces of {len(first)} of {world} ranks are here; who waited for the others cannot be seen"
        found.append(Warning(code="ranks-missing", message=message))
    if not common:
        message = "No step is in the traces of all ranks, so collectives could not be matched"
        found.append(Warning(code="no-common-step", message=message))
        return found
    waiting = {row["rank"]: row["waiting_s"] for row in rows}
    step_s = max(row["step_s"] or 0.0 for row in rows)
    late = min(waiting, key=lambda rank: waiting[rank])
    skew_s = max(waiting.values()) - waiting[late]
    if step_s and skew_s > _MILD_SKEW_FRAC * step_s:
        message = (
            f"Rank {late} is the straggler: in each step others wait up to {skew_s * 1e3:.3g} ms longer in collectives "
            f"than it does, {skew_s / step_s:.0%} of the step"
        )
        found.append(Warning(code="straggler", message=message))
    return found
