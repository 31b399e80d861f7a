"""What contradicts itself in the DeepFlow model of the log: where it shows, and the figures without it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from estimator.scenario.units import GIB
from estimator.studies.deepflow import lstm_memory
from estimator.studies.deepflow.inputs import Inputs, machine_of, model_of, rates_of
from estimator.studies.deepflow.log import components, memory_lines, time_per_step_s
from estimator.studies.deepflow.lstm import Lstm
from estimator.studies.deepflow.lstm_plan import LstmPlan
from estimator.studies.deepflow.lstm_step import LstmStep, step
from estimator.studies.deepflow.technology import SHARES, Machine


@dataclass(frozen=True, kw_only=True)
class Inconsistency:
    """One contradiction: what it is, the figures (group, name) that it touches, and what the corrected column does."""

    number: int
    what: str
    corrected: str
    touches: tuple[tuple[str, str], ...]


PER_DATA_SHARD = "Memory Requirement Breakdown per Data Shard"

INCONSISTENCIES: tuple[Inconsistency, ...] = (
    Inconsistency(
        number=1,
        what="The projection is missing from Time and from the softmax product, which is as wide as the hidden layer, "
        "but the memory table has it, with a softmax as wide as the projection, and the parameters count both",
        corrected="projection in the step, softmax as wide as the projection, parameters to match",
        touches=(
            ("result", "Time"), ("components", "softmax_f"), ("components", "softmax_b"),
            ("components", "#Parameters"), (PER_DATA_SHARD, "Softmax Memory"), (PER_DATA_SHARD, "Projection Memory"),
        ),
    ),
    Inconsistency(
        number=2,
        what="Pointwise work of the backward cell lacks the factor of the gates, and the traffic of the weights' "
        "accumulation is in elements, a quarter of its bytes",
        corrected="all gates, and bytes",
        touches=(("components", "Cb"), ("(gr) Hidden pointwise", "point_flop"), ("(gr) Hidden pointwise", "point_mem")),
    ),
    Inconsistency(
        number=3,
        what="Nothing compares L2 with compute: above the ridge memory is ignored, below it the time of L2 is added",
        corrected="the longest of compute and every level (mode bound)",
        touches=(("components", "Cf"), ("components", "Cb"), ("components", "softmax_f"), ("components", "softmax_b")),
    ),
    Inconsistency(
        number=4,
        what="1152 TiB/s of L2 and 55 MiB of shared memory follow from the assumed energies; no device has them",
        corrected="kept; the roofline of a catalogue chip beside it uses published levels",
        touches=(
            ("Hardware Configuration", "L2 Bandwidth"), ("Hardware Configuration", "L2 Size"),
            ("Hardware Configuration", "Shared Memory Size"),
        ),
    ),
    Inconsistency(
        number=5,
        what="The shares of power add up to 1.09: the links keep 0.2 of it, but a single processor has none, and the "
        "bandwidth is 0",
        corrected="without a second processor the links get nothing; what still adds up to more than 1 is scaled to 1",
        touches=(
            ("Hardware Configuration", "Throughput"), ("Hardware Configuration", "Memory Bandwidth"),
            ("Hardware Configuration", "Interconnection Bandwidth"),
        ),
    ),
    Inconsistency(
        number=6,
        what="Link latency (1.6 µs), shared memory's bandwidth and the counts of nonlinear and additive operations "
        "have no effect at degree 1",
        corrected="shared memory is timed, between tiles in shared memory and in registers",
        touches=(("Hardware Configuration", "Shared Memory Size"), ("components", "Cf")),
    ),
    Inconsistency(
        number=7,
        what="A type of −1 means that there is no kernel parallelism, not a kind of it",
        corrected="the input says none",
        touches=(
            ("parallelism", "kp_hidden_type"), ("parallelism", "kp_softmax_type"), ("parallelism", "kp_embedding_type"),
        ),
    ),
)  # fmt: skip

EXTRA_NOTES = (
    "time_per_step is a target, not a prediction: an epoch of 100 × 768 648 884 tokens in one day. The script that "
    "appended it passed batch 32; the corrected column has it for the batch of the study.",
    "The overflow rate has no effect on Time: 198.8 GiB on 26.8 GiB take as long as if they fitted.",
    "Throughput, memory and link bandwidth are printed before the derating of 0.7, in 1e12 FLOP/s and 2^30 B/s.",
    "Printed Time adds R once, however long it is. In the corrected column, and on more than one chip, an update "
    "longer than a cell's backward pass is exposed for every layer of a stage.",
    "The log holds 334 numbers: 293 figures, all in these groups in its order, and 41 digits that belong to names "
    "(kp_hidden_dim1, l2mem, L2).",
    "Degrees above 1 follow the published formulas with the volumes that blocks really send: the June 2019 revision "
    "adds one gather twice (column-row backward), gathers weights with the batch's dimension, and redistributes whole "
    "tensors where each processor needs one piece.",
)


def notes() -> tuple[str, ...]:
    """The seven contradictions as sentences with the figures that they touch, then what else a reader needs."""
    return (
        *(
            f"[{one.number}] {one.what}. Touches {', '.join(f'{g} / {n}' for g, n in one.touches)}. "
            f"Corrected: {one.corrected}."
            for one in INCONSISTENCIES
        ),
        *EXTRA_NOTES,
    )


def within_budget(i: Inputs, plan: LstmPlan) -> Inputs:
    """The inputs with links powered only where there are links, and shares that add up to at most 1."""
    used = i if plan.chips > 1 else replace(i, link_power_frac=0.0)
    total = sum(getattr(used, name) for name in SHARES)
    if total <= 1:
        return used
    return replace(used, **{name: getattr(used, name) / total for name in SHARES})


def corrected_step(i: Inputs, plan: LstmPlan) -> tuple[Machine, LstmStep]:
    """Machine and step with every contradiction resolved."""
    own = within_budget(i, plan)
    machine = machine_of(own, plan)
    return machine, step(model_of(i), rates_of(own, machine, mode="bound"), plan, projected=True, corrected=True)


def one_by_one(i: Inputs, plan: LstmPlan) -> Iterator[tuple[str, float]]:
    """Yield Time as the reference has it, and with one contradiction after the other resolved."""
    m, own = model_of(i), within_budget(i, plan)
    stated, budget = machine_of(i, plan), machine_of(own, plan)
    for name, machine, mode, projected, backward in (
        ("as the reference", stated, i.mode, False, False),
        ("+ projection in the step [1]", stated, i.mode, True, False),
        ("+ backward pointwise in full [2]", stated, i.mode, True, True),
        ("+ longest level binds [3, 6]", stated, "bound", True, True),
        ("+ power within the budget [5]", budget, "bound", True, True),
    ):
        rates = rates_of(own if machine is budget else i, machine, mode=mode)
        yield name, float(step(m, rates, plan, projected=projected, corrected=backward).seconds)


def lines(i: Inputs, plan: LstmPlan) -> Iterator[tuple[str, str, float, str]]:
    """Yield the corrected figures: group, name, value, unit, under the names that the log uses."""
    m: Lstm = model_of(i)
    machine, fixed = corrected_step(i, plan)
    for name, seconds in components(fixed):
        yield "components", name, seconds, "s"
    count = lstm_memory.parameters(m, softmax_width=m.projection, projection_bias=True)
    yield "components", "#Parameters", count / 1e9, "1e9"
    yield "(gr) Hidden pointwise", "point_flop", _pointwise(fixed, "flops"), "FLOP"
    yield "(gr) Hidden pointwise", "point_mem", _pointwise(fixed, "bytes"), "B"
    utilisation = float(machine.utilisation_frac)
    yield "Hardware Configuration", "Throughput", float(machine.flops_per_s) / 1e12 / utilisation, "TFLOP/s"
    yield "Hardware Configuration", "Memory Bandwidth", float(machine.memory_bytes_per_s) / GIB / utilisation, "GiB/s"
    yield "Hardware Configuration", "Interconnection Bandwidth", float(machine.link_bytes_per_s) / GIB, "GiB/s"
    yield from memory_lines(PER_DATA_SHARD, lstm_memory.requirement(m), machine, overflow_last=True)
    yield "result", "Time", float(fixed.seconds), "s"
    yield "result", "time_per_step", time_per_step_s(i.batch, i.sequence), "s"


def _pointwise(fixed: LstmStep, quantity: str) -> float:
    assert fixed.cb.pointwise is not None
    return float(getattr(fixed.cb.pointwise.pointwise, quantity))
