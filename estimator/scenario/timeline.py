"""Timeline: one step over time, predicted (estimator.estimate.timeline) or recorded (runners.trace.recorded)."""

from __future__ import annotations

from dataclasses import dataclass

HOST, COMPUTE, COMMUNICATION = "host", "compute", "communication"
LEFT_OUT = "left_out"
"""The kind of a block that stands for passes of a stage which are too many to be drawn."""


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Blocks as columns: lane (an index into ``lanes``), kind (a category, a pass, ``LEFT_OUT``), name, start, end.

    ``memory``: (seconds, bytes held), of a prediction those of one rank of the fullest stage, straight between them;
    ``capacity_bytes``: 0 where it is not known; ``folded``: what is drawn coarser than it runs.
    """

    lanes: tuple[str, ...]
    lane: tuple[int, ...]
    kind: tuple[str, ...]
    name: tuple[str, ...]
    phase: tuple[str, ...]
    start_s: tuple[float, ...]
    end_s: tuple[float, ...]
    total_s: float
    memory: tuple[tuple[float, float], ...]
    capacity_bytes: float
    folded: str = ""
