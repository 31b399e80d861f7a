"""Step: the critical path of one training step: device, host, exposed communication, bubble, optimizer."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.breakdown import CATEGORIES
from estimator.communication import Collective, data_parallel, send_s_of, sends_listed, tensor_collectives
from estimator.cost.roofline import price
from estimator.efficiency import Efficiencies
from estimator.parallel.pipeline import pipeline_s
from estimator.scenario import Scenario
from estimator.stage_pass import stage_pass
from estimator.stages import Stage


@dataclass(frozen=True, kw_only=True)
class Step:
    """Time of one step and its parts; ``pace`` is the index of the slowest stage."""

    seconds: float
    pace: int
    phases_s: dict[str, float]
    host_wait_by_phase_s: dict[str, float]
    breakdown_s: dict[str, float]
    collectives: tuple[Collective, ...]


def step(scenario: Scenario, layout: list[Stage], e: Efficiencies) -> Step:
    """Price one step.

    Stages: every op on the device, tensor parallel collectives in line, the host beside them. Pipeline: Σ stages +
    (m − 1) · slowest. Then what data parallel communication cannot hide, and the optimizer.
    """
    plan, m = scenario.plan, scenario.micro_batches
    # Stages between the first and the last are alike.
    kinds = {(stage.first, stage.last): stage for stage in layout}
    priced = {kind: stage_pass(scenario, stage, e) for kind, stage in kinds.items()}
    passes = [priced[stage.first, stage.last] for stage in layout]
    pace = max(range(len(layout)), key=lambda i: passes[i].seconds)
    stage, one = layout[pace], passes[pace]

    send_s = send_s_of(scenario, stage, e)
    pipeline = float(pipeline_s([p.seconds for p in passes], m))
    # One stage has none; the difference would leave what rounding leaves.
    bubble = max(0.0, pipeline - m * one.seconds) if plan.pp > 1 else 0.0
    pipeline_communication = 2 * send_s * (plan.pp - 1) if plan.pp > 1 else 0.0
    if plan.pp > 1:
        # Each micro-batch's send and receive also pass through the pace-setting stage's stream.
        pipeline_communication += 2 * send_s * max(m - 1, 0)

    accumulation = (m - 1) * sum(float(price(op, scenario.cluster.chip, e).seconds) for op in stage.accumulation)
    data, copies_s = data_parallel(scenario, stage, one, e)
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
        collectives=(*tensor_collectives(scenario, stage, e), *data, *sends_listed(scenario, send_s, stage)),
    )
