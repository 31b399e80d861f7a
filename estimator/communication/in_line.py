"""Messages: the collectives that one micro-batch causes inside compute, by part of the network, not yet priced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from estimator.communication.context import SequenceExchange, sequence_exchanges
from estimator.communication.expert import expert_exchanges
from estimator.communication.grid import GridExchange, block_grid_exchanges
from estimator.communication.placement import Groups
from estimator.communication.tensor import block_exchanges, edge_exchanges
from estimator.cost.collectives import Group, collective_s
from estimator.cost.efficiency import Efficiencies
from estimator.operations.rank_sizes import Dims
from estimator.operations.transformer import Block
from estimator.scenario.arrays import maximum, minimum
from estimator.scenario.hardware import Cluster
from estimator.scenario.units import Number


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """A collective of one group (a field of ``Groups``), ``count`` times per micro-batch and part.

    ``beside_attention``: it runs while attention works on another piece. ``host``: ranks that meet in it from
    launch-bound hosts (1: none). ``ranks``: neighbours of the group that take part where not all of it does.
    """

    name: str
    kind: str
    axis: str
    group: str
    phase: str
    payload_bytes: Number
    count: Number
    beside_attention: bool = False
    host: Number = 1.0
    ranks: Number | None = None


def block_messages(d: Dims, block: Block, *, sequence_parallel: bool) -> list[Message]:
    """List what one block sends: over tensor, context and expert parallel ranks."""
    experts = not _zero(block.parameters.expert_tensors)
    found = [] if _one(d.tp) else _tensor(d, sequence_parallel=sequence_parallel, dense_ffn=not experts)
    if not _one(d.cp) and d.model.network != "ffn":
        found += [
            Message(name=x.name, kind=x.kind, axis="cp", group="cp", phase=x.phase, payload_bytes=x.payload_bytes,
                    count=x.count, beside_attention=x.beside_attention)
            for x in _sequence(d)
        ]  # fmt: skip
    if experts:
        sizes = {"ep": d.ep, "expert_tp": d.expert_tp}
        found += [
            Message(name=x.name, kind=x.kind, axis=x.group, group=x.group, phase=x.phase,
                    payload_bytes=x.payload_bytes, count=x.count)
            for x in expert_exchanges(d) if not _one(sizes[x.group])
        ]  # fmt: skip
    return found


def edge_messages(d: Dims, *, sequence_parallel: bool) -> tuple[list[Message], list[Message]]:
    """List what the embedding and the head send."""
    if _one(d.tp) or d.model.network != "transformer":
        return [], []
    # A grid divides the vocabulary over the columns of a row.
    group, ranks = ("tp", d.tp) if d.tp_kind == "1d" else ("grid_row", d.grid_side)
    embedding, head = (
        [
            Message(name=x.name, kind=x.kind, axis="tp", group=group, phase=x.phase, payload_bytes=x.payload_bytes,
                    count=x.count, host=ranks)
            for x in exchanges
        ]
        for exchanges in edge_exchanges(d, sequence_parallel=sequence_parallel)
    )  # fmt: skip
    return embedding, head


def _tensor(d: Dims, *, sequence_parallel: bool, dense_ffn: bool) -> list[Message]:
    attention, ffn = d.model.network != "ffn", d.model.network != "attention"
    if d.tp_kind != "1d":
        return [
            Message(name=x.name, kind=x.kind, axis="tp", group=f"grid_{x.axis}", phase=x.phase,
                    payload_bytes=x.payload_bytes, count=x.count, host=x.ranks, ranks=x.ranks)
            for x in _grid(d, attention=attention, ffn=ffn)
        ]  # fmt: skip
    return [
        Message(name=x.name, kind=x.kind, axis="tp", group="tp", phase=x.phase, payload_bytes=x.payload_bytes,
                count=x.count, host=d.tp)
        for x in block_exchanges(
            d,
            sequence_parallel=sequence_parallel,
            attention=attention,
            ffn=ffn and (dense_ffn or d.model.shared_experts > 0),
        )
    ]  # fmt: skip


def _grid(d: Dims, *, attention: bool, ffn: bool) -> list[GridExchange]:
    model, side = d.model, d.grid_side
    row_ranks = d.tp / side
    kv_width = maximum(model.kv / side, 1.0) * side * model.dim
    return block_grid_exchanges(
        tp_kind=d.tp_kind,
        q=side,
        depth=d.tp / (side * side),
        rows=d.tokens * row_ranks,
        hidden=model.hidden,
        qkv_width=model.query_width + 2 * kv_width,
        query_width=model.query_width,
        ffn_in_width=(2 if model.gated_ffn else 1) * model.ffn,
        ffn=model.ffn,
        element_bytes=d.numbers.compute,
        keep=False,
        micro_batch=d.sequences * row_ranks,
        attention=attention,
        feed_forward=ffn,
        bias=model.bias,
        statistics=0 if model.network != "transformer" else 2 if model.norm == "layer" else 1,
        recompute=d.recompute == "full",
    )


def _sequence(d: Dims) -> list[SequenceExchange]:
    model = d.model
    value_dim = model.v_head_dim or model.dim
    # Latent attention makes keys and values for every query head before they travel.
    kv: Number = model.heads / d.tp if model.kv_lora_rank else maximum(model.kv / d.tp, 1.0)
    if d.cp_kind == "ulysses":
        kv = maximum(kv, d.cp)
    return sequence_exchanges(
        cp_kind=d.cp_kind,
        cp=d.cp,
        tokens=d.tokens,
        query_width=model.query_width / d.tp,
        key_width=kv * model.dim,
        value_width=kv * value_dim,
        output_width=model.heads / d.tp * value_dim,
        element_bytes=d.numbers.compute,
        recompute=d.recompute == "full",
    )


def _one(degree: Number) -> bool:
    return isinstance(degree, (int, float)) and degree <= 1


def _zero(count: Number) -> bool:
    return isinstance(count, (int, float)) and count == 0


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
