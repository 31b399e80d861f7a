"""Simulation: every rank runs its order as early as inputs and messages allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from estimator.schedule.micro_batch import StageTimes
from estimator.schedule.simulation.orders import OrderedWork, schedule_named


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatedWork:
    """One piece of work on one rank; ``kind`` is F, B or W (B with W inside where the schedule does not part them)."""

    rank: int
    chunk: int
    micro_batch: int
    kind: str
    start_s: float
    end_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Simulated:
    """One step: events by start, its length, and per rank the seconds without work and the most micro-batches held."""

    events: tuple[SimulatedWork, ...]
    total_s: float
    idle_s: tuple[float, ...]
    in_flight: tuple[float, ...]


def simulate(
    schedule: str,
    ranks: Sequence[StageTimes],
    *,
    micro_batches: int,
    virtual_stages: int = 1,
    send_s: float = 0.0,
) -> Simulated:
    """Run one step of a schedule over ranks of given seconds per micro-batch, split evenly over their chunks.

    A message takes ``send_s``: beside the work where the schedule overlaps, else the sender waits until it is through.
    Activations are held from F to the end of the last of B and W, in micro-batches of the whole rank.
    """
    shape = schedule_named(schedule, virtual_stages)
    stages, chunks = len(ranks), 2 if shape.folded else virtual_stages
    orders = [shape.order(rank, stages, micro_batches, chunks) for rank in range(stages)]
    seconds = [_seconds(times, chunks, split=shape.split) for times in ranks]
    # The model's chunks in the order in which a micro-batch meets them; a rank's chunk stands at a position.
    path = [shape.position(rank, chunk, stages) for rank in range(stages) for chunk in range(chunks)]
    home = {position: index // chunks for index, position in enumerate(path)}
    free_at, next_of = [0.0] * stages, [0] * stages
    arrived_at: dict[tuple[str, int, int], float] = {}
    events: list[SimulatedWork] = []
    moved = True
    while moved:
        moved = False
        for rank, order in enumerate(orders):
            while next_of[rank] < len(order):
                work = order[next_of[rank]]
                at = shape.position(rank, work.chunk, stages)
                ready = _ready_s(work, at, len(path) - 1, arrived_at)
                if ready is None:
                    break
                start = max(free_at[rank], ready)
                end = start + seconds[rank][work.kind]
                events.append(SimulatedWork(rank=rank, chunk=work.chunk, micro_batch=work.micro_batch, kind=work.kind,
                                    start_s=start, end_s=end))  # fmt: skip
                to = {"F": at + 1, "B": at - 1}.get(work.kind, at)
                message = send_s if home.get(to, rank) != rank else 0.0
                arrived_at[work.kind, at, work.micro_batch] = end + message
                free_at[rank] = end if shape.overlaps else end + message
                next_of[rank] += 1
                moved = True
    assert all(n == len(order) for n, order in zip(next_of, orders, strict=True)), "the schedule waits for itself"
    total = max(event.end_s for event in events)
    return Simulated(
        events=tuple(sorted(events, key=lambda event: (event.start_s, event.rank, event.end_s))),
        total_s=total,
        idle_s=tuple(total - micro_batches * float(times.seconds) for times in ranks),
        in_flight=tuple(_most_held(order, "W" if shape.split else "B") / chunks for order in orders),
    )


def _ready_s(work: OrderedWork, at: int, end: int, arrived_at: dict[tuple[str, int, int], float]) -> float | None:
    if work.kind == "W" or (work.kind == "F" and at == 0):
        return 0.0
    if work.kind == "F":
        return arrived_at.get(("F", at - 1, work.micro_batch))
    return arrived_at.get(("F", at, work.micro_batch) if at == end else ("B", at + 1, work.micro_batch))


def _seconds(times: StageTimes, chunks: int, *, split: bool) -> dict[str, float]:
    forward, towards_input, weight = (float(x) / chunks for x in (times.forward_s, times.input_s, times.weight_s))
    if split:
        return {"F": forward, "B": towards_input, "W": weight}
    return {"F": forward, "B": towards_input + weight}


def _most_held(order: Sequence[OrderedWork], last: str) -> int:
    held = most = 0
    for work in order:
        held += (work.kind == "F") - (work.kind == last)
        most = max(most, held)
    return most
