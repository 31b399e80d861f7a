"""A small event simulation of pipeline schedules, to hold the closed forms against."""

from __future__ import annotations

Work = tuple[str, int]


def order(schedule: str, stage: int, stages: int, micro_batches: int) -> list[Work]:
    """Return what a stage runs, in order: GPipe all forwards first, 1F1B after min(m, p − 1 − stage) of them."""
    warm_up = micro_batches if schedule == "gpipe" else min(micro_batches, stages - 1 - stage)
    found: list[Work] = [("forward", k) for k in range(warm_up)]
    for k in range(micro_batches - warm_up):
        found += [("forward", warm_up + k), ("backward", k)]
    return found + [("backward", k) for k in range(micro_batches - warm_up, micro_batches)]


def simulated_s(schedule: str, forward_s: list[float], backward_s: list[float], micro_batches: int) -> float:
    """Run every stage's order as early as its inputs allow; return when the last stage is done."""
    p = len(forward_s)
    waiting = [order(schedule, i, p, micro_batches) for i in range(p)]
    free_at = [0.0] * p
    done_at: dict[tuple[str, int, int], float] = {}
    while any(waiting):
        progressed = False
        for i in range(p):
            while waiting[i]:
                kind, k = waiting[i][0]
                if kind == "forward":
                    needs = ("forward", i - 1, k) if i else None
                else:
                    needs = ("backward", i + 1, k) if i < p - 1 else ("forward", i, k)
                if needs is not None and needs not in done_at:
                    break
                start = max(free_at[i], done_at[needs] if needs else 0.0)
                free_at[i] = start + (forward_s if kind == "forward" else backward_s)[i]
                done_at[kind, i, k] = free_at[i]
                waiting[i].pop(0)
                progressed = True
        assert progressed, "the schedule waits for itself"
    return max(free_at)


def simulated_in_flight(schedule: str, stage: int, stages: int, micro_batches: int) -> int:
    """Return the largest number of micro-batches that have gone forward and not yet back on a stage."""
    held = most = 0
    for kind, _ in order(schedule, stage, stages, micro_batches):
        held += 1 if kind == "forward" else -1
        most = max(most, held)
    return most
