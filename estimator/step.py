"""Step: the critical path of one training step: device, host, exposed communication, bubble, optimizer."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.breakdown import CATEGORIES
from estimator.cost.collectives import Group, collective_s, exposed_s, group_of, p2p_s
from estimator.cost.host import collective_s as host_collective_s
from estimator.cost.host import launch_s, phase_wait_s
from estimator.cost.roofline import price
from estimator.efficiency import Efficiencies
from estimator.parallel.data import syncs
from estimator.parallel.pipeline import pipeline_s
from estimator.parallel.tensor import Exchange, block_exchanges, edge_exchanges
from estimator.scenario import Scenario
from estimator.stages import Stage

MATMUL_LIKE = ("matmul", "attention")


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


@dataclass(frozen=True, kw_only=True)
class Step:
    """Time of one step and its parts; ``pace`` is the index of the slowest stage."""

    seconds: float
    pace: int
    phases_s: dict[str, float]
    host_wait_by_phase_s: dict[str, float]
    breakdown_s: dict[str, float]
    collectives: tuple[Collective, ...]


@dataclass(frozen=True, kw_only=True)
class _Pass:
    """Forward and backward of one micro-batch on one stage."""

    device_s: dict[str, float]
    host_s: dict[str, float]
    wait_s: dict[str, float]
    tensor_s: dict[str, float]
    by_category: dict[str, float]
    matmul_frac: dict[str, float]
    lead_s: float

    @property
    def seconds(self) -> float:
        return sum(self.device_s[p] + self.tensor_s[p] + self.wait_s[p] for p in ("forward", "backward"))


def step(scenario: Scenario, layout: list[Stage], e: Efficiencies) -> Step:
    """Price one step.

    Stages: every op on the device, tensor parallel collectives in line, the host beside them. Pipeline: Σ stages +
    (m − 1) · slowest. Then what data parallel communication cannot hide, and the optimizer.
    """
    plan, m = scenario.plan, scenario.micro_batches
    # Stages between the first and the last are alike.
    kinds = {(stage.first, stage.last): stage for stage in layout}
    priced = {kind: _pass(scenario, stage, e) for kind, stage in kinds.items()}
    passes = [priced[stage.first, stage.last] for stage in layout]
    pace = max(range(len(layout)), key=lambda i: passes[i].seconds)
    stage, one = layout[pace], passes[pace]

    send_s = _sends(scenario, stage, e)
    pipeline = float(pipeline_s([p.seconds for p in passes], m))
    # One stage has none; the difference would leave what rounding leaves.
    bubble = max(0.0, pipeline - m * one.seconds) if plan.pp > 1 else 0.0
    pipeline_communication = 2 * send_s * (plan.pp - 1) if plan.pp > 1 else 0.0
    if plan.pp > 1:
        # Each micro-batch's send and receive also pass through the pace-setting stage's stream.
        pipeline_communication += 2 * send_s * max(m - 1, 0)

    accumulation = (m - 1) * sum(float(price(op, scenario.cluster.chip, e).seconds) for op in stage.accumulation)
    data, copies_s = _data_parallel(scenario, stage, one, e)
    optimizer_device = sum(float(price(op, scenario.cluster.chip, e).seconds) for op in stage.once)
    ideal = scenario.training.framework == "ideal"
    # The optimizer's first kernel waits for the host to walk over all tensors, unless the host runs ahead.
    walk = max(0.0, stage.tensors * e.host_tensor_s - one.lead_s)
    optimizer_wait = 0.0 if ideal else walk + e.host_step_s

    exposed_data = sum(c.exposed_s for c in data)
    tensor = {p: m * one.tensor_s[p] for p in one.tensor_s}
    forward = m * one.device_s["forward"]
    backward = m * one.device_s["backward"] + accumulation
    waits = {
        "forward": m * one.wait_s["forward"],
        "backward": m * one.wait_s["backward"],
        "optimizer": optimizer_wait,
    }
    exposed = exposed_data + copies_s + sum(tensor.values()) + pipeline_communication
    phases = {
        "forward": forward,
        "backward": backward,
        "optimizer": optimizer_device,
        "exposed_communication": exposed,
        "bubble": bubble,
        "host_wait": sum(waits.values()),
    }
    breakdown = dict.fromkeys(CATEGORIES, 0.0)
    for category, seconds in one.by_category.items():
        breakdown[category] += m * seconds
    breakdown["elementwise"] += accumulation
    breakdown["optimizer"] += optimizer_device
    breakdown["communication"] += exposed
    breakdown["bubble"] += bubble
    breakdown["host"] += phases["host_wait"]
    return Step(
        seconds=sum(phases.values()),
        pace=pace,
        phases_s=phases,
        host_wait_by_phase_s=waits,
        breakdown_s=breakdown,
        collectives=(*_tensor_collectives(scenario, stage, e), *data, *_sends_listed(scenario, send_s, stage)),
    )


def _pass(scenario: Scenario, stage: Stage, e: Efficiencies) -> _Pass:
    device = {"forward": 0.0, "backward": 0.0}
    host = {"forward": 0.0, "backward": 0.0}
    gap = {"forward": 0.0, "backward": 0.0}
    matmul = {"forward": 0.0, "backward": 0.0}
    by_category: dict[str, float] = {}
    for op, times in stage.executions():
        seconds = float(price(op, scenario.cluster.chip, e).seconds) * float(op.count) * times
        device[op.phase] += seconds
        # Recomputed ops run inside backward but are launched like forward ops.
        kind = "forward" if op.recomputed else op.phase
        host[op.phase] += float(op.launches) * float(op.count) * times * launch_s(scenario.training, kind, e)
        gap[op.phase] += float(op.launches) * float(op.count) * times * e.kernel_gap_s
        by_category[op.category] = by_category.get(op.category, 0.0) + seconds
        if op.category in MATMUL_LIKE:
            matmul[op.phase] += seconds
    tensor = {"forward": 0.0, "backward": 0.0}
    group = _tensor_group(scenario)
    for exchange, times in _exchanges(scenario, stage):
        count = float(exchange.count) * times
        tensor[exchange.phase] += count * float(
            collective_s(exchange.kind, exchange.payload_bytes, group, scenario.cluster, e)
        )
        host[exchange.phase] += count * float(host_collective_s(scenario.training, scenario.plan.tp, e))
    wait: dict[str, float] = {}
    lead = 0.0
    for phase in ("forward", "backward"):
        waited, left = phase_wait_s(device[phase] + tensor[phase] + gap[phase], host[phase], lead)
        wait[phase], lead = float(waited) + gap[phase], float(left)
    return _Pass(
        device_s=device,
        host_s=host,
        wait_s=wait,
        tensor_s=tensor,
        by_category=by_category,
        lead_s=lead,
        matmul_frac={p: matmul[p] / (device[p] + wait[p]) if device[p] else 0.0 for p in device},
    )


def _tensor_group(scenario: Scenario) -> Group:
    return group_of(scenario.plan.tp, 1, scenario.cluster)


def _exchanges(scenario: Scenario, stage: Stage) -> list[tuple[Exchange, float]]:
    if scenario.plan.tp == 1:
        return []
    embedding, head = edge_exchanges(stage.dims)
    found = [
        (exchange, float(stage.layers))
        for exchange in block_exchanges(stage.dims, sequence_parallel=scenario.plan.sequence_parallel)
    ]
    found += [(exchange, 1.0) for exchange in embedding if stage.first]
    found += [(exchange, 1.0) for exchange in head if stage.last]
    return found


def _data_parallel(scenario: Scenario, stage: Stage, one: _Pass, e: Efficiencies) -> tuple[list[Collective], float]:
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


def _tensor_collectives(scenario: Scenario, stage: Stage, e: Efficiencies) -> list[Collective]:
    found = []
    for exchange, times in _exchanges(scenario, stage):
        count = float(exchange.count) * times * scenario.micro_batches
        each = float(collective_s(exchange.kind, exchange.payload_bytes, _tensor_group(scenario), scenario.cluster, e))
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


def _sends(scenario: Scenario, stage: Stage, e: Efficiencies) -> float:
    if scenario.plan.pp == 1:
        return 0.0
    inner = scenario.plan.tp * scenario.plan.dp
    across = inner * scenario.plan.pp > scenario.cluster.chips_per_node
    return float(p2p_s(_send_bytes(scenario, stage), across, scenario.cluster, e))


def _sends_listed(scenario: Scenario, send_s: float, stage: Stage) -> list[Collective]:
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
