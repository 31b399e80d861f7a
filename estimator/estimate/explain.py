"""Explain: what limits a step, in words; what was assumed; and what to do where it does not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from estimator.communication.in_line import AXES_IN_LINE
from estimator.cost.device_time import slower
from estimator.cost.efficiency import Calibrated, Efficiencies, passed_over, probes_host
from estimator.cost.host import (
    BIAS_PRODUCTS,
    HEAD_NORM_PRODUCTS,
    NORM_KERNEL_PRODUCTS,
    NORM_PRODUCTS,
    runs_again_apart,
    slowest_rank,
    waiting_ranks,
)
from estimator.cost.slowest_chip import NODE, node_factor
from estimator.estimate.assemble import rank_of, setting_of
from estimator.estimate.interval import UNEVEN, product_efficiency, uneven
from estimator.estimate.recomputing import Recomputing, recomputing_words, runs_again_words
from estimator.estimate.report import Collective, MemoryOfStage, stage_memories
from estimator.operations.rank_sizes import rank_sizes
from estimator.scenario.breakdown import SHOWN_CATEGORIES, SHOWN_MEMORY_KINDS, Category
from estimator.scenario.hardware import Chip, Cluster
from estimator.scenario.precision import byte_widths
from estimator.scenario.problems import REMEDY_KINDS, Problem, either
from estimator.scenario.scenario import Scenario, scenario_problems
from estimator.scenario.training import MATH, SCORES_KEPT
from estimator.scenario.units import Number, bytes_text, seconds
from estimator.schedule.micro_batch import Pass
from estimator.schedule.step import Step

WAITS = 0.02
"""Share of a micro-batch that waits for the host from which on it is said to bind."""


@dataclass(frozen=True, kw_only=True)
class Launching:
    """What the host takes to launch a step where it binds; ``communication_s``: what shows beside its micro-batches."""

    seconds: float = 0.0
    communication_s: float = 0.0


def is_paced(host_s: float, device_s: float, waits_s: float) -> bool:
    """Whether the host takes longer to launch what the device runs, and the device waits for it."""
    return host_s > device_s and waits_s > WAITS * (device_s + waits_s)


def launching(timing: Step, e: Efficiencies, micro_batches: float) -> Launching:
    """Say what the host takes to launch a step's micro-batches on the slowest stage, where that is what binds them."""
    one = timing.one
    if not is_paced(float(_host_s(one)), float(one.device_s), float(_waits_s(one, e))):
        return Launching()
    return Launching(
        seconds=micro_batches * float(_host_s(one)), communication_s=float(timing.exposed_s - timing.inline_s)
    )


def binding(breakdown_s: Mapping[str, float], launched: Launching) -> tuple[str, float]:
    """Give the category that binds and its seconds: the largest, where the host does not bind.

    Where it does, what the device does meanwhile (compute, and communication in line) would cost nothing less if it
    were faster, so that launches stand for it beside what is outside of the micro-batches.
    """
    if not launched.seconds:
        return max(breakdown_s.items(), key=lambda item: item[1])
    parts = {
        Category.HOST: launched.seconds,
        Category.COMMUNICATION: launched.communication_s,
        **{name: breakdown_s[name] for name in (Category.OPTIMIZER, Category.BUBBLE)},
    }
    return max(parts.items(), key=lambda item: item[1])


def limits(
    step_s: float,
    breakdown_s: dict[str, float],
    collectives: tuple[Collective, ...],
    peak: float,
    reserved: float,
    capacity: float,
    launched: Launching,
) -> str:
    """Name what binds the step and its share; what would help is told by estimates of other values alone."""
    name, value = binding(breakdown_s, launched)
    share = value / step_s
    shown = SHOWN_CATEGORIES[name]
    # what the host takes to launch and what the device waits for it are two figures: each says which it is
    waits_s = breakdown_s[name] if launched.seconds and name == Category.HOST else 0.0
    waits = f" to launch its micro-batches, and in all the chip waits {seconds(waits_s)} for it" if waits_s else ""
    sentence = (
        f"{shown.label.capitalize()} takes {seconds(value)} of {seconds(step_s)} ({share:.0%}){waits}. {shown.binds}"
    )
    exposed_s = launched.communication_s if launched.seconds else breakdown_s[Category.COMMUNICATION]
    if exposed_s > 0.1 * step_s and name != Category.COMMUNICATION:
        shows = [one for one in collectives if not launched.seconds or one.axis not in AXES_IN_LINE]
        worst = max(shows or collectives, key=lambda c: c.exposed_s)
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


def shared_cpu(cluster: Cluster) -> tuple[str, ...]:
    """Say of several ranks of one CPU that each is predicted with its share of it."""
    ranks = cluster.ranks_of_a_cpu
    if ranks == 1:
        return ()
    return (f"{ranks} ranks share one CPU: each is predicted with 1/{ranks} of its cores, caches and memory.",)


def reached(e: Efficiencies, precisions: Sequence[str]) -> str:
    """Say what products in some precisions, the most important first, and plain kernels reach of a chip's peaks."""
    said: list[str] = []
    for precision in dict.fromkeys(one.removesuffix("-amp") for one in precisions):
        share = getattr(e, product_efficiency(precision))
        verb = "reach " if not said else ""
        said.append(f"in {precision} {verb}{share:.0%} of the dense {precision} peak")
    products = f"products {' and '.join(said)}, " if said else ""
    about = f" Calibrated: {e.about}" if e.about else ""
    return f"Efficiencies “{e.name}”: {products}contiguous kernels {e.memory_frac:.0%} of memory bandwidth.{about}"


def passed_over_words(chip: Chip, calibration: Calibrated | None) -> tuple[str, ...]:
    """Say of calibrations that are all of other chips that none of them is used, naming both."""
    others = passed_over(chip, calibration)
    if not others:
        return ()
    of = " and ".join(f"“{one.name}” is of {one.device}" for one in others)
    own = chip.name or chip.label or "a chip of one's own"
    return (f"No calibration is used: {of}, and this is predicted for {own}, with the efficiencies of its family.",)


def hot_node(e: Efficiencies, in_node: int) -> tuple[str, ...]:
    """Say what products lose where ``in_node`` chips of a node work at once; nothing where they lose nothing."""
    near = node_factor(e, in_node)
    if near >= 1.0:
        return ()
    return (
        f"Of the peak, products reach less than on one chip alone: they have lost {1.0 - near:.0%} to power and heat"
        f" of {min(in_node, NODE)} chips that work for long in one node.",
    )


def slowed_clock(e: Efficiencies, clock_frac: float) -> tuple[str, ...]:
    """Say that products run below the full clock, and why; nothing where they do not."""
    if clock_frac > LEAST_TOLD:
        return ()
    return (
        f"Products run at {clock_frac:.0%} of the full clock and take {slower(clock_frac, e) - 1.0:.0%} longer, as at"
        f" full clock this step would draw more than the chip's limit of {e.power_limit_w:.0f} W.",
    )


LEAST_TOLD = 0.995
"""A clock that is nearer to the full one is not spoken of."""


def fallen_back(given: Scenario, effective: Scenario) -> tuple[str, ...]:
    """Say what runs in the stead of fused attention in 32 bits, with the fields that change it."""
    asked, runs = given.training, effective.training.attention
    if runs == asked.attention or by_kernel(effective):
        return ()
    if not asked.attention.startswith("flash"):
        return (
            f"training.attention {asked.attention}: where heads share keys and values PyTorch has no fused kernel in"
            f" {asked.precision}; priced is its math path, which keeps the scores. Set training.precision to bf16-amp.",
        )
    instead = "its math path, which keeps the scores" if runs == MATH else "its memory-efficient kernel (sdpa)"
    return (
        f"training.attention {asked.attention}: FlashAttention takes 16 bits alone, and training.precision is"
        f" {asked.precision}; priced is what PyTorch runs in its stead, {instead}. Set training.attention to sdpa, or"
        " training.precision to bf16-amp.",
    )


def by_kernel(scenario: Scenario) -> bool:
    """Whether several ranks pass keys and values round whose scores lie in memory, a piece at a time."""
    return scenario.plan.cp > 1 and rank_sizes(scenario).rings_by_kernel


def assumptions(
    scenario: Scenario, e: Efficiencies, one: Pass, clock_frac: float = 1.0, again: Recomputing | None = None
) -> tuple[str, ...]:
    """List what the prediction takes for granted; ``one``: a micro-batch on the slowest stage, ``again``: of it."""
    training, plan = scenario.training, scenario.plan
    widths = byte_widths(training, plan)
    found = [
        reached(e, (widths.linear_peak, *([widths.peak] if widths.quantised else ()))),
        f"{f'Dropout {training.dropout:g}' if training.dropout else 'No dropout'}; causal attention;"
        " the loss is taken over every token.",
        "MFU counts products and the full attention square, nothing recomputed (PaLM's convention); HFU counts what the"
        " chips execute: recomputation, but no tiles that a causal kernel skips.",
    ]
    in_node = scenario.cluster.chips_per_node
    found += shared_cpu(scenario.cluster)
    found += [*hot_node(e, in_node), *slowed_clock(e, clock_frac)]
    if not training.fused:
        softmax = "softmax, " if training.attention in SCORES_KEPT else ""
        found.append(f"Norms, rotary positions, {softmax}activations and casts run as separate eager kernels.")
    if plan.cp > 1 and plan.cp_kind == "ring" and not training.fused:
        found.append(
            "A ring in plain PyTorch passes keys and values of all heads round; its first message and its gradients"
            " have nothing beside them."
        )
    if by_kernel(scenario):
        found.append(
            "Eager, or in 32 bits, a ring in plain PyTorch has the scores of a piece in memory, kernel by kernel, and"
            " makes them anew in backward."
        )
    elif training.attention in SCORES_KEPT and not training.traits.fuses:
        found.append("Attention keeps the score matrix.")
    if plan.sharding in ("zero3", "fsdp") and training.precision.endswith("amp"):
        found.append("FSDP mixed precision: fp32 shards, gathered and computed in 2 bytes.")
    if e.lower_bound:
        found.append(
            "A lower bound: every operation takes as long as the roof that binds it, and communication shows only where"
            " it takes longer than the compute beside it."
        )
    if plan.dp > 1 and plan.overlap and not e.lower_bound:
        contention = getattr(e, training.traits.contention)
        found.append(
            f"Gradient exchange hides behind memory-bound kernels, and in part behind matrix products"
            f" (contention {contention:.0%})."
        )
    if plan.tp > 1 and not e.lower_bound:
        beside = plan.tp_overlap and plan.sequence_parallel
        found.append(
            "Tensor parallel collectives pass beside the products they feed, all but a rank's share."
            if beside
            else "Tensor parallel collectives do not overlap with compute."
        )
    if plan.chips > scenario.cluster.chips_per_node:
        order = ", then ".join(plan.placement.split("-"))
        found.append(f"Axes fill a node from the inside out: {order}.")
    if scenario.model.experts:
        imbalance = training.expert_imbalance
        found.append(
            "Tokens spread evenly over the experts."
            + (f" The interval reaches to {UNEVEN:g} times as many on the fullest rank." if uneven(scenario) else "")
            if imbalance == 1
            else f"The fullest rank's experts get {imbalance:g} times the mean of tokens."
        )
    if plan.ep > 1 and not e.lower_bound:
        found.append(
            "Dispatch and combine of experts run beside the compute of another half micro-batch, as the plan says."
            if plan.ep_overlap
            else "Dispatch and combine of experts do not overlap with compute, as in Megatron-Core without"
            " --overlap-moe-expert-parallel-comm; DualPipe would hide them."
        )
    found += runs_again_words(scenario, one)
    found += _host(scenario, e, one, again or Recomputing())
    return tuple(found)


def _host_s(one: Pass) -> Number:
    """Host time of a micro-batch."""
    return one.part.host_forward_s + one.part.host_backward_s


def _waits_s(one: Pass, e: Efficiencies) -> Number:
    """What of a micro-batch's waits is for the host, not the gap at every launch."""
    gaps_s = e.kernel_gap_s * (one.part.launches_forward + one.part.launches_backward)
    return one.wait_forward_s + one.wait_backward_s - gaps_s


def _host(scenario: Scenario, e: Efficiencies, one: Pass, again: Recomputing) -> list[str]:
    """What is taken for granted of a host that binds, why it takes so long, and what makes it faster."""
    training, plan, part = scenario.training, scenario.plan, one.part
    host_s, device_s, waits_s = _host_s(one), one.device_s, _waits_s(one, e)
    if waits_s <= WAITS * (device_s + waits_s):
        return []
    binds = "The host binds" if host_s > device_s else "The host binds in part of a step"
    kernels = part.launches_forward + part.launches_backward
    ranks = waiting_ranks(training, scenario.cluster.chips, plan.pp)
    slower = float(slowest_rank(training, ranks, e))
    said = (
        f"{binds}: it takes {seconds(float(host_s))} to launch the {kernels:,.0f} kernels of a micro-batch, the"
        f" device {seconds(float(device_s))} to run them"
    )
    if slower > 1.0:
        said += f"; of {ranks:,.0f} ranks' hosts the slowest takes {slower:.2f} times the mean, and all wait for it"
    probed = probes_host(e, scenario.cluster.chip)
    found = [f"{said}." if probed else f"{said}. Hosts differ by two and more: calibrate with probes of yours."]
    found += recomputing_words(again, float(waits_s))
    return found + _dispatch(scenario, e, float(part.products), float(part.split_s), slower)


def _dispatch(scenario: Scenario, e: Efficiencies, products: float, split_s: float, slower: float) -> list[str]:
    """Where DTensor's dispatch is what the host takes so long for: all of it, its price, and the ways around it."""
    training, plan = scenario.training, scenario.plan
    if plan.tp == 1 or not training.traits.dtensor or not e.host_dtensor_s:
        return []
    product_s = e.host_dtensor_s
    norms = ""
    if plan.sequence_parallel:
        norm_s, kernel_s = product_s * NORM_PRODUCTS, product_s * NORM_KERNEL_PRODUCTS
        norms = f", and {seconds(norm_s)} a norm with {seconds(kernel_s)} a kernel of it"
    if scenario.model.qk_norm:
        both_s = product_s * sum(HEAD_NORM_PRODUCTS.values())
        norms += f", and {seconds(both_s)} for each norm of queries or keys, forward and backward"
    model = scenario.model
    some = model.bias or model.qkv_bias or model.output_bias or model.ffn_bias
    biased = f" (where it has a bias {BIAS_PRODUCTS:.0%} more)" if some else ""
    mean = " on the mean host" if slower > 1.0 else ""
    again = "" if plan.recompute == "none" else ", and once more where they are recomputed"
    ways = "a larger micro-batch pays it less often, Megatron's layers do without it"
    if training.traits.host == "eager" and not training.compile:
        ways += ", and compiling saves other launches"
    return [
        f"Of that, {seconds(slower * split_s)} are DTensor's dispatch, which finds the layout of every split tensor in"
        " Python:"
        f" {seconds(product_s)}{mean} for each of a micro-batch's {products:,.0f} products{biased} in forward and again"
        f" in backward{again}{norms}. The rest launches kernels. A way around it: {ways}."
    ]


def memory_problems(
    scenario: Scenario, fullest: MemoryOfStage, reserved: float, capacity: float, e: Efficiencies
) -> tuple[Problem, ...]:
    """Report a step that does not fit, with the largest kind and what makes it fit or saves most."""
    if reserved <= capacity:
        return ()
    kind = max(fullest.by_kind, key=lambda name: fullest.by_kind[name])
    words, remedy_kind = remedy(scenario, e, reserved, capacity)
    return (
        Problem(
            field="memory",
            message=f"{needed(fullest.peak_bytes, reserved)} do not fit into {bytes_text(capacity)};"
            f" the largest part, {SHOWN_MEMORY_KINDS[kind].label}, is {bytes_text(fullest.by_kind[kind])}",
            remedy=words,
            remedy_kind=remedy_kind,
        ),
    )


MOST_TOGETHER = 4
"""Changes of one piece of advice; who needs more needs another plan."""
MOST_NAMED = 3
"""Of the changes each of which is enough, those that cost least time."""
LEAST_FRAC = 0.02
"""What saves less than this share of the memory is no remedy."""
EACH, TOGETHER, SHORT = REMEDY_KINDS
MORE = "take more chips, or chips with more memory"


def reserved_bytes(scenario: Scenario, e: Efficiencies) -> float:
    """Bytes that the allocator reserves on the fullest chip of a legal scenario."""
    stages = stage_memories(setting_of(scenario, rank_of(scenario, e)), e)
    return max(stage.reserved_bytes for stage in stages)


def remedy(scenario: Scenario, e: Efficiencies, reserved: float, capacity: float) -> tuple[str, str]:
    """Say what makes a step fit that needs ``reserved`` of ``capacity`` bytes, and which of ``REMEDY_KINDS`` it is.

    One change where one is enough, else those that save most, one after another, until it fits.
    """
    tried = _tried(scenario, e)
    enough = [(needed, words) for needed, words, _ in tried if needed <= capacity]
    if len(enough) == 1:
        return f"Choose {enough[0][1]}: {bytes_text(enough[0][0])}, which fits.", EACH
    if enough:
        named = [f"{words} ({bytes_text(needed)})" for needed, words in enough[:MOST_NAMED]]
        return f"Choose {either(named)}: each alone fits.", EACH
    steps = _together(tried, e, reserved, capacity)
    if not steps:
        return f"No change of the plan helps: {MORE}.", SHORT
    before = [reserved, *(needed for needed, _, _ in steps)]
    *others, last = [
        f"{words} (saves {bytes_text(had - needed)})" for had, (needed, words, _) in zip(before, steps, strict=False)
    ]
    reserved = before[-1]
    together = f"Choose {', '.join(others)}{' and ' if others else ''}{last}: {bytes_text(reserved)}"
    if reserved <= capacity:
        return f"{together}, which fits.", TOGETHER
    return f"{together}, still too much; {MORE}.", SHORT


def made_to_fit(scenario: Scenario, e: Efficiencies, reserved: float, capacity: float) -> list[Scenario]:
    """Return where the advice leads: scenarios of one change each, else that of several; none where it falls short."""
    tried = _tried(scenario, e)
    if enough := [changed for needed, _, changed in tried if needed <= capacity]:
        return enough[:MOST_NAMED]
    steps = _together(tried, e, reserved, capacity)
    return [changed for needed, _, changed in steps[-1:] if needed <= capacity]


Tried = tuple[float, str, Scenario]
"""Bytes that a changed scenario needs, the words of its change, and the scenario."""


def _together(tried: list[Tried], e: Efficiencies, reserved: float, capacity: float) -> list[Tried]:
    """The changes that save most, one upon another, until they fit or nothing saves much more."""
    steps: list[Tried] = []
    while tried and len(steps) < MOST_TOGETHER and reserved > capacity:
        best = min(tried, key=lambda one: one[0])
        if best[0] > reserved * (1 - LEAST_FRAC):
            break
        # What changes a field again says it whole: tp 4, not tp 2 and tp 4.
        steps = [*(one for one in steps if _field(one) != _field(best)), best]
        reserved = best[0]
        tried = _tried(best[2], e)
    return steps


def _field(one: Tried) -> str:
    return one[1].partition(" ")[0]


def _tried(scenario: Scenario, e: Efficiencies) -> list[Tried]:
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
    # fp32 may fall back to the scores whatever is chosen
    if training.attention in SCORES_KEPT and training.precision not in ("fp32", "tf32"):
        yield "attention sdpa", replace(scenario, training=replace(training, attention="sdpa"))
    if model.experts and model.experts % (2 * plan.ep) == 0:
        yield f"ep {2 * plan.ep}", to(ep=2 * plan.ep)
    if runs_again_apart(plan, training):
        yield "schedule 1f1b", to(schedule="1f1b", virtual_stages=1)
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
