"""What an LSTM's processors exchange by hand, and that one that is alone sends nothing, in an array of several too."""

from __future__ import annotations

import numpy as np
import pytest

from estimator.studies.deepflow.kernel_split import KernelSplit
from estimator.studies.deepflow.lstm import Lstm, Product
from estimator.studies.deepflow.lstm_exchanges import embedding_gather, embedding_rows, gate_exchange, moved_s, row_sums
from estimator.studies.deepflow.lstm_price import Rates

MODEL = Lstm(batch=8, hidden=16, vocab=64, sequence=4)
RATES = Rates(
    levels=(), flops_per_s=1e12, element_bytes=4, launch_s=0.0, link_bytes_per_s=1e9, link_latency_s=1e-6
)  # fmt: skip
COLUMNS = KernelSplit(kind="column-row", first=4)
ROWS = KernelSplit(kind="row-column", first=2, second=4)
PRODUCT = Product(name="logits", a=32, b=16, c=64)


def test_gates_of_one_unit_meet_where_columns_and_rows_are_cut():
    found = gate_exchange(PRODUCT, COLUMNS)
    assert [(one.kind, one.ranks, one.words) for one in found] == [("shift", 4, 32 * 64)] * 3
    assert gate_exchange(PRODUCT, ROWS) == gate_exchange(PRODUCT, KernelSplit()) == ()


def test_sums_of_rows_travel_between_the_pieces_of_a_row():
    assert [(one.ranks, one.words) for one in row_sums(PRODUCT, ROWS)] == [(4, 32 / 2 * 4)]
    assert [(one.ranks, one.words) for one in row_sums(PRODUCT, COLUMNS)] == [(4, 32 * 4)]
    assert row_sums(PRODUCT, KernelSplit()) == ()


def test_the_embedding_gathers_vectors_and_rows_of_gradients():
    assert [(one.ranks, one.words) for one in embedding_gather(MODEL, ROWS)] == [(4, 8 * 4 * 16 / 2)]
    assert embedding_gather(MODEL, KernelSplit()) == embedding_rows(MODEL, ROWS, 1) == ()
    assert [(one.ranks, one.words) for one in embedding_rows(MODEL, ROWS, 3)] == [(3, 3 * 8 * 4 * 16 / 8)]


@pytest.mark.parametrize("kind", ["column-row", "row-column"])
def test_splits_together_cost_what_each_costs_alone(kind):
    degrees = [1, 2, 8]
    second = [1, 1, 1] if kind == "column-row" else [4, 1, 2]
    splits = [KernelSplit(kind=kind, first=f, second=s) for f, s in zip(degrees, second, strict=True)]
    together = KernelSplit(kind=kind, first=np.array(degrees), second=np.array(second))
    for exchange in (lambda split: row_sums(PRODUCT, split), lambda split: embedding_gather(MODEL, split)):
        alone = [moved_s(exchange(split), RATES) for split in splits]
        assert list(np.broadcast_to(moved_s(exchange(together), RATES), 3)) == pytest.approx(alone, rel=1e-12)
