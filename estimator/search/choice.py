"""Choice: what a searched plan is made of, and how it is written as a plan."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from estimator.plan import Plan


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What decides by branches, not by numbers, how one rank computes."""

    tp_kind: str
    sequence_parallel: bool
    cp_kind: str
    recompute: str
    recompute_every: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """Degrees and micro-batch of one rank under a choice; ``dp`` and ``pp`` say how often it is copied and staged."""

    tp: int
    tp_depth: int
    cp: int
    ep: int
    expert_tp: int
    micro_batch: int
    pp: int
    dp: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Sharing:
    """What data ranks share and exchange, and what they leave to the host."""

    sharding: str
    shard_ranks: int = 0
    ddp_mode: str = "bucketed"
    overlap: bool = True
    offload: str = "none"


SHAPE = tuple(f.name for f in fields(Shape))
_DEFAULT = Plan()


def plan_of(
    fixed: Plan, choice: Choice | None = None, shape: Shape | None = None, sharing: Sharing | None = None, **more: Any
) -> Plan:
    """Write a choice, and where they are given a shape and a sharing, as a plan; ``fixed`` has the rest."""
    return replace(fixed, **_values(choice), **_values(shape), **_values(sharing), **more)


def changes(part: Plan | Choice | Shape | Sharing) -> int:
    """Fields of a plan, or of a part of it, that are not at the plan's default."""
    return sum(getattr(part, f.name) != getattr(_DEFAULT, f.name) for f in fields(part))


def _values(part: Choice | Shape | Sharing | None) -> dict[str, Any]:
    return {f.name: getattr(part, f.name) for f in fields(part)} if part is not None else {}
