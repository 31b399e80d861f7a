"""Explain: what limits a step, in words; what was assumed; and what to do where it does not fit."""

from __future__ import annotations

from dataclasses import replace

from estimator.efficiency import Efficiencies
from estimator.listing import Collective, MemoryOfStage
from estimator.problems import Problem
from estimator.remedies import remedy
from estimator.scenario import Scenario
from estimator.units import bytes_text, seconds

REMEDIES = {
    "matmul": "Matrix products bind: a lower precision or a faster chip helps, more memory bandwidth does not.",
    "attention": "Attention binds: a fused kernel, a shorter sequence or wider heads help.",
    "elementwise": "Memory traffic of element-wise kernels binds: compiling (fusing them) is the first remedy.",
    "communication": "Exposed communication binds: a smaller degree on that axis, or larger micro-batches, hide more.",
    "optimizer": "The optimizer's memory traffic binds: a fused optimizer or sharding it over dp helps.",
    "bubble": "The pipeline bubble binds: more micro-batches per step, or fewer stages, shrink it.",
    "host": "The host binds: the chip waits for launches; compile, CUDA graphs or a larger micro-batch help.",
    "other": "Copies bind.",
}


def limits(
    scenario: Scenario,
    step_s: float,
    breakdown_s: dict[str, float],
    collectives: tuple[Collective, ...],
    peak: float,
    reserved: float,
    capacity: float,
) -> str:
    """Name the largest part of the step, its share, and the first remedy."""
    name, value = max(breakdown_s.items(), key=lambda item: item[1])
    share = value / step_s
    sentence = f"{name.capitalize()} takes {seconds(value)} of {seconds(step_s)} ({share:.0%}). {REMEDIES[name]}"
    if name == "matmul" and scenario.plan.recompute != "none":
        sentence += " Recomputing less saves products where memory allows."
    exposed_s = breakdown_s["communication"]
    if exposed_s > 0.1 * step_s and name != "communication":
        worst = max(collectives, key=lambda c: c.exposed_s)
        sentence += (
            f" Communication leaves {seconds(exposed_s)} exposed ({exposed_s / step_s:.0%}),"
            f" most of it the {worst.axis} {worst.kind}."
        )
    if reserved > capacity:
        return f"Does not fit: {needed(peak, reserved)} of {bytes_text(capacity)}. {sentence}"
    return sentence


def needed(peak: float, reserved: float) -> str:
    """Write what a step needs: what the allocator reserves, and the peak it serves."""
    return f"{bytes_text(reserved)} ({bytes_text(peak)} at the peak, and what the allocator holds back)"


def effective(scenario: Scenario) -> Scenario:
    """Return the scenario as the framework will run it, where it silently falls back.

    Eager PyTorch has no fused fp32 attention for grouped key/value heads: scaled_dot_product_attention then takes its
    math path, which keeps the scores (seen with torch 2.11 on H200).
    """
    training = scenario.training
    grouped = scenario.model.kv != scenario.model.heads
    if (
        grouped
        and training.attention == "sdpa"
        and training.precision in ("fp32", "tf32")
        and training.framework == "pytorch-eager"
        and not training.compile
    ):
        return replace(scenario, training=replace(training, attention="eager"))
    return scenario


def assumptions(scenario: Scenario, e: Efficiencies) -> tuple[str, ...]:
    """List what the prediction takes for granted."""
    training, plan = scenario.training, scenario.plan
    found = [
        f"Efficiencies “{e.name}”: products reach {e.gemm_matrix_frac:.0%} of the dense matrix peak,"
        f" contiguous kernels {e.memory_frac:.0%} of memory bandwidth.",
        f"{f'Dropout {training.dropout:g}' if training.dropout else 'No dropout'}; causal attention;"
        " the loss is taken over every token.",
        "MFU counts products and the full attention square, nothing recomputed (PaLM's convention); HFU counts what the"
        " chips execute: recomputation, but no tiles that a causal kernel skips.",
    ]
    if training.framework == "pytorch-eager" and not training.compile:
        found.append("Norms, rotary positions, softmax and casts run as separate eager kernels.")
    if training.attention == "eager" and training.framework == "pytorch-eager":
        found.append("Attention keeps the score matrix (eager, or the math path of grouped fp32 attention).")
    if plan.sharding in ("zero3", "fsdp") and training.precision.endswith("amp"):
        found.append("FSDP mixed precision: fp32 shards, gathered and computed in 2 bytes.")
    if e.lower_bound:
        found.append(
            "A lower bound: every operation takes as long as the roof that binds it, and communication shows only where"
            " it takes longer than the compute beside it."
        )
    if plan.dp > 1 and plan.overlap and not e.lower_bound:
        found.append(
            f"Gradient exchange hides behind memory-bound kernels, not behind matrix products"
            f" (contention {e.contention_frac:.0%})."
        )
    if plan.tp > 1 and not e.lower_bound:
        found.append("Tensor parallel collectives do not overlap with compute.")
    if plan.chips > scenario.cluster.chips_per_node:
        order = ", then ".join(plan.placement.split("-"))
        found.append(f"Axes fill a node from the inside out: {order}.")
    if scenario.model.experts:
        found.append("Tokens spread evenly over the experts.")
    if plan.ep > 1 and not e.lower_bound:
        found.append(
            "Dispatch and combine of experts do not overlap with compute, as in Megatron-Core without"
            " --overlap-moe-expert-parallel-comm; DualPipe would hide them."
        )
    return tuple(found)


def memory_problems(
    scenario: Scenario, fullest: MemoryOfStage, reserved: float, capacity: float, e: Efficiencies
) -> tuple[Problem, ...]:
    """Report a step that does not fit, with the largest kind and what makes it fit or saves most."""
    if reserved <= capacity:
        return ()
    kind = max(fullest.by_kind, key=lambda name: fullest.by_kind[name])
    return (
        Problem(
            field="memory",
            message=f"{needed(fullest.peak_bytes, reserved)} do not fit into {bytes_text(capacity)};"
            f" the largest part, {kind}, is {bytes_text(fullest.by_kind[kind])}",
            remedy=remedy(scenario, e, reserved, capacity),
        ),
    )
