"""A machine from technology: a power budget and what a FLOP and a bit cost give peaks, bandwidths and capacities.

After DeepFlow's crossed-technology flow (Ardalani 2022, arXiv 2211.03309, section 3): power buys rate, bandwidth buys
banks, banks bring capacity. Every field may be a NumPy array; then the machine is one machine per element.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.units import GIB, KIB, Number

SHARES = ("core_power_frac", "dram_power_frac", "l2_power_frac", "shared_power_frac", "link_power_frac")

_POSITIVE = (
    "power_w", "core_j_per_flop", "dram_j_per_bit", "l2_j_per_bit", "shared_j_per_bit", "link_j_per_bit",
    "hbm_stack_bytes_per_s", "hbm_stack_bytes", "l2_bank_bytes_per_s", "shared_bank_bytes_per_s", "utilisation_frac",
)  # fmt: skip
_AT_LEAST_ZERO = (
    *SHARES, "l2_bank_bytes", "shared_bank_bytes", "dram_latency_s", "link_latency_s", "launch_s",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Technology:
    """Power budget, its split, energies, and the banks that bandwidth is made of; defaults are the reference's.

    The shares are fractions of the budget; ``utilisation_frac`` derates FLOP/s and memory bandwidth alone.
    """

    power_w: Number = 300.0
    core_power_frac: Number = 0.2592
    dram_power_frac: Number = 0.2592
    l2_power_frac: Number = 0.16896
    shared_power_frac: Number = 0.202752
    link_power_frac: Number = 0.2
    core_j_per_flop: Number = 11.9e-12
    dram_j_per_bit: Number = 6e-12
    l2_j_per_bit: Number = 5e-15
    shared_j_per_bit: Number = 1e-15
    link_j_per_bit: Number = 13e-12
    hbm_stack_bytes_per_s: Number = 225.0 * GIB
    hbm_stack_bytes: Number = 4.0 * GIB
    l2_bank_bytes_per_s: Number = 4000.0 * GIB
    l2_bank_bytes: Number = 32.0 * KIB
    shared_bank_bytes_per_s: Number = 4000.0 * GIB
    shared_bank_bytes: Number = 32.0 * KIB
    utilisation_frac: Number = 0.7
    dram_latency_s: Number = 50e-9
    link_latency_s: Number = 1.6e-6
    launch_s: Number = 37e-6


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One processor: reachable rate, bandwidth and capacity of each level; ``utilisation_frac`` is already in them."""

    flops_per_s: Number
    memory_bytes_per_s: Number
    memory_bytes: Number
    memory_latency_s: Number
    l2_bytes_per_s: Number
    l2_bytes: Number
    shared_bytes_per_s: Number
    shared_bytes: Number
    link_bytes_per_s: Number
    link_latency_s: Number
    launch_s: Number
    utilisation_frac: Number


def rate(power_frac: Number, power_w: Number, j_per_unit: Number) -> Number:
    """Units per second that a share of the power pays for: share · P / E."""
    return power_frac * power_w / j_per_unit


def capacity_bytes(bytes_per_s: Number, bank_bytes_per_s: Number, bank_bytes: Number) -> Number:
    """Capacity of the banks that give a bandwidth: (bandwidth / bank's bandwidth) · bank's capacity."""
    return bytes_per_s / bank_bytes_per_s * bank_bytes


def machine(technology: Technology, links: int = 0) -> Machine:
    """Derive the machine; its link power is spread over ``links`` links, and without a link the bandwidth is 0.

    Raises InputProblems for a negative share, and for an energy, a bank or a budget that is not above 0.
    """
    _check(technology)
    t = technology
    memory = rate(t.dram_power_frac, t.power_w, t.dram_j_per_bit * 8) * t.utilisation_frac
    l2 = rate(t.l2_power_frac, t.power_w, t.l2_j_per_bit * 8)
    shared = rate(t.shared_power_frac, t.power_w, t.shared_j_per_bit * 8)
    link = rate(t.link_power_frac, t.power_w, links * (t.link_j_per_bit * 8)) if links else 0.0
    return Machine(
        flops_per_s=rate(t.core_power_frac, t.power_w, t.core_j_per_flop) * t.utilisation_frac,
        memory_bytes_per_s=memory,
        memory_bytes=capacity_bytes(memory / t.utilisation_frac, t.hbm_stack_bytes_per_s, t.hbm_stack_bytes),
        memory_latency_s=t.dram_latency_s,
        l2_bytes_per_s=l2,
        l2_bytes=capacity_bytes(l2, t.l2_bank_bytes_per_s, t.l2_bank_bytes),
        shared_bytes_per_s=shared,
        shared_bytes=capacity_bytes(shared, t.shared_bank_bytes_per_s, t.shared_bank_bytes),
        link_bytes_per_s=link,
        link_latency_s=t.link_latency_s,
        launch_s=t.launch_s,
        utilisation_frac=t.utilisation_frac,
    )


def ring_links(*degrees: int) -> int:
    """Links of one processor on a torus with a ring for each degree above 1: two each, one where the ring is a pair."""
    return sum(1 if degree == 2 else 2 for degree in degrees if degree > 1)


def share_sum(technology: Technology) -> Number:
    """Sum of the five shares; above 1 the budget is overdrawn."""
    total: Number = 0.0
    for name in SHARES:
        total = total + getattr(technology, name)
    return total


def _check(technology: Technology) -> None:
    problems = []
    for name in (*_POSITIVE, *_AT_LEAST_ZERO):
        lowest = float(np.min(getattr(technology, name)))
        if name in _POSITIVE and not lowest > 0:
            problems.append(Problem(field=name, message=f"{lowest:g} is not above 0", remedy="Give a positive number."))
        if name in _AT_LEAST_ZERO and not lowest >= 0:
            problems.append(Problem(field=name, message=f"{lowest:g} is negative", remedy="Give 0 or more."))
    for name in ("core_power_frac", "dram_power_frac"):
        if float(np.min(getattr(technology, name))) == 0:
            remedy = "Give it a share of the power: without it no step ends."
            problems.append(Problem(field=name, message="is 0, so the rate is 0", remedy=remedy))
    if problems:
        raise InputProblems(problems)
