"""Cells of the tables: times of a row by the roofline and its links, the 31 columns, and their sums over the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from estimator.studies.study import Value
from estimator.studies.transformer_tables.inputs import Inputs
from estimator.studies.transformer_tables.rows import Exchange, Row

GB, TFLOP, MS = 1e-9, 1e-12, 1e3
NONE = "none"
"""An empty cell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Times:
    """Times of one row in seconds, forward and backward."""

    compute_s: tuple[float, float]
    memory_s: tuple[float, float]
    exchange_s: tuple[float, float]

    @property
    def roofline_s(self) -> tuple[float, float]:
        """The longer of computing and moving memory."""
        return (max(self.compute_s[0], self.memory_s[0]), max(self.compute_s[1], self.memory_s[1]))

    @property
    def total_s(self) -> tuple[float, float]:
        """Roofline and exchange one after the other."""
        return (self.roofline_s[0] + self.exchange_s[0], self.roofline_s[1] + self.exchange_s[1])


def times(row: Row, i: Inputs, fixes: frozenset[int]) -> Times:
    """Price a row: t = max(FLOPs / rate, bytes / bandwidth), and Σ volume / link + steps · latency for exchanges."""
    rate = i.matrix_flops_per_s if row.matrix else i.vector_flops_per_s
    return Times(
        compute_s=(row.flops_fwd / rate, row.flops_bwd / rate),
        memory_s=(row.total_fwd_bytes / i.memory_bytes_per_s, row.total_bwd_bytes / i.memory_bytes_per_s),
        exchange_s=(_exchange_s(row.forward, i, fixes), _exchange_s(row.backward, i, fixes)),
    )


def cells(row: Row, i: Inputs, fixes: frozenset[int]) -> list[tuple[str, Value, str]]:
    """Return a row's 31 cells in the order of the reference: name, value, unit."""
    t = times(row, i, fixes)
    both = (*row.forward, *row.backward)
    # Only rows that exchange something have a group; the others' cells are empty.
    wide = max((one.span for one in both), default=0)
    topology = ("nvlink" if wide <= i.nvlink_chips else "ib") if both else NONE
    return [
        ("layer", row.layer, ""),
        ("flops_fwd", row.flops_fwd * TFLOP, "TFLOP"),
        ("activation_in_mem", row.in_bytes * GB, "GB"),
        ("activation_in_other_mem", row.other_bytes * GB, "GB"),
        ("activation_out_mem", row.out_bytes * GB, "GB"),
        ("activation_buffer", row.buffer_bytes * GB, "GB"),
        ("weights_mem", row.weights_bytes * GB, "GB"),
        ("total_mem_fwd", row.total_fwd_bytes * GB, "GB"),
        ("flops_bwd", row.flops_bwd * TFLOP, "TFLOP"),
        ("activation_grad_mem", row.gradient_bytes * GB, "GB"),
        ("weights_grad_mem", row.weights_bytes * GB, "GB"),
        ("total_mem_bwd", row.total_bwd_bytes * GB, "GB"),
        ("comm_bwd", _volume(row.backward), "GB"),
        ("comm_bwd_type", _types(row.backward), ""),
        ("comm_size", max(one.size for one in both) if both else NONE, ""),
        ("comm_fwd", _volume(row.forward), "GB"),
        ("comm_fwd_type", _types(row.forward), ""),
        ("t_comp_fwd", t.compute_s[0] * MS, "ms"),
        ("t_mem_fwd", t.memory_s[0] * MS, "ms"),
        ("t_comp_bwd", t.compute_s[1] * MS, "ms"),
        ("t_mem_bwd", t.memory_s[1] * MS, "ms"),
        ("intensity", t.compute_s[0] / t.memory_s[0], ""),
        ("t_fwd", t.roofline_s[0] * MS, "ms"),
        ("t_bwd", t.roofline_s[1] * MS, "ms"),
        ("comm_topology", topology, ""),
        ("t_comm_fwd", t.exchange_s[0] * MS, "ms"),
        ("t_comm_bwd", t.exchange_s[1] * MS, "ms"),
        ("t_total_fwd", t.total_s[0] * MS, "ms"),
        ("t_total_bwd", t.total_s[1] * MS, "ms"),
        ("frac_t_comm_fwd", t.exchange_s[0] / t.total_s[0], ""),
        ("frac_t_comm_bwd", t.exchange_s[1] / t.total_s[1], ""),
    ]


def sums(rows: Sequence[Row], i: Inputs, fixes: frozenset[int]) -> list[tuple[str, Value, str]]:
    """Add up a table's rows over all layers of the model, and give the share of forward's exchanges."""
    priced = [times(row, i, fixes) for row in rows]

    def total(values: Sequence[float], scale: float) -> float:
        return sum(values) * i.depth * scale

    forward_s = sum(one.total_s[0] for one in priced)
    return [
        ("activation_buffer", total([row.buffer_bytes for row in rows], GB), "GB"),
        ("weights_mem", total([row.weights_bytes for row in rows], GB), "GB"),
        ("weights_grad_mem", total([row.weights_bytes for row in rows], GB), "GB"),
        ("flops_fwd", total([row.flops_fwd for row in rows], TFLOP), "TFLOP"),
        ("flops_bwd", total([row.flops_bwd for row in rows], TFLOP), "TFLOP"),
        ("t_total_fwd", total([one.total_s[0] for one in priced], MS), "ms"),
        ("t_total_bwd", total([one.total_s[1] for one in priced], MS), "ms"),
        ("t_comm_fwd", total([one.exchange_s[0] for one in priced], MS), "ms"),
        ("t_comm_bwd", total([one.exchange_s[1] for one in priced], MS), "ms"),
        ("frac_t_comm_fwd", sum(one.exchange_s[0] for one in priced) / forward_s, ""),
    ]


def _exchange_s(exchanges: Sequence[Exchange], i: Inputs, fixes: frozenset[int]) -> float:
    inside = i.nvlink_bytes_per_s / (2 if 3 in fixes else 1)
    return sum(
        one.bytes / (inside if one.span <= i.nvlink_chips else i.network_bytes_per_s) + one.steps * i.latency_s
        for one in exchanges
    )


def _volume(exchanges: Sequence[Exchange]) -> Value:
    return sum(one.bytes for one in exchanges) * GB if exchanges else NONE


def _types(exchanges: Sequence[Exchange]) -> str:
    return "+".join(dict.fromkeys(one.type for one in exchanges)) or NONE
