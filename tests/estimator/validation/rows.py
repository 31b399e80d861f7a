"""A row of a table of measured runs, and what a changed one is read as."""

from __future__ import annotations

from estimator.scenario.scenario import Scenario
from estimator.validation.csv_row import scenario_of_row

ROW = {
    "source_id": "row_1",
    "hardware": "H100-80GB",
    "n_gpus": "16",
    "model": "some gpt",
    "n_layers": "24",
    "d_model": "1024",
    "n_heads": "16",
    "seq_len": "1024",
    "global_batch": "64",
    "micro_batch": "2",
    "tp": "2",
    "pp": "2",
    "precision": "bf16",
    "measured_step_time_s": "1.25",
}

TOLD = "args: --transformer-impl=transformer_engine --deterministic-mode=True"
"""Arguments of a run of Megatron, as notes list them."""


def read(**changes: str) -> Scenario:
    row = scenario_of_row({**ROW, **changes})
    assert row.scenario is not None, row.reason
    return row.scenario


def reason(**changes: str) -> str:
    row = scenario_of_row({**ROW, **changes})
    assert row.scenario is None
    return row.reason


def assumed(**changes: str) -> str:
    return "; ".join(scenario_of_row({**ROW, **changes}).assumptions)
