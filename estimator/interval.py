"""Interval: how far a step time may be off, from the ranges of the efficiencies it rests on."""

from __future__ import annotations

from dataclasses import replace

from estimator.efficiency import Efficiencies, Range
from estimator.scenario import Scenario
from estimator.stages import Stage
from estimator.step import step

INTERVAL_GROUPS: dict[str, tuple[str, ...]] = {
    "matrix products": ("gemm_matrix_frac", "gemm_tf32_frac", "gemm_vector_frac", "gemm_unaligned_frac",
                        "gemm_start_s"),
    "attention": ("attention_frac", "attention_flash_frac", "attention_flash1_frac", "attention_vector_frac",
                  "attention_half_length", "attention_backward_frac"),
    "memory": ("memory_frac", "strided_elements_per_unit_cycle", "mixed_elements_per_unit_cycle", "kernel_tail_s",
               "kernel_gap_s",
               "optimizer_tail_s"),
    "host": ("host_forward_s", "host_backward_s", "host_fused_forward_s", "host_fused_backward_s",
             "host_megatron_forward_s", "host_megatron_backward_s", "host_tensor_s",
             "host_step_s", "host_collective_s"),
    "communication": ("link_frac", "network_frac", "collective_start_s", "collective_rank_s", "contention_frac"),
}  # fmt: skip
"""Efficiencies that err together; the interval adds the groups' effects in quadrature."""


def interval_s(scenario: Scenario, layout: list[Stage], seconds: float, e: Efficiencies) -> tuple[float, float]:
    """Give the 80 % interval: each group of efficiencies at its pessimistic and optimistic end, in quadrature."""
    below = above = 0.0
    for names in INTERVAL_GROUPS.values():
        slow = step(scenario, layout, _moved(e, names, faster=False)).seconds
        fast = step(scenario, layout, _moved(e, names, faster=True)).seconds
        above += max(0.0, slow - seconds) ** 2
        below += max(0.0, seconds - fast) ** 2
    return max(seconds - below**0.5, 0.0), seconds + above**0.5


def _moved(e: Efficiencies, names: tuple[str, ...], *, faster: bool) -> Efficiencies:
    changed: dict[str, float] = {}
    for name in names:
        found: Range = e.ranges[name]
        more_is_faster = (name.endswith("_frac") and name != "contention_frac") or name.endswith("_cycle")
        changed[name] = found.high if more_is_faster == faster else found.low
    return replace(e, **changed)  # type: ignore[arg-type]
