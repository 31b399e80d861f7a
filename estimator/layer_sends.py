"""Layer sends: which op of a block, or of an edge, a collective in line belongs to."""

from __future__ import annotations

import re
from collections.abc import Sequence

from estimator.exchanges import InLine
from estimator.networks.dims import Dims

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

COLUMN_SENDS = ("sequence gather", "input gather for weights", "gradient scatter", "block input gradient sums")

PARTS = {
    "block output sums": ROW_LINEARS,
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


def owners(line: InLine, names: Sequence[str], d: Dims) -> list[tuple[str, float]]:
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
    if pattern == ROW_LINEARS and name != message.name and not d.redoes_whole_blocks:
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
