"""Every figure of the DeepFlow log, in its order and units, from the model's own numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from estimator.cost.cache_roofline import Cost
from estimator.scenario.units import GIB, MIB, Number
from estimator.studies.deepflow import lstm, lstm_memory
from estimator.studies.deepflow.inputs import KIND_OF_TYPE, Inputs
from estimator.studies.deepflow.lstm import Lstm
from estimator.studies.deepflow.lstm_memory import Held
from estimator.studies.deepflow.lstm_plan import LstmPlan
from estimator.studies.deepflow.lstm_price import PricedPointwise, PricedProduct, Rates
from estimator.studies.deepflow.lstm_step import LstmStep
from estimator.studies.deepflow.technology import Machine

TIB = 1024.0**4
TOKENS = 768_648_884
"""Tokens of the one billion word benchmark's training set, as the reference's script has it."""
DATA_SCALE = 100
DAY_S = 86_400

Line = tuple[str, str, float | int, str]
"""Group, name, value, unit."""


def lines(i: Inputs, m: Lstm, machine: Machine, r: Rates, plan: LstmPlan, step: LstmStep) -> Iterator[Line]:
    """Yield the figures of the log in its order."""
    for name in ("Hidden", "Projection", "Softmax"):
        yield from _updates(name, step, r)
    yield from _gemms(step.cf.products, r)
    yield from _pointwise(step.cf.pointwise, r)
    yield from _gemms(step.cb.products, r)
    yield from _pointwise(step.cb.pointwise, r)
    yield from _gemms(step.softmax_f.products, r)
    yield from _pointwise(step.softmax_f.pointwise, r)
    yield from _gemms(step.softmax_b.products, r)
    yield from _pointwise(step.softmax_b.pointwise, r)
    yield from _gemms((*step.projection_f.products, *step.projection_b.products), r)
    for prefix in ("", "(gr) "):
        yield "Embedding", f"{prefix}Embedding_mem", _whole(lstm.embedding_bytes(m)), "B"
    yield from _plan("parallelism", plan, ("hidden", "softmax", "embedding"), both=True)
    yield from _components(m, step)
    yield from _hardware(machine)
    whole = lstm_memory.requirement(m)
    shard = lstm_memory.requirement(m, {part: getattr(plan, part) for part in lstm_memory.PARTS}, stages=plan.hlp)
    yield from memory_lines("Memory Requirement Breakdown per Data Shard", whole, machine, overflow_last=True)
    yield from memory_lines(
        "Memory Requirement Breakdown per Data Shard Per Model Shard", shard, machine, overflow_last=False
    )
    yield from _plan("Parallelism Strategy", plan, ("hidden", "softmax", "embedding", "projection"), both=False)
    yield "result", "Time", _real(step.seconds), "s"
    yield "result", "time_per_step", time_per_step_s(i.target_batch, i.sequence), "s"


def time_per_step_s(batch: int, sequence: int) -> float:
    """Seconds that a step may take so that an epoch of 100 × the data takes a day: 86400 / ⌊100·tokens / (B·S)⌋."""
    return DAY_S / max(1, math.floor(DATA_SCALE * TOKENS / (batch * sequence)))


def components(of: LstmStep) -> Iterator[tuple[str, float]]:
    """Yield the components of a step in seconds, each executed once, by the names of the log."""
    for name, seconds in (
        ("Cf", of.cf.seconds), ("Cb", of.cb.seconds), ("R", of.updates["Hidden"].seconds),
        ("softmax_f", of.softmax_f.seconds), ("softmax_b", of.softmax_b.seconds),
        ("embedding_f", of.embedding_f_s), ("embedding_b", of.embedding_b_s),
        ("projection_f", of.projection_f.seconds), ("projection_b", of.projection_b.seconds),
    ):  # fmt: skip
        yield name, float(seconds)


def memory_lines(group: str, held: dict[str, Held], machine: Machine, *, overflow_last: bool) -> Iterator[Line]:
    """Yield one block of the memory table in GiB, and the overflow: what is needed over what is there."""
    everything = lstm_memory.total(held)
    yield group, "Total Memory", _real(everything.bytes) / GIB, "GiB"
    for part in ("embedding", "hidden", "softmax", "projection"):
        yield group, f"{part.capitalize()} Memory", _real(held[part].bytes) / GIB, "GiB"
    overflow = _real(everything.bytes) / _real(machine.memory_bytes)
    if not overflow_last:
        yield group, "Memory Overflow Rate", overflow, ""
    yield group, "Total Memory again", _real(everything.bytes) / GIB, "GiB"
    yield group, "Weight Memory", _real(everything.weights_bytes) / GIB, "GiB"
    yield group, "Activation Memory", _real(everything.activations_bytes) / GIB, "GiB"
    yield group, "Pointwise Memory", _real(everything.pointwise_bytes) / GIB, "GiB"
    if overflow_last:
        yield group, "Memory Overflow Rate", overflow, ""


def _updates(name: str, step: LstmStep, r: Rates) -> Iterator[Line]:
    group, update = f"{name} optimizer", step.updates[name]
    for word, priced in (("applyGrad", update.apply), ("gradclip", update.clip)):
        yield group, f"{word} inflection_point", _ridge(r), "FLOP/B"
        yield group, f"{word} comp_int", _real(priced.pointwise.flops / priced.pointwise.bytes), "FLOP/B"
    for word, priced in (("gradclip", update.clip), ("applyGrad", update.apply)):
        yield group, f"{word}_flop", _whole(priced.pointwise.flops), "FLOP"
        yield group, f"{word}_mem", _whole(priced.pointwise.bytes), "B"
        yield group, f"{word}_time", _real(priced.seconds), "s"


def _gemms(products: tuple[PricedProduct, ...], r: Rates) -> Iterator[Line]:
    for priced in products:
        group = f"{priced.product.name} GEMM"
        for prefix, cost in (("", priced.as_is), ("transposed ", priced.transposed)):
            yield from _reloads(group, prefix, cost)
        for prefix, cost in (("", priced.as_is), ("transposed ", priced.transposed)):
            yield group, f"{prefix}inflection_point", _ridge(r), "FLOP/B"
            yield group, f"{prefix}comp_int", _real(cost.flops / cost.traffic[0].bytes), "FLOP/B"
        best = priced.as_is if priced.as_is.seconds <= priced.transposed.seconds else priced.transposed
        yield group, "GEMM_flop", _whole(best.flops), "FLOP"
        yield group, "GEMM_gmem", _whole(best.traffic[0].bytes), "B"
        yield group, "GEMM_l2mem", _whole(best.traffic[1].bytes), "B"
        yield group, "GEMM_time", _real(priced.seconds), "s"


def _reloads(group: str, prefix: str, cost: Cost) -> Iterator[Line]:
    for level, moved in zip(("gmem", "l2mem"), cost.traffic[:2], strict=True):
        yield group, f"{prefix}{level} reload_AB", _whole(moved.reload_ab), ""
        yield group, f"{prefix}{level} reload_AC", _whole(moved.reload_ac), ""
        yield group, f"{prefix}{level} reload_BC", _whole(moved.reload_bc), ""


def _pointwise(priced: PricedPointwise | None, r: Rates) -> Iterator[Line]:
    assert priced is not None
    group = f"{priced.pointwise.name} pointwise"
    yield group, "inflection_point", _ridge(r), "FLOP/B"
    yield group, "comp_int", _real(priced.pointwise.flops / priced.pointwise.bytes), "FLOP/B"
    yield group, "point_flop", _whole(priced.pointwise.flops), "FLOP"
    yield group, "point_mem", _whole(priced.pointwise.bytes), "B"
    yield group, "point_time", _real(priced.seconds), "s"


def _components(m: Lstm, of: LstmStep) -> Iterator[Line]:
    for name, seconds in components(of):
        yield "components", name, seconds, "s"
    yield "components", "#Parameters", lstm_memory.parameters(m, softmax_width=m.hidden) / 1e9, "1e9"


def _hardware(m: Machine) -> Iterator[Line]:
    group, derating = "Hardware Configuration", m.utilisation_frac
    yield group, "Throughput", _real(m.flops_per_s / 1e12 / derating), "TFLOP/s"
    yield group, "Memory Bandwidth", _real(m.memory_bytes_per_s / GIB / derating), "GiB/s"
    yield group, "Memory Size", _real(m.memory_bytes / GIB), "GiB"
    yield group, "L2 Bandwidth", _real(m.l2_bytes_per_s / TIB), "TiB/s"
    yield group, "L2 Size", _real(m.l2_bytes / MIB), "MiB"
    yield group, "Shared Memory Size", _real(m.shared_bytes / MIB), "MiB"
    yield group, "Interconnection Bandwidth", _real(m.link_bytes_per_s / GIB), "GiB/s"


def _plan(group: str, plan: LstmPlan, parts: tuple[str, ...], *, both: bool) -> Iterator[Line]:
    yield group, "dp", plan.dp, ""
    yield group, "lp", plan.lp, ""
    yield group, "hlp", plan.hlp, ""
    for part in parts:
        split = getattr(plan, part)
        if part == "embedding" and not both:
            yield group, "kp_embedding", split.first, ""
            continue
        yield group, f"kp_{part}_dim1", split.first, ""
        yield group, f"kp_{part}_dim2", split.second, ""
    if both:
        for part in parts:
            yield group, f"kp_{part}_type", KIND_OF_TYPE[getattr(plan, part).kind], ""


def _ridge(r: Rates) -> float:
    return _real(r.flops_per_s / r.memory.bytes_per_s)


def _real(value: Number) -> float:
    return float(value)


def _whole(value: Number) -> int | float:
    number = float(value)
    return int(number) if number.is_integer() else number
