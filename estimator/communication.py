"""Communication: the collectives of one step on one rank, and how much of each stays exposed."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.cost.collectives import collective_s, exposed_s, group_of, p2p_s
from estimator.efficiency import Efficiencies
from estimator.parallel.data import syncs
from estimator.scenario import Scenario
from estimator.stage_pass import Pass, tensor_exchanges, tensor_group
from estimator.stages import Stage


@dataclass(frozen=True, kw_only=True)
class Collective:
    """All executions of one collective in a step on one rank; ``bytes`` is one execution's payload."""

    name: str
    kind: str
    axis: str
    phase: str
    ranks: int
    bytes: float
    count: float
    seconds: float
    exposed_s: float


def data_parallel(scenario: Scenario, stage: Stage, one: Pass, e: Efficiencies) -> tuple[list[Collective], float]:
    """Price the data parallel exchanges; return them and the exposed time of their copies into flat buffers."""
    plan, m = scenario.plan, scenario.micro_batches
    if plan.dp == 1:
        return [], 0.0
    numbers = stage.dims.numbers
    group = group_of(plan.dp, plan.tp, scenario.cluster)
    found = []
    copies_exposed = 0.0
    every = plan.sharding in ("zero2", "zero3", "fsdp")
    # Gather and scatter share the links: what one of them has hidden behind, the next cannot hide behind again.
    window = {p: (one.device_s[p] + one.wait_s[p]) * (m if every else 1) for p in one.device_s}
    for sync in syncs(
        sharding=plan.sharding,
        numbers=numbers,
        parameters=stage.parameters,
        layers=stage.layers,
        micro_batches=m,
        bucket_bytes=plan.bucket_bytes,
    ):
        count = float(sync.count)
        each = float(collective_s(sync.kind, float(sync.payload_bytes) / count, group, scenario.cluster, e))
        seconds = each * count
        share = one.matmul_frac[sync.beside]
        copies = float(sync.copies_bytes) / (scenario.cluster.chip.memory_bytes_per_s * e.memory_frac)
        # The exchange and the copies around it run one after the other; each is exposed in the same share.
        both, left = seconds + copies, window[sync.beside]
        exposed_frac = float(exposed_s(both, left, share, e)) / both if plan.overlap else 1.0
        window[sync.beside] = max(0.0, left - both)
        copies_exposed += copies * exposed_frac
        found.append(
            Collective(
                name=sync.name,
                kind=sync.kind,
                axis="dp",
                phase=sync.beside,
                ranks=plan.dp,
                bytes=float(sync.payload_bytes) / count,
                count=count,
                seconds=seconds,
                exposed_s=seconds * exposed_frac,
            )
        )
    return found, copies_exposed


def tensor_collectives(scenario: Scenario, stage: Stage, e: Efficiencies) -> list[Collective]:
    """Price the tensor parallel collectives of a whole step; none of them is hidden."""
    found = []
    for exchange, times in tensor_exchanges(scenario, stage):
        count = float(exchange.count) * times * scenario.micro_batches
        each = float(collective_s(exchange.kind, exchange.payload_bytes, tensor_group(scenario), scenario.cluster, e))
        found.append(
            Collective(
                name=exchange.name,
                kind=exchange.kind,
                axis="tp",
                phase=exchange.phase,
                ranks=scenario.plan.tp,
                bytes=float(exchange.payload_bytes),
                count=count,
                seconds=each * count,
                exposed_s=each * count,
            )
        )
    return found


def _send_bytes(scenario: Scenario, stage: Stage) -> float:
    d = stage.dims
    return float(d.stream_tokens) * float(d.hidden) * d.numbers.residual


def send_s_of(scenario: Scenario, stage: Stage, e: Efficiencies) -> float:
    """Return the time of one message between neighbouring stages; 0 without a pipeline."""
    if scenario.plan.pp == 1:
        return 0.0
    inner = scenario.plan.tp * scenario.plan.dp
    across = inner * scenario.plan.pp > scenario.cluster.chips_per_node
    return float(p2p_s(_send_bytes(scenario, stage), across, scenario.cluster, e))


def sends_listed(scenario: Scenario, send_s: float, stage: Stage) -> list[Collective]:
    """List the messages between stages that lie on the critical path."""
    if scenario.plan.pp == 1:
        return []
    count = 2.0 * (scenario.plan.pp - 1 + max(scenario.micro_batches - 1, 0))
    return [
        Collective(
            name="stage to stage",
            kind="p2p",
            axis="pp",
            phase="forward",
            ranks=scenario.plan.pp,
            bytes=_send_bytes(scenario, stage),
            count=count,
            seconds=count * send_s,
            exposed_s=count * send_s,
        )
    ]
