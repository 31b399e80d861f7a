"""Splits: ways to split one block over a group of ranks, side by side, and where one becomes better than another.

Tensor parallelism in 1, 2, 2.5 and 3 dimensions against tokens per micro-batch; splits of the sequence against its
length. Everything is priced by the estimator's own core on arrays.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimator.communication.grid import linear_moves, received
from estimator.communication.message import PricedMessage, received_bytes
from estimator.communication.placement import Degrees, groups_of
from estimator.cost.efficiency import Calibrated, Efficiencies
from estimator.estimate.assemble import Rank, effective, efficiencies_of, lines_of, parts_in_line, parts_of, rank_of
from estimator.estimate.explain import passed_over_words
from estimator.scenario.fitting import divisors
from estimator.scenario.grid_shape import grid_fits, grid_of
from estimator.scenario.legality import context_problems, tensor_problems
from estimator.scenario.plan import Plan
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.scenario import Scenario
from estimator.scenario.units import Number, counted

Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Crossover:
    """Where ``then`` becomes better than ``before`` in a metric for good; ``at`` None: nowhere. ``closed``: by formula.

    ``first``: where they change places for the first time, below ``at`` where they take turns (products fill a chip in
    waves). ``leads``: no other way is better at ``at``.
    """

    metric: str
    before: str
    then: str
    first: float | None
    at: float | None
    closed: bool
    leads: bool


def of_linears(scenario: Scenario, ways: tuple[Way, ...]) -> list[Crossover]:
    """Tokens from which a grid's linears move less than 1D's, in closed form (``crossover_rows``)."""
    model, usual = scenario.model, ways[0]
    linears = [] if model.network == "ffn" else [
        (model.hidden, model.query_width + 2 * model.kv_width), (model.query_width, model.hidden)
    ]  # fmt: skip
    if model.network != "attention":
        linears += [(model.hidden, (2 if model.gated_ffn else 1) * model.ffn), (model.ffn, model.hidden)]
    found = []
    for way in ways[1:]:
        if way.problems or usual.problems:
            continue
        side = int(grid_of(way.name, way.plan.tp, way.plan.tp_depth))
        layout = TensorSplit(kind=way.name, side=side, depth=way.plan.tp_depth)
        at = crossover_rows(TensorSplit(kind="1d", side=way.plan.tp), layout, linears, keep=False)
        never = not np.isfinite(at)
        found.append(
            Crossover(metric="linears", before=usual.name, then=way.name, first=None if never else at,
                      at=None if never else at, closed=True, leads=False)
        )  # fmt: skip
    return found


def searched(x: Values, metrics: Mapping[str, Mapping[str, Values]]) -> list[Crossover]:
    """Where two curves of a metric change places, between neighbouring points on a logarithmic axis."""
    found = []
    for metric, values in metrics.items():
        least = np.min(np.stack(list(values.values())), axis=0) if values else np.zeros(0)
        for first, second in itertools.combinations(values, 2):
            gap = values[first] - values[second]
            apart = np.flatnonzero(np.abs(gap) > 1e-9 * np.maximum(values[first], values[second])).tolist()
            turns = [(here, there) for here, there in itertools.pairwise(apart) if gap[here] * gap[there] < 0]
            if not turns:
                continue
            points = [_between(x, gap, here, there) for here, there in turns]
            last = turns[-1][1]
            before, then = (first, second) if gap[last] > 0 else (second, first)
            found.append(
                Crossover(metric=metric, before=before, then=then, first=points[0], at=points[-1], closed=False,
                          leads=bool(values[then][last] <= least[last] * (1 + 1e-9)))
            )  # fmt: skip
    return found


def _between(x: Values, gap: Values, here: int, there: int) -> float:
    """Zero of a difference that is linear in log x between two points."""
    part = gap[here] / (gap[here] - gap[there])
    return float(np.exp(np.log(x[here]) + part * np.log(x[there] / x[here])))


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorSplit:
    """A kind of tensor parallelism (1d, 2d, 2.5d, 3d) with its side (P of 1D, else q) and depth (2.5D)."""

    kind: str
    side: int
    depth: int = 1


def stack_elements(
    layout: TensorSplit, linears: Sequence[tuple[Number, Number]], rows: Number, *, keep: bool = True
) -> Number:
    """Elements that a rank receives, forward and backward, in a stack of linears (K, N), by turns column and row.

    In 1D the first of each two is split by columns and the second by rows; in 3D their grid roles alternate.
    """
    total: Number = 0.0
    for index, (inputs, outputs) in enumerate(linears):
        second = bool(index % 2)
        kind = layout.kind if layout.kind != "1d" else ("1d-row" if second else "1d-column")
        moves = linear_moves(
            kind, rows, inputs, outputs, side=layout.side, depth=layout.depth, keep=keep, swapped=second
        )
        total = total + received(moves)
    return total


def crossover_rows(
    usual: TensorSplit, other: TensorSplit, linears: Sequence[tuple[float, float]], *, keep: bool = True
) -> float:
    """Rows (tokens of a micro-batch) from which on ``other`` receives less than ``usual``; infinity where never.

    Volumes are a + b·M, so M = (a_other − a_usual)/(b_usual − b_other), where other's slope is the smaller one.
    """
    (fixed, slope), (other_fixed, other_slope) = (
        (float(start), float(stack_elements(layout, linears, 1.0, keep=keep) - start))
        for layout, start in ((one, stack_elements(one, linears, 0.0, keep=keep)) for one in (usual, other))
    )
    if slope <= other_slope:
        return math.inf
    return max((other_fixed - fixed) / (slope - other_slope), 0.0)


PER_OCTAVE = 16
MOST_SEQUENCES = 1024
SHORTEST, LONGEST = 1024, 2**20
MOST_RANKS = 4096
CROSSED = ("block_s", "communication_bytes")
METRICS = ("block_s", "communication_bytes", "communication_s", "activations_bytes")


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
class SplitComparison:
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
    tensor: SplitComparison
    sequence: SplitComparison
    assumptions: tuple[str, ...]


def parallelism(scenario: Scenario, ranks: int = 0, calibration: Calibrated | None = None) -> Parallelism:
    """Compare the ways for the scenario's model on ``ranks`` chips (0: its tp, else a node); raise InputProblems."""
    usual = max(scenario.cluster.chips_per_node, scenario.cluster.chip.chips_per_node)
    ranks = ranks or (scenario.plan.tp if scenario.plan.tp > 1 else max(usual, 2))
    if not 2 <= ranks <= MOST_RANKS:
        remedy = f"Choose 2 to {MOST_RANKS} chips."
        message = f"no group of {counted(ranks, 'chip')} can be compared"
        raise InputProblems([Problem(field="ranks", message=message, remedy=remedy)])
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
        tensor=SplitComparison(
            axis="tokens per micro-batch",
            x=tokens,
            ways=grids,
            curves=tuple(tensor),
            crossovers=(*of_linears(base, grids), *searched(tokens, _metrics(tensor))),
        ),
        sequence=SplitComparison(
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
            *passed_over_words(base.cluster.chip, calibration),
        ),
    )


def _curve(scenario: Scenario, way: Way, e: Efficiencies, **axis: Values) -> Curve:
    one = replace(scenario, plan=way.plan)
    rank = rank_of(one, e, **axis)
    d = rank.d
    degrees = Degrees(tp=way.plan.tp, cp=way.plan.cp, dp=1, pp=1, shard=way.plan.cp, grid_side=d.grid_side)
    groups = groups_of(degrees, way.plan.placement, one.cluster.chips_per_node)
    lines = lines_of(rank, one.cluster, groups, e)
    parts = parts_in_line(parts_of(rank, one.training, e), lines)
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
        communication_bytes=mean([sent_bytes(found) for found in lines.blocks]),
        communication_s=mean([sum((line.seconds for line in found), start=0.0) for found in lines.blocks]),
        weights_bytes=float(mean(_weights(rank))[0]),
        activations_bytes=mean([block.kept_bytes for block in rank.shard.blocks]),
    )


def _metrics(curves: list[Curve]) -> dict[str, dict[str, Values]]:
    return {metric: {curve.name: getattr(curve, metric) for curve in curves} for metric in CROSSED}


def sent_bytes(lines: list[PricedMessage]) -> Any:
    """Bytes that a rank sends (and receives) in all these collectives."""
    return sum((received_bytes(line.message, line.ranks) for line in lines), start=0.0)


def _weights(rank: Rank) -> list[Any]:
    return [(block.dense_parameters + block.expert_parameters) * rank.d.widths.parameter for block in rank.shard.blocks]


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to split a block: its plan, what it needs to know of its grid, and why it is refused, if it is."""

    name: str
    label: str
    plan: Plan
    problems: tuple[Problem, ...] = ()


def tensor_ways(scenario: Scenario, ranks: int) -> tuple[Way, ...]:
    """List 1D with sequence parallelism (without, where it cannot be) and the grids that ``ranks`` make."""
    split = _plan(scenario, tp=ranks, sequence_parallel=True)
    found = [Way(name="1d", label="1D", plan=split)]
    if tensor_problems(scenario.model, split, scenario.training):
        found = [Way(name="1d", label="1D, sums", plan=_plan(scenario, tp=ranks))]
    depth = _depth(scenario, ranks)
    for kind in ("2d", "2.5d", "3d"):
        found.append(
            Way(name=kind, label=kind.upper(), plan=_plan(scenario, tp=ranks, tp_kind=kind,
                                                          tp_depth=depth if kind == "2.5d" else 1))
        )  # fmt: skip
    return tuple(_judged(scenario, way) for way in found)


def sequence_ways(scenario: Scenario, ranks: int) -> tuple[Way, ...]:
    """List Megatron's tensor and sequence parallelism and the three context parallel ones."""
    found = [Way(name="megatron", label="Megatron SP", plan=_plan(scenario, tp=ranks, sequence_parallel=True))]
    for kind, label in (("ulysses", "Ulysses"), ("ring", "ring"), ("all-gather", "all-gather")):
        found.append(Way(name=kind, label=label, plan=_plan(scenario, cp=ranks, cp_kind=kind)))
    return tuple(_judged(scenario, way) for way in found)


def _plan(scenario: Scenario, **degrees: Any) -> Plan:
    kept = {name: getattr(scenario.plan, name) for name in ("sharding", "recompute", "micro_batch")}
    return Plan(**kept, **degrees)


def _judged(scenario: Scenario, way: Way) -> Way:
    """Ask the model and the group; which micro-batch or length fits is a matter of the axis."""
    found = tensor_problems(scenario.model, way.plan, scenario.training)
    found += context_problems(scenario.model, way.plan, scenario.training)
    kept = tuple(
        problem
        for problem in found
        if problem.field not in ("plan.micro_batch", "training.seq_len") and "seq_len" not in problem.message
    )
    return replace(way, problems=kept)


def _depth(scenario: Scenario, ranks: int) -> int:
    """Depth of 2.5D: the scenario's own, else the deepest that is no deeper than wide, else the shallowest beyond 1."""
    fits = [d for d in divisors(ranks) if 1 < d < ranks and grid_fits("2.5d", ranks, d)]
    if scenario.plan.tp_kind == "2.5d" and scenario.plan.tp_depth in fits:
        return scenario.plan.tp_depth
    flat = [d for d in fits if d <= int(grid_of("2.5d", ranks, d))]
    return max(flat) if flat else min(fits, default=2)
