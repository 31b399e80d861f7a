"""A recorded step over time, coarse enough to be kept with its measurement and drawn; standard library only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from estimator.scenario.breakdown import Category
from estimator.scenario.timeline import COMMUNICATION, COMPUTE, HOST, Timeline

MOST_BLOCKS = 400
"""Of a lane: two on each point of the widest figure of the page."""
MOST_MOMENTS = 200
LONGEST_NAME = 60
LANES = (HOST, COMPUTE, COMMUNICATION)


@dataclass(slots=True)
class Span:
    """Something that ran, in seconds from the begin of the step."""

    kind: str
    name: str
    phase: str
    start_s: float
    end_s: float


def recorded(spans: Iterable[Span], total_s: float, memory: Sequence[tuple[float, float]] = ()) -> Timeline | None:
    """Lay spans out in lanes by their category; None where nothing ran.

    In a lane nothing overlaps: what began first goes on. Neighbours of one category are one block. A lane of more than
    :data:`MOST_BLOCKS` is drawn in equal pieces of time, each as long as anything ran in it, in the category that took
    most of it.
    """
    folded = ""
    lanes: dict[str, list[Span]] = {lane: [] for lane in LANES}
    for span in spans:
        lane = {Category.HOST: HOST, Category.COMMUNICATION: COMMUNICATION}.get(span.kind, COMPUTE)
        lanes[lane].append(span)
    drawn: dict[str, list[Span]] = {}
    for lane, some in lanes.items():
        in_turn = _in_turn(some, total_s)
        drawn[lane] = _merged(in_turn, total_s / (4 * MOST_BLOCKS))
        if len(drawn[lane]) > MOST_BLOCKS:
            drawn[lane] = _merged(_pieces(in_turn, total_s), 0.0)
            folded = f"in pieces of {total_s / MOST_BLOCKS * 1e3:.2g} ms"
    used = [lane for lane in LANES if drawn[lane]]
    if not used or total_s <= 0:
        return None
    blocks = [(at, one) for at, lane in enumerate(used) for one in drawn[lane]]
    return Timeline(
        lanes=tuple(used),
        lane=tuple(at for at, _ in blocks),
        kind=tuple(one.kind for _, one in blocks),
        name=tuple(one.name[:LONGEST_NAME] for _, one in blocks),
        phase=tuple(one.phase for _, one in blocks),
        start_s=tuple(round(one.start_s, 8) for _, one in blocks),
        end_s=tuple(round(one.end_s, 8) for _, one in blocks),
        total_s=total_s,
        memory=_moments(memory, total_s),
        capacity_bytes=0.0,
        folded=folded,
    )


def _in_turn(spans: list[Span], total_s: float) -> list[Span]:
    found, reached = [], 0.0
    for one in sorted(spans, key=lambda one: (one.start_s, -one.end_s)):
        start_s, end_s = max(one.start_s, reached), min(one.end_s, total_s)
        if end_s > start_s:
            found.append(Span(one.kind, one.name, one.phase, start_s, end_s))
            reached = end_s
    return found


def _merged(spans: list[Span], gap_s: float) -> list[Span]:
    """Neighbours of one category and phase as one block, named by the longest, with gaps up to ``gap_s``."""
    found: list[Span] = []
    longest_s = 0.0
    for one in spans:
        last = found[-1] if found else None
        length_s = one.end_s - one.start_s
        if last and (last.kind, last.phase) == (one.kind, one.phase) and one.start_s - last.end_s <= gap_s:
            last.end_s = one.end_s
            if length_s > longest_s:
                last.name, longest_s = one.name, length_s
        else:
            found.append(Span(one.kind, one.name, one.phase, one.start_s, one.end_s))
            longest_s = length_s
    return found


def _pieces(spans: list[Span], total_s: float) -> list[Span]:
    """The same in equal pieces of time: each as long as anything ran in it."""
    piece_s = total_s / MOST_BLOCKS
    parts: list[dict[tuple[str, str], list[tuple[float, str]]]] = [{} for _ in range(MOST_BLOCKS)]
    for one in spans:
        first = min(int(one.start_s / piece_s), MOST_BLOCKS - 1)
        last = min(int(one.end_s / piece_s), MOST_BLOCKS - 1)
        for at in range(first, last + 1):
            inside_s = min(one.end_s, (at + 1) * piece_s) - max(one.start_s, at * piece_s)
            if inside_s > 0:
                parts[at].setdefault((one.kind, one.phase), []).append((inside_s, one.name))
    found = []
    for at, some in enumerate(parts):
        if some:
            seconds = {key: sum(each for each, _ in one) for key, one in some.items()}
            kind, phase = max(seconds, key=lambda key: seconds[key])
            _, name = max(some[kind, phase])
            found.append(Span(kind, name, phase, at * piece_s, min(at * piece_s + sum(seconds.values()), total_s)))
    return found


def _moments(memory: Sequence[tuple[float, float]], total_s: float) -> tuple[tuple[float, float], ...]:
    """The most that was held in each of equal pieces of time, and where in it."""
    most: dict[int, tuple[float, float]] = {}
    for at_s, held in memory:
        if 0.0 <= at_s <= total_s:
            piece = int(at_s / total_s * MOST_MOMENTS)
            if piece not in most or held > most[piece][1]:
                most[piece] = (round(at_s, 8), float(held))
    return tuple(most[piece] for piece in sorted(most))
