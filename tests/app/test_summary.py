"""A measurement in one line."""

from __future__ import annotations

import dataclasses

from app.summary import scenario_of, summarize
from estimator.scenario.measurement import Measurement, Origin
from tests.app.examples import LLAMA, MEASUREMENT, SCENARIO, scenario


def test_counts_and_the_median_step():
    rows = ({"context_tokens": 256, "step_time_s": 0.1},) * 3
    found = summarize(dataclasses.replace(MEASUREMENT, id="m", rows=rows), created_s=5.0)
    assert (found.rows, found.kernels, found.step_time_s, found.created_s) == (3, 1, 0.011, 5.0)
    empty = summarize(Measurement(id="e"), created_s=5.0)
    assert (empty.step_time_s, empty.peak_bytes, empty.device_name, empty.has_scenario) == (None, None, "", False)


def test_the_list_has_the_scenario_as_it_ran():
    ran = dataclasses.replace(MEASUREMENT, samples={"options": {"experts": "grouped"}})
    found = summarize(ran, created_s=5.0)
    assert found.scenario["training"] == MEASUREMENT.scenario["training"] | {"experts": "grouped"}
    assert scenario_of(ran).training.experts == "grouped"


def test_a_log_s_own_rate_is_that_of_all_gpus():
    each = tuple({"step": at, "tokens_per_s_per_gpu": rate} for at, rate in enumerate((90.0, 100.0, 120.0)))
    log = Measurement(
        id="l", origin=Origin(kind="upload", format="log/torchtitan", producer="torchtitan"), world_size=4, rows=each
    )
    assert summarize(log, created_s=5.0).tokens_per_s == 400.0
    whole = dataclasses.replace(log, rows=({"tokens_per_s": 300.0}, {"tokens_per_s": None}))
    assert summarize(whole, created_s=5.0).tokens_per_s == 300.0
    table = dataclasses.replace(log, origin=Origin(kind="upload", format="text/table"))
    assert summarize(table, created_s=5.0).tokens_per_s is None


def test_a_log_that_names_no_chips_is_of_nobody_knows_how_many():
    log = Measurement(id="l", origin=Origin(kind="upload", format="log/Transformers"), steps_s=(1.0,))
    assert summarize(log, created_s=5.0).world_size == 0
    assert summarize(dataclasses.replace(log, scenario={"plan": {"dp": 1}}), created_s=5.0).world_size == 1
    assert summarize(dataclasses.replace(log, world_size=4), created_s=5.0).world_size == 4
    assert summarize(dataclasses.replace(log, origin=Origin(kind="run", format="step")), created_s=5.0).world_size == 1


def test_only_a_complete_and_possible_scenario_counts():
    def of(document):
        return scenario_of(dataclasses.replace(MEASUREMENT, scenario=document))

    assert of(SCENARIO).model.layers == 1
    assert of(LLAMA).cluster.chips == 8
    assert of({}) is None
    assert of({"model": "llama3-8b"}) is None
    assert of(scenario(plan__tp=3)) is None
    assert of(scenario(cluster__chip="a chip of ours")) is None
