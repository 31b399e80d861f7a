"""Stage pass: forward and backward of one micro-batch on one stage, device and host side by side."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.cost.collectives import Group, collective_s, group_of
from estimator.cost.host import collective_s as host_collective_s
from estimator.cost.host import launch_s, phase_wait_s
from estimator.cost.roofline import price
from estimator.efficiency import Efficiencies
from estimator.parallel.tensor import Exchange, block_exchanges, edge_exchanges
from estimator.scenario import Scenario
from estimator.stages import Stage

MATMUL_LIKE = ("matmul", "attention")


@dataclass(frozen=True, kw_only=True)
class Pass:
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
        """Both directions, with tensor parallel communication and waits."""
        return sum(self.device_s[p] + self.tensor_s[p] + self.wait_s[p] for p in ("forward", "backward"))


def stage_pass(scenario: Scenario, stage: Stage, e: Efficiencies) -> Pass:
    """Price one micro-batch on one stage: every op, tensor parallel collectives in line, the host beside them."""
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
    group = tensor_group(scenario)
    for exchange, times in tensor_exchanges(scenario, stage):
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
    return Pass(
        device_s=device,
        host_s=host,
        wait_s=wait,
        tensor_s=tensor,
        by_category=by_category,
        lead_s=lead,
        matmul_frac={p: matmul[p] / (device[p] + wait[p]) if device[p] else 0.0 for p in device},
    )


def tensor_group(scenario: Scenario) -> Group:
    """Return the tensor parallel group, innermost in a node."""
    return group_of(scenario.plan.tp, 1, scenario.cluster)


def tensor_exchanges(scenario: Scenario, stage: Stage) -> list[tuple[Exchange, float]]:
    """List the tensor parallel collectives of one micro-batch on one stage and how often each runs."""
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
