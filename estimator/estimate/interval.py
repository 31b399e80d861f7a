"""Interval: how far a step time may be off, from the ranges of the efficiencies it rests on."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from estimator.cost.device_time import COMPONENTS
from estimator.cost.efficiency import OF_HOST, Efficiencies, Range, probes_host
from estimator.cost.host import waiting_ranks
from estimator.cost.slowest_chip import NODE
from estimator.estimate.assemble import Rank, timed
from estimator.scenario.scenario import Scenario
from estimator.schedule.micro_batch import Scale
from estimator.schedule.step import Setting

INTERVAL_GROUPS: dict[str, tuple[str, ...]] = {
    "matrix products": ("gemm_matrix_frac", "gemm_tf32_frac", "gemm_tf32_outer_frac", "gemm_tf32_input_frac",
                        "gemm_vector_frac", "gemm_unaligned_frac", "gemm_pairs_frac", "gemm_fours_frac",
                        "gemm_start_s", "gemm_tf32_start_s", "gemm_vector_start_s"),
    "attention": ("attention_frac", "attention_start_s", "attention_flash_frac", "attention_flash1_frac",
                  "attention_vector_frac",
                  "attention_half_length", "attention_backward_half_length", "attention_vector_half_length",
                  "attention_backward_frac", "attention_tail_blocks", "attention_row_cycles",
                  "attention_backward_row_cycles", "attention_dropout_frac",
                  "attention_dropout_backward_frac",
                  "attention_mask_frac", "attention_mask_backward_frac"),
    "memory": ("memory_frac", "cache_kept_frac", "cache_bytes_per_unit_cycle", "norm_frac", "softmax_frac",
               "strided_elements_per_unit_cycle",
               "mixed_elements_per_unit_cycle", "looped_softmax_elements_per_unit_cycle",
               "column_bytes_per_unit_cycle", "column_start_s", "walk_load_s", "walk_load_plane_s",
               "walk_load_cudnn_s", "norm_row_cycles", "norm_tile_s", "gelu_elements_per_unit_cycle",
               "kernel_tail_s", "kernel_gap_s", "optimizer_tail_s", "optimizer_wave_s", "optimizer_chunk_s"),
    "host": ("host_launch_s", "host_backward_s", "host_fused_forward_s", "host_fused_backward_s",
             "host_megatron_forward_s", "host_megatron_backward_s", "host_library_factor",
             "host_library_backward_factor", "host_module_ops", "host_saved_ops", "host_saved_backward_ops",
             "host_region_ops", "host_region_backward_ops", "host_packed_ops", "host_packed_backward_ops",
             "host_gradient_kernels",
             "host_unrecorded_frac", "host_optimizer_s", "host_tensor_s",
             "host_sharded_tensor_s", "host_fsdp_forward_s", "host_fsdp_backward_s",
             "host_fsdp_kept_factor", "host_dtensor_s",
             "host_dtensor_op_s", "host_dtensor_value_s", "host_graph_forward_s",
             "host_graph_backward_s",
             "host_put_off_s", "host_new_product_s", "new_products_steps",
             "host_step_s", "host_start_kernels", "host_pass_forward_kernels",
             "host_pass_backward_kernels", "host_collective_s"),
    "slowest rank": ("host_spread",),
    "pace of the host": ("host_forward_s",),
    "communication": ("link_frac", "network_frac", "collective_start_s", "collective_rank_s", "collective_ramp_s",
                      "contention_frac",
                      "contention_megatron_frac",
                      "host_link_frac", "host_pageable_bytes_per_s", "host_memory_bytes_per_s"),
}  # fmt: skip
"""Efficiencies that err together; the interval adds the groups' effects in quadrature.

All seconds of a host are longer where its ops are: the range of ``host_forward_s``, its pace, moves every one of them.
What else is open of each, its own range without that in quadrature, is of the group *host*."""
HOST, PACE = "host", "pace of the host"
(OF_PACE,) = INTERVAL_GROUPS[PACE]
RANK_SPREAD, HOST_SPREAD = 0.21, 0.14
"""Standard deviations of a rank's host time between ranks of one host, and of hosts, as ``host_spread`` has them: a
pace that nobody knows is both."""
LARGEST_SPREADS = (1.0, 0.826, 0.701, 0.611)
"""Standard deviation of the largest of 1, 2, 4 and 8 independent standard normal numbers (Tippett, 1925)."""

SHAPES = (
    "gemm_split_factor",
    "gemm_split_depth",
    "gemm_vector_split_depth",
    "gemm_tf32_split_depth",
    "gemm_fill_depth",
    "gemm_vector_fill_depth",
    "gemm_vector_outer_factor",
    "gemm_overlap_power",
    "gemm_batched_overlap_power",
    "gemm_operands_frac",
    "gemm_result_bytes_per_unit_cycle",
    "gemm_grouped_tile_s",
    "gemm_grouped_switch_s",
    "gemm_in_step_factor",
    "clocked_frac",
    "attention_half_width",
    "attention_flash_half_width",
    "attention_flash_backward_half_width",
    "attention_flash_backward_frac",
    "attention_flash_width_power",
    "attention_backward_half_width",
    "attention_tile",
    "attention_vector_half_width",
    "attention_vector_backward_half_width",
    "attention_vector_backward_frac",
    "attention_vector_tail_blocks",
    "attention_vector_row_cycles",
    "attention_vector_backward_row_cycles",
    "host_pace_s",
    "host_backward_pace_s",
    "host_ranks_power",
    "chip_spread",
    "collective_full_bytes",
    "whole_node_factor",
    "power_limit_w",
    "idle_w",
    "matrix_flop_j",
    "tf32_flop_j",
    "fp32_flop_j",
    "attention_flop_j",
    "gelu_j",
    "byte_j",
    "host_forward_dispatches_per_kernel",
    "host_backward_dispatches_per_kernel",
    "host_view_frac",
)
"""Efficiencies that bend a curve rather than move it; the interval leaves them as they are."""

VARIANTS = 1 + 2 * len(INTERVAL_GROUPS)


def interval_s(rank: Rank, setting: Setting, critical_stage: int, e: Efficiencies) -> tuple[float, float]:
    """Give the 80 % interval: each group of efficiencies at its pessimistic and optimistic end, in quadrature.

    All variants are priced at once, as arrays. Device time of a component moves as its leading efficiency does:
    products and fused attention by the share of peak of this precision, memory-bound kernels by the share of
    bandwidth. The same stage is the critical one in all of them.
    """
    precision, attention = setting.shard.widths.peak, setting.training.attention
    ranks = float(waiting_ranks(setting.training, setting.cluster.chips, setting.plan.pp))
    pace = 1.0 if probes_host(e, setting.cluster.chip) else pace_of_slowest(ranks, setting.cluster.chips_per_node)
    varied, scale = _variants(e, precision, attention, pace)
    _, found = timed(rank, setting, varied, scale=scale, critical_stage=critical_stage)
    seconds = np.broadcast_to(np.asarray(found.seconds, dtype=float), (VARIANTS,))
    return quadrature(seconds)


def pace_of_slowest(ranks: float, in_node: int) -> float:
    """By what the slowest of ranks is nearer to what it usually is than one rank, as logarithms.

    √(σ_host²·s(hosts)² + σ_rank²·s(ranks)²) / √(σ_host² + σ_rank²), s(n) being the standard deviation of the largest of
    n, to eight.
    """
    spread = math.hypot(HOST_SPREAD * _largest_spread(ranks / in_node), RANK_SPREAD * _largest_spread(ranks))
    return spread / math.hypot(HOST_SPREAD, RANK_SPREAD)


def _largest_spread(count: float) -> float:
    return float(np.interp(math.log2(min(max(count, 1.0), NODE)), range(len(LARGEST_SPREADS)), LARGEST_SPREADS))


UNEVEN = 1.3
"""Tokens of the fullest rank's experts over the mean, up to which an interval reaches where none is stated.

Counted layer by layer in steps of untrained models with eight experts: 1.06 to 1.11 on two ranks, 1.29 on four."""


def uneven(scenario: Scenario) -> Scenario | None:
    """The scenario with ``UNEVEN`` tokens on the fullest rank; None where they are stated or make no difference.

    A capacity pads or drops, and one rank has all experts.
    """
    training = scenario.training
    if not scenario.model.experts or scenario.model.capacity_factor or scenario.plan.ep == 1:
        return None
    if training.expert_imbalance != 1.0 or training.traits.lower_bound:
        return None
    return replace(scenario, training=replace(training, expert_imbalance=UNEVEN))


def quadrature(seconds: NDArray[np.float64]) -> tuple[float, float]:
    """The interval around the first variant, from those in which one group of efficiencies is at one of its ends."""
    base, moved = float(seconds[0]), seconds[1:]
    above = float(np.sqrt(np.sum(np.maximum(moved - base, 0.0) ** 2)))
    below = float(np.sqrt(np.sum(np.maximum(base - moved, 0.0) ** 2)))
    return max(base - below, 0.0), base + above


LEADING = {"fp32": "gemm_vector_frac", "tf32": "gemm_tf32_frac"}
LEADING_ATTENTION = {"sdpa": "attention_frac", "flash": "attention_flash_frac", "flash1": "attention_flash1_frac"}


@lru_cache(maxsize=256)
def _variants(e: Efficiencies, precision: str, attention: str, pace: float) -> tuple[Efficiencies, Scale]:
    """Return the efficiencies with an array for every name that moves, and the factor of each component of work."""
    varied = variants(e, pace)
    product = factor(e, varied, product_efficiency(precision))
    vector = precision in ("fp32", "tf32")
    fused = "attention_vector_frac" if vector else LEADING_ATTENTION.get(attention, "attention_frac")
    by_kind = {"gemm": product, "attention": factor(e, varied, fused), "kernels": factor(e, varied, "memory_frac")}
    return varied, np.stack([by_kind[kind] for _, kind in COMPONENTS])


def product_efficiency(precision: str) -> str:
    """The efficiency that products of a precision follow."""
    return LEADING.get(precision, "gemm_matrix_frac")


@lru_cache(maxsize=64)
def variants(e: Efficiencies, pace: float = 1.0) -> Efficiencies:
    """The efficiencies with an array for every name that an interval moves: as they are, then each group's two ends.

    ``pace``: of the logarithm of the host's pace, as ``pace_of_slowest`` says.
    """
    values: dict[str, list[float]] = {}
    for index, (group, names) in enumerate(INTERVAL_GROUPS.items()):
        for name in OF_HOST if group == PACE else names:
            column = values.setdefault(name, [getattr(e, name)] * VARIANTS)
            for place, faster in enumerate((False, True), 1 + 2 * index):
                column[place] = _moved(e, name, group, faster=faster, pace=pace)
    return replace(e, **{name: np.array(column) for name, column in values.items()})  # type: ignore[arg-type]


def _moved(e: Efficiencies, name: str, group: str, *, faster: bool, pace: float) -> float:
    """Where a name is while its group is at an end: seconds of a host by its pace, and by what else is open of them."""
    if group not in (HOST, PACE) or name not in OF_HOST:
        return _end(e, name, faster=faster)
    value, of_pace = float(getattr(e, name)), _log_end(e, OF_PACE, faster=faster)
    if group == PACE:
        return value * math.exp(pace * of_pace)
    own = _log_end(e, name, faster=faster)
    return value * math.exp(math.copysign(math.sqrt(max(own**2 - of_pace**2, 0.0)), own))


def _log_end(e: Efficiencies, name: str, *, faster: bool) -> float:
    """How far an end of its range is from a name's value, as a logarithm; 0 where either is nothing."""
    value, end = float(getattr(e, name)), _end(e, name, faster=faster)
    return math.log(end / value) if value > 0 and end > 0 else 0.0


def factor(e: Efficiencies, varied: Efficiencies, name: str) -> NDArray[np.float64]:
    """By how much device time grows where it follows this share of a peak."""
    own: float = getattr(e, name)
    return own / np.asarray(getattr(varied, name)) if own > 0 else np.ones(VARIANTS)


def _end(e: Efficiencies, name: str, *, faster: bool) -> float:
    found: Range = e.ranges[name]
    more_is_faster = (name.endswith("_frac") and not name.startswith("contention")) or name.endswith(
        ("_cycle", "_per_s")
    )
    return found.high if more_is_faster == faster else found.low
