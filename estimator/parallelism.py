"""Parallelism: ways to split one block over a group of ranks, side by side, and where one becomes better than another.

Tensor parallelism in 1, 2, 2.5 and 3 dimensions against tokens per micro-batch; splits of the sequence against its
length. Everything is priced by the estimator's own core on arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimator.cost.collectives import TRAFFIC
from estimator.crossings import Crossover, of_linears, searched
from estimator.efficiency import Efficiencies
from estimator.estimate import efficiencies_of
from estimator.exchanges import InLine
from estimator.explain import effective
from estimator.parallel.placement import Degrees, groups_of
from estimator.problems import InputProblems, Problem
from estimator.rank import Rank, lines_of, parts_of, rank_of
from estimator.scenario import Scenario
from estimator.ways import Way, sequence_ways, tensor_ways

PER_OCTAVE = 16
MOST_SEQUENCES = 1024
SHORTEST, LONGEST = 1024, 2**20
MOST_RANKS = 4096
CROSSED = ("block_s", "communication_bytes")
METRICS = ("block_s", "communication_bytes", "communication_s", "activations_bytes")

Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Numbers of one way per rank and block, forward and backward of one micro-batch, along the axis."""

    name: str
    block_s: Values
    communication_bytes: Values
    communication_s: Values
    weights_bytes: float
    activations_bytes: Values


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All ways of one kind along one axis."""

    axis: str
    x: Values
    ways: tuple[Way, ...]
    curves: tuple[Curve, ...]
    crossovers: tuple[Crossover, ...]


@dataclass(frozen=True, kw_only=True)
class Parallelism:
    """Both comparisons for one group of ranks."""

    ranks: int
    tensor: Comparison
    sequence: Comparison
    assumptions: tuple[str, ...]


def parallelism(scenario: Scenario, ranks: int = 0, calibration: Efficiencies | None = None) -> Parallelism:
    """Compare the ways for the scenario's model on ``ranks`` chips (0: its tp, else a node); raise InputProblems."""
    usual = max(scenario.cluster.chips_per_node, scenario.cluster.chip.chips_per_node)
    ranks = ranks or (scenario.plan.tp if scenario.plan.tp > 1 else max(usual, 2))
    if not 2 <= ranks <= MOST_RANKS:
        remedy = f"Choose 2 to {MOST_RANKS} chips."
        raise InputProblems([Problem(field="ranks", message=f"{ranks} chips make no group to compare", remedy=remedy)])
    per_node = min(usual, ranks)
    base = effective(replace(scenario, cluster=replace(scenario.cluster, chips_per_node=per_node, nodes=1)))
    e = efficiencies_of(base, calibration)
    octaves = int(np.log2(MOST_SEQUENCES))
    sequences = 2.0 ** (np.arange(octaves * PER_OCTAVE + 1) / PER_OCTAVE)
    low, high = max(SHORTEST, 4 * ranks), max(LONGEST, 64 * ranks)
    lengths = low * 2.0 ** (np.arange(int(np.log2(high / low)) * PER_OCTAVE + 1) / PER_OCTAVE)
    grids, splits = tensor_ways(base, ranks), sequence_ways(base, ranks)
    tensor = [_curve(base, way, e, micro_batch=sequences) for way in grids if not way.problems]
    sequence = [_curve(base, way, e, seq_len=lengths) for way in splits if not way.problems]
    tokens = sequences * base.training.seq_len
    return Parallelism(
        ranks=ranks,
        tensor=Comparison(
            axis="tokens per micro-batch",
            x=tokens,
            ways=grids,
            curves=tuple(tensor),
            crossovers=(*of_linears(base, grids), *searched(tokens, _metrics(tensor))),
        ),
        sequence=Comparison(
            axis="sequence length",
            x=lengths,
            ways=splits,
            curves=tuple(sequence),
            crossovers=tuple(searched(lengths, _metrics(sequence))),
        ),
        assumptions=(
            f"One group of {ranks} chips alone, {per_node} of them in a node; no pipeline, no data parallel traffic.",
            f"Tensor parallelism: sequences of {base.training.seq_len} tokens, one to {MOST_SEQUENCES} at a time;"
            " between micro-batches that a grid can hold, formulas are continued.",
            f"Sequence: {base.plan.micro_batch} per micro-batch; Megatron splits weights over the group, the others"
            " hold all of them.",
            "Time of a block: device and exposed communication, forward and backward, without waits for the host.",
        ),
    )


def _curve(scenario: Scenario, way: Way, e: Efficiencies, **axis: Values) -> Curve:
    one = replace(scenario, plan=way.plan)
    rank = rank_of(one, e, **axis)
    d = rank.d
    degrees = Degrees(tp=way.plan.tp, cp=way.plan.cp, dp=1, pp=1, shard=way.plan.cp, grid_side=d.grid_side)
    groups = groups_of(degrees, way.plan.placement, one.cluster.chips_per_node)
    lines = lines_of(rank, one.cluster, groups, e)
    parts = parts_of(rank, lines, one.training, e)
    (length,) = (len(values) for values in axis.values())

    def mean(values: list[Any]) -> Values:
        layers = rank.shard.layers
        total = sum(value * count for value, count in zip(values, layers, strict=True))
        return np.broadcast_to(np.asarray(total / sum(layers), dtype=float), (length,))

    shown = [part.inline_forward_s + part.inline_backward_s for part in parts.blocks]
    device = [part.forward_s + part.input_s + part.weight_s for part in parts.blocks]
    return Curve(
        name=way.name,
        block_s=mean([a + b for a, b in zip(device, shown, strict=True)]),
        communication_bytes=mean([sum((sent_bytes(line) for line in found), start=0.0) for found in lines.blocks]),
        communication_s=mean([_sum(found, lambda line: line.seconds) for found in lines.blocks]),
        weights_bytes=float(mean(_weights(rank))[0]),
        activations_bytes=mean([block.kept_bytes for block in rank.shard.blocks]),
    )


def _metrics(curves: list[Curve]) -> dict[str, dict[str, Values]]:
    return {metric: {curve.name: getattr(curve, metric) for curve in curves} for metric in CROSSED}


def _sum(lines: list[InLine], value: Callable[[InLine], Any]) -> Any:
    return sum((value(line) * line.message.count for line in lines), start=0.0)


def sent_bytes(line: InLine) -> Any:
    """Bytes that a rank sends (and receives) in all executions of a collective: factor · (n − 1)/n · payload."""
    message, n = line.message, line.ranks
    share = 1.0 if message.kind == "p2p" else (n - 1) / n
    return message.payload_bytes * TRAFFIC[message.kind] * share * message.count


def _weights(rank: Rank) -> list[Any]:
    return [
        (block.dense_parameters + block.expert_parameters) * rank.d.numbers.parameter for block in rank.shard.blocks
    ]
