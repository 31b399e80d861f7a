"""Message: one collective of one group of ranks, and what it costs where the group stands.

From the formula that causes it to the table that shows it a collective is this one record; every number of it may be an
array over plans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from estimator.communication.placement import Groups
from estimator.cost.collectives import TRAFFIC, Group, collective_s, ramp_frac
from estimator.cost.efficiency import Efficiencies
from estimator.scenario.arrays import maximum, minimum
from estimator.scenario.hardware import Cluster
from estimator.scenario.units import Number


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """A collective of a group (a field of ``Groups``), ``count`` times per micro-batch and part, or per step.

    - ``axis``: of the plan, as tables show it; experts' own ranks are ``ep``, ``expert_tp`` and ``edp``.
    - ``payload_bytes`` of one execution: the gathered tensor of an all-gather or reduce-scatter, else a rank's own.
    - ``hides_behind``: ``attention`` (it passes while attention works on another piece), ``products`` (in as many
      pieces as ranks, beside the product of another piece), ``compute`` (beside the whole ``phase``), or nothing: it
      stands in line.
    - ``open_frac``: the share of its executions that nothing hides all the same.
    - ``ranks``: neighbours of the group that take part where not all of it does.
    - ``host``: ranks that meet in it from launch-bound hosts (1: none).
    - ``batches``: of sends and receives, or collectives, that Python hands to NCCL for each of it (0: others do).
    - ``sized``: ranks whose hosts first wait for how many rows they send and take (1: none).
    - ``copies``: of an all-to-all of tokens, to how many experts each goes where it crosses to their nodes once;
      ``reachable_frac``: of which share of the ranks these are.
    - ``ramp``: the mean of ``ramp_frac``, where messages of several sizes are added up.
    - ``copies_bytes``: moved in and out of flat buffers on the same rank, for all executions together;
      ``cast_elements``: of them what changes its type on the way.
    """

    name: str
    kind: str
    axis: str
    group: str
    phase: str
    payload_bytes: Number
    count: Number = 1.0
    hides_behind: str = ""
    open_frac: Number = 0.0
    ranks: Number | None = None
    host: Number = 1.0
    batches: Number = 0.0
    sized: Number = 1.0
    copies: int = 0
    reachable_frac: float = 1.0
    ramp: Number | None = None
    copies_bytes: Number = 0.0
    cast_elements: Number = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class PricedMessage:
    """A message with its ranks and the seconds of all its executions: in all, and what compute does not hide."""

    message: Message
    ranks: Number
    seconds: Number
    exposed_s: Number
    copies_exposed_s: Number = 0.0


def priced(message: Message, groups: Groups, cluster: Cluster, e: Efficiencies) -> PricedMessage:
    """Price a message in its group; all of it shows."""
    group = members(getattr(groups, message.group), message.ranks)
    each = collective_s(
        message.kind, message.payload_bytes, group, cluster, e, copies=message.copies,
        reachable_frac=message.reachable_frac, ramp=message.ramp,
    )  # fmt: skip
    seconds = each * message.count
    return PricedMessage(message=message, ranks=group.ranks, seconds=seconds, exposed_s=seconds)


def priced_in_line(
    messages: Sequence[Message],
    groups: Groups,
    cluster: Cluster,
    e: Efficiencies,
    *,
    attention_s: Mapping[str, Number],
    device_s: Mapping[str, Number],
    products_s: Mapping[str, Number],
) -> list[PricedMessage]:
    """Price the messages inside a micro-batch of one part of the network, whose compute takes these seconds by phase.

    Those beside attention (ring) show only what lasts longer than a piece of it. Those beside products show the one of
    n pieces that no product runs beside, or what lasts longer than all products. Those beside compute show only what
    all of them together take longer than it, each by the same share: half a micro-batch computes while the other half
    is sent. A lower bound hides every message so.
    """
    passing: dict[str, Number] = {}
    feeding_s: dict[str, Number] = {}
    beside_s: dict[str, Number] = {}
    found = []
    for message in messages:
        line = priced(message, groups, cluster, e)
        found.append(line)
        if e.lower_bound or message.hides_behind == "compute":
            beside_s[message.phase] = beside_s.get(message.phase, 0.0) + line.seconds
        elif message.hides_behind == "products":
            feeding_s[message.phase] = feeding_s.get(message.phase, 0.0) + line.seconds
        elif message.hides_behind == "attention":
            passing[message.phase] = passing.get(message.phase, 0.0) + message.count
    shown = {phase: maximum(sent - device_s[phase], 0.0) / maximum(sent, 1e-30) for phase, sent in beside_s.items()}

    def shows(line: PricedMessage) -> PricedMessage:
        phase = line.message.phase
        if e.lower_bound or line.message.hides_behind == "compute":
            return replace(line, exposed_s=line.seconds * shown[phase])
        if line.message.hides_behind == "products":
            sent = feeding_s[phase]
            longer = maximum(sent - products_s[phase], 0.0) / maximum(sent, 1e-30)
            return replace(line, exposed_s=line.seconds * maximum(longer, 1.0 / line.ranks))
        if line.message.hides_behind == "attention":
            return replace(line, exposed_s=_beside_attention(line, attention_s[phase], passing[phase]))
        return line

    return list(map(shows, found))


def received_bytes(message: Message, ranks: Number) -> Number:
    """Bytes that each of ``ranks`` receives (and sends) in all executions: factor · (n − 1)/n · payload."""
    share = 1.0 if message.kind == "p2p" else (ranks - 1) / ranks
    return message.payload_bytes * TRAFFIC[message.kind] * share * message.count


def members(group: Group, ranks: Number | None) -> Group:
    """Return the part of a group that takes part in a collective: ``ranks`` neighbours of it, or all."""
    if ranks is None:
        return group
    return Group(ranks=ranks, ranks_per_node=minimum(group.ranks_per_node, ranks))


def merged(messages: Sequence[Message], e: Efficiencies) -> dict[tuple[str, ...], Message]:
    """Add messages up that differ in size and name alone, under what they have in common.

    Time is linear in bytes and ``ramp_frac`` for one kind and group, so count · t(both in the mean) is the sum over the
    messages. Those beside attention, and those of some ranks of a group, stay apart.
    """
    found: dict[tuple[str, ...], Message] = {}
    for message in messages:
        apart = message.hides_behind == "attention" or message.ranks is not None
        key = (message.phase, message.kind, message.group, message.hides_behind, message.name if apart else "")
        before = found.get(key)
        if before is None:
            found[key] = message
            continue
        count = before.count + message.count
        total = before.payload_bytes * before.count + message.payload_bytes * message.count
        ramps = _ramp(before, e) * before.count + _ramp(message, e) * message.count
        often = maximum(count, 1e-30)
        found[key] = replace(before, count=count, payload_bytes=total / often, ramp=ramps / often)
    return {key: replace(one, ramp=_ramp(one, e)) for key, one in found.items()}


def _ramp(message: Message, e: Efficiencies) -> Number:
    return ramp_frac(message.kind, message.payload_bytes, e) if message.ramp is None else message.ramp


def _beside_attention(x: PricedMessage, attention_s: Number, passing: Number) -> Number:
    """What shows of messages of which ``passing`` go round while attention works on a piece.

    A ring of n ranks has n pieces and n − 1 messages: nothing comes during the last piece.
    """
    count, in_open = x.message.count, x.message.open_frac
    pieces = passing * x.ranks / maximum(x.ranks - 1, 1.0)
    beside_s = (1.0 - in_open) * x.seconds - (1.0 - in_open) * count * (attention_s / maximum(pieces, 1.0))
    return in_open * x.seconds + maximum(beside_s, 0.0)
