"""Published measured steps: predicted or skipped with a reason, and closer than the naive formula.

Rows of MosaicML's llm-foundry benchmark tables (MPT under FSDP on A100 and H100) and of vTrain's measured
Megatron-DeepSpeed steps (A100, one to 64 nodes), as their sources print them; every row names its place.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from estimator.validation.score import Predicted, Skipped, predict_rows, score

TABLE = Path(__file__).parents[2] / "reference" / "estimator_measured_runs.csv"
SOURCES = {"llm-foundry": "llmf_", "vTrain": "vtrain_"}


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def found(rows) -> list[Predicted | Skipped]:
    return predict_rows(rows)


def source_id(item: Predicted | Skipped) -> str:
    return item.source_id if isinstance(item, Skipped) else item.row.source_id


def test_every_row_is_predicted(rows, found):
    assert [source_id(item) for item in found] == [row["source_id"] for row in rows]
    assert [item.reason for item in found if isinstance(item, Skipped)] == []
    assert all(item.row.assumptions for item in found if isinstance(item, Predicted))


@pytest.mark.parametrize("source", SOURCES)
def test_the_model_beats_the_naive_formula_by_half(source, found):
    some = [item for item in found if source_id(item).startswith(SOURCES[source])]
    result = score(some)
    assert result.time.n >= 12
    assert result.time.mape < 0.5 * result.baseline["naive"].mape
    assert result.time.mape < 15
    assert abs(result.time.bias) < 10


def test_most_measured_times_lie_in_the_interval(found):
    done = [item for item in found if isinstance(item, Predicted)]
    inside = [item for item in done if item.low_s <= item.row.measured_step_s <= item.high_s]
    # The interval is meant to hold four of five; the estimator's own errors come on top.
    assert len(inside) >= 0.6 * len(done)


def test_what_was_run_is_not_called_too_large(found):
    fits = [
        item.peak_bytes <= item.row.scenario.cluster.chip.memory_bytes for item in found if isinstance(item, Predicted)
    ]
    assert sum(fits) >= 0.9 * len(fits)
