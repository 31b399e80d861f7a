"""What processors that share one part of an LSTM language model exchange beside the products' own collectives."""

from __future__ import annotations

from estimator.scenario.arrays import maximum
from estimator.scenario.units import Number
from estimator.studies.deepflow import kernel_split, lstm
from estimator.studies.deepflow.kernel_split import KernelCollective, KernelSplit
from estimator.studies.deepflow.lstm import Lstm
from estimator.studies.deepflow.lstm_price import Rates, collective_s


def gate_exchange(cell: lstm.Product, split: KernelSplit) -> tuple[KernelCollective, ...]:
    """After column-row the gates of one unit lie on different processors: three operands of every element travel."""
    if kernel_split.alone(split.inner):
        return ()
    return tuple(
        KernelCollective(name=f"gate operand {i}", kind="shift", ranks=split.inner, words=cell.a * cell.c)
        for i in (1, 2, 3)
    )


def row_sums(logits: lstm.Product, split: KernelSplit) -> tuple[KernelCollective, ...]:
    """Partial sums of every row of logits, from each processor that holds columns of it to all others."""
    pieces = _pieces(split)
    if kernel_split.alone(pieces):
        return ()
    words = logits.a / split.rows * pieces
    return (KernelCollective(name="softmax row sums", kind="all-gather", ranks=pieces, words=words),)


def embedding_gather(m: Lstm, split: KernelSplit) -> tuple[KernelCollective, ...]:
    """Positions whose vectors lie elsewhere: column-row cuts the vocabulary, row-column batch and width."""
    pieces = _pieces(split)
    if kernel_split.alone(pieces):
        return ()
    words = m.batch * m.sequence * m.hidden / split.rows
    return (KernelCollective(name="embedding", kind="all-gather", ranks=pieces, words=words),)


def embedding_rows(m: Lstm, split: KernelSplit, replicas: int) -> tuple[KernelCollective, ...]:
    """Gradients of the embedding are rows of other words on every replica: all are gathered, none is summed."""
    if kernel_split.alone(replicas):
        return ()
    words = replicas * m.batch * m.sequence * m.hidden / split.degree
    return (KernelCollective(name="embedding gradient rows", kind="all-gather", ranks=replicas, words=words),)


def _pieces(split: KernelSplit) -> int:
    """Pieces of a row of the result."""
    pieces: int = maximum(split.columns, split.inner)  # type: ignore[assignment]
    return pieces


def moved_s(collectives: tuple[KernelCollective, ...], r: Rates) -> Number:
    total: Number = 0.0
    for one in collectives:
        total = total + collective_s(one, r)
    return total
