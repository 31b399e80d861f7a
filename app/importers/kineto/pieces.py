"""Pieces: the work of one step, each with its category, phase and arithmetic; and the seconds that they add up to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.importers.kineto.intervals import exclusive, exposed
from estimator.breakdown import CATEGORIES, PHASES
from estimator.measurement import Kernel

COMMUNICATION = "communication"


@dataclass(kw_only=True, slots=True)
class Piece:
    """One kernel, or one stretch of an op's own time, in microseconds of the trace; ``whole`` its full length."""

    name: str
    category: str
    phase: str
    start: float
    end: float
    calls: int = 1
    flops: float | None = None
    bytes: float | None = None


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Seconds of one step by phase and by category; both add up to the step."""

    phases_s: dict[str, float]
    breakdown_s: dict[str, float]


def sums(pieces: list[Piece], begin: float, end: float) -> Sums:
    """Add up a step: a second belongs to the work that began first, to communication only while no work runs, and to
    the host when nothing runs at all."""
    breakdown = dict.fromkeys(CATEGORIES, 0.0)
    phases = dict.fromkeys(PHASES, 0.0)
    work = [piece for piece in pieces if piece.category not in (COMMUNICATION, "host")]
    messages = [piece for piece in pieces if piece.category == COMMUNICATION]
    work_start, work_end = _clipped(work, begin, end)
    for piece, length in zip(work, exclusive(work_start, work_end).tolist(), strict=True):
        breakdown[piece.category] += length * 1e-6
        phases[piece.phase] += length * 1e-6
    start, stop = _clipped(messages, begin, end)
    breakdown[COMMUNICATION] = float(exposed(start, stop, work_start, work_end).sum()) * 1e-6
    idle = max(0.0, (end - begin) * 1e-6 - sum(breakdown.values()))
    breakdown["host"] = idle
    phases["exposed_communication"] = breakdown[COMMUNICATION]
    phases["host_wait"] = idle
    return Sums(phases_s=phases, breakdown_s=breakdown)


def _clipped(pieces: list[Piece], begin: float, end: float) -> tuple[np.ndarray, np.ndarray]:
    starts = np.clip(np.array([piece.start for piece in pieces], dtype=np.float64), begin, end)
    ends = np.clip(np.array([piece.end for piece in pieces], dtype=np.float64), begin, end)
    return starts, ends


def kernels(pieces: list[Piece], most: int) -> tuple[tuple[Kernel, ...], int]:
    """Sum pieces by name and category, the longest first; beyond ``most`` they are summed by category alone.

    Returns the kernels and how many names were merged so.
    """
    groups: dict[tuple[str, str], list[Piece]] = {}
    for piece in pieces:
        groups.setdefault((piece.name, piece.category), []).append(piece)
    ordered = sorted(groups.items(), key=lambda item: -sum(piece.end - piece.start for piece in item[1]))
    named = [_kernel(name, category, parts) for (name, category), parts in ordered[:most]]
    rest: dict[str, list[Piece]] = {}
    for (_, category), parts in ordered[most:]:
        rest.setdefault(category, []).extend(parts)
    named += [_kernel("(others)", category, parts) for category, parts in rest.items()]
    return tuple(named), len(ordered[most:])


def _kernel(name: str, category: str, parts: list[Piece]) -> Kernel:
    return Kernel(
        name=name,
        category=category,
        count=sum(part.calls for part in parts),
        total_s=sum(part.end - part.start for part in parts) * 1e-6,
        flops=_sum([part.flops for part in parts]),
        bytes=_sum([part.bytes for part in parts]),
    )


def _sum(values: list[float | None]) -> float | None:
    """Add up, or None where one is unknown: half a sum would be a wrong one."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
