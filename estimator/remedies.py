"""Remedies: which changes of a plan make a step fit into memory, each tried and told with what it saves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from estimator.efficiency import Efficiencies
from estimator.listing import stage_memories
from estimator.problems import either
from estimator.rank import rank_of, setting_of
from estimator.scenario import Scenario, scenario_problems
from estimator.units import bytes_text

MOST_TOGETHER = 4
"""Changes of one piece of advice; who needs more needs another plan."""
MOST_NAMED = 3
"""Of the changes each of which is enough, those that cost least time."""
LEAST_FRAC = 0.02
"""What saves less than this share of the memory is no remedy."""
MORE = "take more chips, or chips with more memory"


def reserved_bytes(scenario: Scenario, e: Efficiencies) -> float:
    """Bytes that the allocator reserves on the fullest chip of a legal scenario."""
    stages = stage_memories(setting_of(scenario, rank_of(scenario, e)), e.workspace_bytes)
    return max(stage.peak_bytes for stage in stages) * e.allocator_frac


def remedy(scenario: Scenario, e: Efficiencies, reserved: float, capacity: float) -> str:
    """Say what makes a step fit that needs ``reserved`` of ``capacity`` bytes.

    One change where one is enough, else those that save most, one after another, until it fits.
    """
    tried = _tried(scenario, e)
    enough = [(needed, words) for needed, words, _ in tried if needed <= capacity]
    if len(enough) == 1:
        return f"Choose {enough[0][1]}: {bytes_text(enough[0][0])}, which fits."
    if enough:
        named = [f"{words} ({bytes_text(needed)})" for needed, words in enough[:MOST_NAMED]]
        return f"Choose {either(named)}: each alone fits."
    chosen: list[str] = []
    while tried and len(chosen) < MOST_TOGETHER and reserved > capacity:
        needed, words, changed = min(tried, key=lambda one: one[0])
        if needed > reserved * (1 - LEAST_FRAC):
            break
        chosen.append(f"{words} (saves {bytes_text(reserved - needed)})")
        scenario, reserved = changed, needed
        tried = _tried(scenario, e)
    if not chosen:
        return f"No change of the plan helps: {MORE}."
    *others, last = chosen
    together = f"Choose {', '.join(others)}{' and ' if others else ''}{last}: {bytes_text(reserved)}"
    return f"{together}, which fits." if reserved <= capacity else f"{together}, still too much; {MORE}."


def _tried(scenario: Scenario, e: Efficiencies) -> list[tuple[float, str, Scenario]]:
    """What each legal change would need, in the order in which they cost least time."""
    return [
        (reserved_bytes(changed, e), words, changed)
        for words, changed in _changes(scenario)
        if not scenario_problems(changed)
    ]


def _changes(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Changes of one field that save memory; tp and pp take their ranks from dp."""
    plan, training, model = scenario.plan, scenario.training, scenario.model

    def to(**changes: object) -> Scenario:
        return replace(scenario, plan=replace(plan, **changes))  # type: ignore[arg-type]

    if plan.sharding != "fsdp" and plan.dp * plan.cp > 1:
        yield "sharding fsdp", to(sharding="fsdp")
    # fp32 may fall back to eager attention whatever is chosen
    if training.attention == "eager" and training.precision not in ("fp32", "tf32"):
        yield "attention sdpa", replace(scenario, training=replace(training, attention="sdpa"))
    if model.experts and model.experts % (2 * plan.ep) == 0:
        yield f"ep {2 * plan.ep}", to(ep=2 * plan.ep)
    if plan.recompute == "none":
        yield "recompute selective", to(recompute="selective")
    if plan.micro_batch > 1:
        yield "micro_batch 1", to(micro_batch=1)
    if plan.recompute != "full":
        yield "recompute full", to(recompute="full")
    if plan.dp % 2 == 0:
        if 2 * plan.tp <= scenario.cluster.chips_per_node:
            yield f"tp {2 * plan.tp}", to(tp=2 * plan.tp, dp=plan.dp // 2)
        yield f"pp {2 * plan.pp}", to(pp=2 * plan.pp, dp=plan.dp // 2)
    if plan.offload == "none":
        yield "offload optimizer", to(offload="optimizer")
