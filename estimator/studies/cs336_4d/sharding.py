"""Part (b): memory of a device under FSDP, and the degree from which it fits, against tokens per device."""

from __future__ import annotations

import math

from estimator.scenario.units import Number
from estimator.studies.cs336_4d.inputs import Inputs


def device_bytes(i: Inputs, ranks: Number, tokens: Number, states_bytes: float | None = None) -> Number:
    """M(N) = (states + s·A)/N + (1 − s)·A, with A activations of these tokens and s their sharded share."""
    states = i.state_bytes if states_bytes is None else states_bytes
    kept = i.token_bytes * tokens
    return (states + i.sharded_activation_frac * kept) / ranks + (1 - i.sharded_activation_frac) * kept


def least_ranks(i: Inputs, tokens: float, states_bytes: float | None = None) -> int | None:
    """Smallest N with M(N) < capacity: N > (states + s·A)/(capacity − (1 − s)·A); None where no N is enough."""
    states = i.state_bytes if states_bytes is None else states_bytes
    kept = i.token_bytes * tokens
    room = i.chip_bytes - (1 - i.sharded_activation_frac) * kept
    if room <= 0:
        return None
    return max(1, math.floor((states + i.sharded_activation_frac * kept) / room) + 1)


def most_tokens(i: Inputs) -> int | None:
    """Tokens from which the activations that are not sharded fill a device; None where all are sharded or none kept."""
    each = (1 - i.sharded_activation_frac) * i.token_bytes
    return math.ceil(i.chip_bytes / each) if each > 0 else None


def resident_bytes(i: Inputs) -> float:
    """Gathered weights of one pipeline stage on a chip of it: s·parameters/(p·Y); FSDP divides only what is at rest."""
    return i.sent_bytes * i.parameters / (i.pipeline * i.Y)


def held_bytes(i: Inputs) -> float:
    """States at rest on a chip with pipeline stages in X's place: of p·max(X/p, 1)·Y chips."""
    return i.state_bytes / (i.pipeline * max(i.X / i.pipeline, 1) * i.Y)
