"""Layer table: every op of one layer, of the embedding and of the head with its FLOPs, tensors, traffic, sends, times.

What of the step is in none of them stands last, so that the shares add to the whole. The form of the tables of
Subramanian et al. 2024, arXiv 2410.00273: one line per op of one rank and one micro-batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields

from estimator.communication.message import PricedMessage
from estimator.cost.efficiency import Calibrated
from estimator.cost.price import Priced
from estimator.estimate.assemble import Assembled, assembled
from estimator.estimate.report import op_costs, phases_and_breakdown
from estimator.operations.layer_tensors import tensors_of
from estimator.operations.op import piece_of
from estimator.operations.rank_sizes import RankSizes
from estimator.scenario.breakdown import SHOWN_CATEGORIES, Category
from estimator.scenario.scenario import Scenario

GRADIENT = re.compile(r" (input |weight )?gradient\b.*$")
COPY = re.compile(r" (weight|input) (cast|quantisation)$")


@dataclass(kw_only=True, slots=True)
class LayerRow:
    """One op on one rank, per micro-batch; ``times`` it runs in a step on the critical stage.

    ``traffic``: all bytes between chip and memory, casts, recomputation and weights included. ``compute`` and
    ``memory`` seconds are what each roof alone allows, ``forward_s`` and ``backward_s`` what the op takes.
    ``communication`` seconds are those that compute does not hide. ``share_frac`` of the step, communication included.
    Of ``part`` "step" is what stands in no layer: optimizer, exchanges of data ranks and stages, waits, the bubble.
    """

    part: str
    op: str
    category: str
    times: float
    flops_forward: float = 0.0
    flops_backward: float = 0.0
    in_bytes: float | None = None
    out_bytes: float | None = None
    kept_bytes: float = 0.0
    weights_bytes: float = 0.0
    gradients_bytes: float = 0.0
    traffic_forward_bytes: float = 0.0
    traffic_backward_bytes: float = 0.0
    intensity_flops_per_byte: float | None = None
    communication_forward_kind: str = ""
    communication_forward_ranks: int | None = None
    communication_forward_bytes: float = 0.0
    communication_backward_kind: str = ""
    communication_backward_ranks: int | None = None
    communication_backward_bytes: float = 0.0
    compute_forward_s: float = 0.0
    memory_forward_s: float = 0.0
    forward_s: float = 0.0
    communication_forward_s: float = 0.0
    total_forward_s: float = 0.0
    compute_backward_s: float = 0.0
    memory_backward_s: float = 0.0
    backward_s: float = 0.0
    communication_backward_s: float = 0.0
    total_backward_s: float = 0.0
    share_frac: float = 0.0
    trained: bool = field(default=False, repr=False)


COLUMNS = tuple(f.name for f in fields(LayerRow) if f.name != "trained")
WHOLE_STEP = "step"
LEAST_SHARE = 1e-9
"""A rest of the step below it is rounding."""


def layer_table(scenario: Scenario, calibration: Calibrated | None = None) -> tuple[LayerRow, ...]:
    """Return the rows of every kind of block on the critical stage, of embedding and head, and of the step's rest."""
    found = assembled(scenario, calibration)
    rank, setting, lines, timing = found.rank, found.setting, found.lines, found.timing
    kind = setting.kinds[int(timing.critical_stage)]
    batches, seconds = float(setting.micro_batches), float(timing.seconds)
    parts = [
        (block.name, work.priced, sent, float(count))
        for block, work, sent, count in zip(rank.ops.blocks, rank.blocks, lines.blocks, kind.blocks, strict=True)
        if float(count) > 0
    ]
    # Embedding and head stand in the table whichever stage is critical; they count where they are on that stage.
    parts += [("embedding", rank.embedding.priced, lines.embedding, float(kind.embedding))]
    parts += [("head", rank.head.priced, lines.head, float(kind.head))]
    rows: list[LayerRow] = []
    for part, priced, sent, count in parts:
        rows += _rows(part, priced, sent, count * batches, rank.d, seconds)
    return (*rows, *_rest(rows, found))


def _rest(rows: Sequence[LayerRow], found: Assembled) -> Iterator[LayerRow]:
    """Each category's seconds of the step, less those of its ops in the layers, as a row of its own."""
    rank, setting, timing = found.rank, found.setting, found.timing
    seconds = float(timing.seconds)
    _, breakdown = phases_and_breakdown(timing, rank, setting)
    for op in op_costs(rank, setting, setting.kinds[int(timing.critical_stage)], found.e):
        if op.category != Category.OPTIMIZER:
            breakdown[op.category] -= op.seconds
    breakdown[Category.COMMUNICATION] -= sum(
        (row.communication_forward_s + row.communication_backward_s) * row.times for row in rows
    )
    for category, rest_s in breakdown.items():
        if rest_s > LEAST_SHARE * seconds:
            name = SHOWN_CATEGORIES[category].label
            yield LayerRow(part=WHOLE_STEP, op=name, category=category, times=1.0, share_frac=rest_s / seconds)


def _rows(
    part: str, priced: Sequence[Priced], lines: Sequence[PricedMessage], times: float, d: RankSizes, step_s: float
) -> Iterator[LayerRow]:
    forward = {one.op.name for one in priced if one.op.phase == "forward"}
    rows: dict[str, LayerRow] = {}
    for one in priced:
        _add(rows, one, forward, part, times)
    for one in priced:
        row = rows.get(one.op.name)
        if row is not None and one.op.phase == "forward":
            found = tensors_of(d, one.op, trained=row.trained)
            row.in_bytes = None if found.in_bytes is None else float(found.in_bytes)
            row.out_bytes = None if found.out_bytes is None else float(found.out_bytes)
            row.weights_bytes = float(found.weight_elements) * d.widths.parameter
            row.gradients_bytes = float(found.weight_elements) * d.widths.gradient
    names = list(rows)
    for line in lines:
        for name, count in owners(line, names, d):
            if count > 0:
                row = rows.setdefault(name, LayerRow(part=part, op=name, category=Category.COMMUNICATION, times=times))
                _send(row, line, count)
    for row in rows.values():
        traffic = row.traffic_forward_bytes
        row.intensity_flops_per_byte = row.flops_forward / traffic if traffic and row.flops_forward else None
        row.total_forward_s = row.forward_s + row.communication_forward_s
        row.total_backward_s = row.backward_s + row.communication_backward_s
        row.share_frac = (row.total_forward_s + row.total_backward_s) * times / step_s
        yield row


def _add(rows: dict[str, LayerRow], one: Priced, forward: set[str], part: str, times: float) -> None:
    """Add an op to its row: gradients and casts stand in the row of the forward op that they belong to."""
    op = one.op
    base = piece_of(COPY.sub("", GRADIENT.sub("", op.name)))
    name = base if base in forward else op.name
    row = rows.setdefault(name, LayerRow(part=part, op=name, category=op.category, times=times))
    count = float(op.count)
    phase = op.phase
    for field_name, value in (
        (f"flops_{phase}", one.executed_flops),
        (f"traffic_{phase}_bytes", op.bytes),
        (f"compute_{phase}_s", one.compute_s),
        (f"memory_{phase}_s", one.memory_s),
        (f"{phase}_s", one.seconds if float(op.launches) > 0 else 0.0),
    ):
        setattr(row, field_name, getattr(row, field_name) + float(value) * count)
    row.kept_bytes += float(op.saved_bytes) * count
    row.trained |= op.weight and op.kind == "gemm"


def _send(row: LayerRow, line: PricedMessage, count: float) -> None:
    message = line.message
    phase = message.phase
    kind = getattr(row, f"communication_{phase}_kind")
    words = f"{message.axis} {message.kind}"
    if words not in kind.split(", "):
        setattr(row, f"communication_{phase}_kind", f"{kind}, {words}" if kind else words)
    ranks = max(getattr(row, f"communication_{phase}_ranks") or 0, int(line.ranks))
    setattr(row, f"communication_{phase}_ranks", ranks)
    each_s = float(line.exposed_s) / float(message.count)
    for name, value in (("bytes", message.payload_bytes), ("s", each_s)):
        full = f"communication_{phase}_{name}"
        setattr(row, full, getattr(row, full) + float(value) * count)


COLUMN_LINEARS = r"(q|qkv|k, v|q up|kv up) projections?|(shared )?(gate, up projections|up projection)"
ROW_LINEARS = r"output projection|(shared )?down projection"
ONE_QUERY = r"(q|qkv|q up) projection"

GRID_PARTS = (
    ("qkv norm statistics", "attention norm"),
    ("ffn in norm statistics", "ffn norm"),
    ("qkv ", ONE_QUERY),
    ("attention output ", "output projection"),
    ("attention ", "attention|scores"),
    ("ffn in ", "gate, up projections|up projection"),
    ("ffn out ", "down projection"),
)
"""Names of a grid's messages by their beginning, and the op that each belongs to."""

COLUMN_SENDS = (
    "sequence gather",
    "input gather for weights",
    "gradient scatter",
    "tensor parallel gradient all-reduce",
)

PARTS = {
    "tensor parallel all-reduce": ROW_LINEARS,
    "sequence scatter": ROW_LINEARS,
    "gradient gather": ROW_LINEARS,
    "expert dispatch, combine": "expert permutation|expert combine",
    "expert dispatch, combine gradients": "expert permutation|expert combine",
    "expert token gather": "expert gate, up projections|expert up projection",
    "expert gradient scatter": "expert gate, up projections|expert up projection",
    "expert sum scatter": "expert down projection",
    "expert gradient gather": "expert down projection",
    "embedding sum": "embedding",
    "embedding scatter": "embedding",
    "embedding gradient gather": "embedding",
    "loss sums": "cross-entropy",
    "head input gather": "logits",
    "logits gradient sum": "logits",
    "logits gradient scatter": "logits",
}


def owners(line: PricedMessage, names: Sequence[str], d: RankSizes) -> list[tuple[str, float]]:
    """Return (op, executions per micro-batch and block) of a message; they add to its count.

    Column linears gather their input and sum its gradient, row linears sum their output and gather its gradient
    (Korthikanti 2022, arXiv 2205.05198, section 4.2.2). A message that no op is known for stands under its own name.
    """
    message = line.message
    count = float(message.count)
    if message.axis == "cp":
        return _spread(_matching(names, "attention|scores"), count, message.name)
    name = message.name.removesuffix(" again")
    if name in COLUMN_SENDS:
        return _by_block(_matching(names, COLUMN_LINEARS), count, message.name)
    pattern = PARTS.get(name) or next((op for start, op in GRID_PARTS if name.startswith(start)), "")
    ops = _matching(names, pattern) if pattern else []
    if pattern == ROW_LINEARS and name != message.name and not d.training.traits.redoes_whole_blocks:
        # A checkpoint that stops early leaves out the block's last sum.
        ops = ops[: int(count)]
    return _spread(ops, count, message.name)


def _by_block(columns: list[str], count: float, name: str) -> list[tuple[str, float]]:
    """Spread over column linears: once per projection where count has room for all, else once per half of a block."""
    sizes = {op: 2.0 if op.startswith(("k, v", "gate", "shared gate")) else 1.0 for op in columns}
    if sum(sizes.values()) == count:
        return list(sizes.items())
    firsts = [op for op in columns if re.fullmatch(ONE_QUERY, op) or ("up" in op.split() and "kv" not in op.split())]
    return _spread(firsts or columns, count, name)


def _spread(ops: list[str], count: float, name: str) -> list[tuple[str, float]]:
    return [(op, count / len(ops)) for op in ops] if ops else [(name, count)]


def _matching(names: Sequence[str], pattern: str) -> list[str]:
    return [name for name in names if re.fullmatch(pattern, name)]
