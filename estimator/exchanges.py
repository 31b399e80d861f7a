"""Exchanges: the price of the collectives inside one micro-batch, in line with compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from estimator.arrays import maximum, minimum
from estimator.cost.collectives import Group, collective_s
from estimator.efficiency import Efficiencies
from estimator.hardware import Cluster
from estimator.messages import Message
from estimator.parallel.placement import Groups
from estimator.units import Number


@dataclass(frozen=True, kw_only=True, slots=True)
class InLine:
    """A message with its ranks, and the seconds of one execution: in all, and what compute does not hide."""

    message: Message
    ranks: Number
    seconds: Number
    exposed_s: Number


def priced(
    messages: Sequence[Message], groups: Groups, cluster: Cluster, e: Efficiencies, attention_s: dict[str, Number]
) -> list[InLine]:
    """Price messages; those beside attention (ring) show only what lasts longer than a piece of ``attention_s``."""
    found = []
    passing = {
        phase: sum((m.count for m in messages if m.beside_attention and m.phase == phase), start=0.0)
        for phase in ("forward", "backward")
    }
    for message in messages:
        group = members(getattr(groups, message.group), message.ranks)
        seconds = collective_s(message.kind, message.payload_bytes, group, cluster, e)
        exposed = seconds
        if message.beside_attention:
            exposed = beside(seconds, attention_s[message.phase], passing[message.phase], group.ranks)
        found.append(InLine(message=message, ranks=group.ranks, seconds=seconds, exposed_s=exposed))
    return found


def hidden(lines: list[InLine], device_s: dict[str, Number]) -> list[InLine]:
    """Return lines of which compute of the same part and phase hides what it can, each by the same share.

    Half a micro-batch computes while the other half is sent: only a lower bound has all of it.
    """
    shown = {}
    for phase in ("forward", "backward"):
        sent_s = sum((x.seconds * x.message.count for x in lines if x.message.phase == phase), start=0.0)
        shown[phase] = rest(sent_s, device_s[phase]) / maximum(sent_s, 1e-30)
    return [replace(line, exposed_s=line.seconds * shown[line.message.phase]) for line in lines]


def rest(sent_s: Number, device_s: Number) -> Number:
    """What shows of communication that runs beside all of a part's compute."""
    return maximum(sent_s - device_s, 0.0)


def beside(seconds: Number, attention_s: Number, messages: Number, ranks: Number) -> Number:
    """What shows of one of ``messages`` that pass while attention works on a piece.

    A ring of n ranks has n pieces and n − 1 messages: nothing comes during the last piece.
    """
    pieces = messages * ranks / maximum(ranks - 1, 1.0)
    return maximum(seconds - attention_s / maximum(pieces, 1.0), 0.0)


def members(group: Group, ranks: Number | None) -> Group:
    """Return the part of a group that takes part in a collective: ``ranks`` neighbours of it, or all."""
    if ranks is None:
        return group
    return Group(ranks=ranks, ranks_per_node=minimum(group.ranks_per_node, ranks))
