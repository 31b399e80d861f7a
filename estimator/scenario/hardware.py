"""Hardware: a chip's peaks, the links between chips, and the cluster they form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from estimator.scenario.codec import spec
from estimator.scenario.problems import Problem

CHIP_KINDS = ("gpu", "tpu", "cpu")


@dataclass(frozen=True, kw_only=True)
class Chip:
    """One accelerator: dense peaks (never the sparse ones), memory, and how many units share the work.

    A peak of 0 means that the chip has no such unit. ``compute_units`` are SMs, CUs, cores.
    """

    name: str = spec("", help="catalogue name")
    label: str = spec("", help="name for people")
    kind: str = spec("gpu", choices=CHIP_KINDS, help="a cpu is its own host: operations run as they are dispatched")
    fp32_flops_per_s: float = spec(minimum=1, help="fp32 on the vector units")
    fp32_matrix_flops_per_s: float = spec(0.0, minimum=0, help="fp32 on the matrix units (AMD); 0: on the vector units")
    tf32_flops_per_s: float = spec(0.0, minimum=0, help="tf32 on the matrix units, dense")
    fp16_flops_per_s: float = spec(0.0, minimum=0, help="fp16 on the matrix units, dense")
    bf16_flops_per_s: float = spec(0.0, minimum=0, help="bf16 on the matrix units, dense")
    fp8_flops_per_s: float = spec(0.0, minimum=0, help="fp8 on the matrix units, dense")
    fp4_flops_per_s: float = spec(0.0, minimum=0, help="fp4 with scales per block on the matrix units, dense")
    memory_bytes: float = spec(minimum=1, maximum=1e15, help="capacity of device memory")
    memory_bytes_per_s: float = spec(minimum=1, help="bandwidth of device memory")
    compute_units: int = spec(1, minimum=1, maximum=10_000_000, help="SMs, CUs or cores")
    clock_hz: float = spec(1e9, minimum=1, maximum=1e12, help="boost clock")
    power_limit_frac: float = spec(
        1.0, minimum=0.1, maximum=1.0, help="power limit over the power that its rates are known at; 500 of 700 W: 0.71"
    )
    l2_bytes: float = spec(0.0, minimum=0, maximum=1e13, help="last-level cache")
    host_bytes_per_s: float = spec(0.0, minimum=0, help="one direction to host memory; 0: unknown, no offload")
    chips_per_node: int = spec(8, minimum=1, maximum=100_000, help="usual number of chips in one node")
    link: str = spec("", help="catalogue name of the link inside a node")
    network: str = spec("", help="catalogue name of the network between nodes")
    efficiency: str = spec("default", help="catalogue name of the efficiencies that fit this chip")
    usd_per_hour: float = spec(
        0.0, minimum=0, maximum=10_000, help="what one chip costs to rent for an hour, in dollars; 0: not known"
    )


@dataclass(frozen=True, kw_only=True)
class Link:
    """A link of one chip: bandwidth in one direction, and the latency of one message."""

    name: str = spec("", help="catalogue name")
    label: str = spec("", help="name for people")
    bytes_per_s: float = spec(minimum=1, help="one direction, one chip")
    latency_s: float = spec(minimum=0, maximum=1, help="of one small message")


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Nodes of equal chips: ``link`` joins the chips of a node, ``network`` joins chips of different nodes."""

    chip: Chip
    chips_per_node: int = spec(8, minimum=1, maximum=100_000, help="chips in one node")
    nodes: int = spec(1, minimum=1, maximum=100_000, help="nodes")
    link: Link
    network: Link

    @property
    def chips(self) -> int:
        """Chips in all nodes together."""
        return self.chips_per_node * self.nodes

    @property
    def ranks_of_a_cpu(self) -> int:
        """Ranks that share one CPU: those of a node over the CPUs that a node has; 1 of what is no CPU."""
        return max(self.chips_per_node // self.chip.chips_per_node, 1) if self.chip.kind == "cpu" else 1

    @cached_property
    def rank_chip(self) -> Chip:
        """The chip as one rank has it: of a CPU its even share of cores, caches and memory, as its peaks are of all."""
        ranks = self.ranks_of_a_cpu
        if ranks == 1:
            return self.chip
        shared = {name: getattr(self.chip, name) / ranks for name in (*SHARED, *PEAK_FIELD.values())}
        return replace(self.chip, compute_units=max(self.chip.compute_units // ranks, 1), **shared)

    def problems(self, precision: str) -> list[Problem]:
        """List what this hardware cannot do."""
        if peak_flops_per_s(self.chip, precision) > 0:
            return []
        return [
            Problem(
                field="training.precision",
                message=f"{self.chip.label or self.chip.name} has no matrix unit for {precision}",
                remedy="Choose another precision, or fp32, which every chip has.",
            )
        ]


PEAK_FIELD = {
    "fp32": "fp32_flops_per_s",
    "tf32": "tf32_flops_per_s",
    "fp16-amp": "fp16_flops_per_s",
    "bf16-amp": "bf16_flops_per_s",
    "bf16": "bf16_flops_per_s",
    "fp8": "fp8_flops_per_s",
    "fp4": "fp4_flops_per_s",
}
"""Every precision, and the peak that its matrix products run at."""

SHARED = ("fp32_matrix_flops_per_s", "memory_bytes", "memory_bytes_per_s", "l2_bytes", "host_bytes_per_s")
"""What ranks of one CPU share beside its peaks."""


def peak_flops_per_s(chip: Chip, precision: str) -> float:
    """Dense peak of the unit that multiplies matrices in ``precision``; 0 where the chip has none."""
    if precision == "fp32" and chip.fp32_matrix_flops_per_s > 0:
        return chip.fp32_matrix_flops_per_s
    return float(getattr(chip, PEAK_FIELD[precision]))


def chips_of_a_node(chips: int, most: int) -> int:
    """Return how many chips of each node a job uses: all, else the most that divide it evenly (64 of a rack's 72)."""
    return next(used for used in range(max(min(chips, most), 1), 0, -1) if chips % used == 0)
