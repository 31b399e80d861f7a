"""Proposed: one field of a scenario with the evidence for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Proposed:
    """One field: its value, whether the profile determines it, and by what, in words."""

    value: Any
    sure: bool
    evidence: str


def sure(value: Any, evidence: str) -> Proposed:
    """A field that the profile determines."""
    return Proposed(value=value, sure=True, evidence=evidence)


def guess(value: Any, evidence: str) -> Proposed:
    """A field that it does not."""
    return Proposed(value=value, sure=False, evidence=evidence)
