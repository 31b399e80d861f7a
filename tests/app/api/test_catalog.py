"""GET /api/catalog: all that the scenario panel offers, and nothing that an estimate would refuse as unknown."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from fastapi.testclient import TestClient

from app.api.catalog import Catalog
from app.disk import write_json
from app.main import create_app
from estimator.scenario import catalog as chips
from estimator.scenario.codec import encode
from estimator.scenario.hardware import Chip
from estimator.scenario.model import Model
from estimator.scenario.plan import Plan
from estimator.scenario.training import Training
from tests.app.examples import MEASUREMENT, SCENARIO

EXPERTS = {
    "model": "mixtral-8x7b",
    "cluster": {"chip": "h200-sxm", "nodes": 4},
    "plan": {"dp": 4, "tp": 2, "cp": 2, "pp": 2, "ep": 4, "expert_tp": 2, "sharding": "fsdp"},
    "training": {"seq_len": 4096, "global_batch": 16, "precision": "bf16-amp"},
}
"""Messages along every axis."""


@pytest.fixture
def client(shared_client):
    return shared_client


@pytest.fixture
def catalog(client):
    return client.get("/api/catalog").json()


def test_entries_carry_value_aliases_and_sources(catalog):
    for kind in ("models", "chips", "links"):
        assert catalog[kind]
        for entry in catalog[kind]:
            assert {"key", "label", "value", "aliases", "sources"} <= set(entry)
            assert entry["sources"], entry["key"]
    models = {entry["key"]: entry for entry in catalog["models"]}
    assert models["cs336-small"]["parameters"] == 128_625_408
    assert models["llama3-8b"]["parameters"] == 8_030_261_248
    chips = {entry["key"]: entry["value"] for entry in catalog["chips"]}
    assert chips["h200-sxm"]["memory_bytes"] > 140e9


def test_every_plain_field_is_described(catalog):
    described = catalog["fields"]
    for part, cls in (("model", Model), ("chip", Chip), ("plan", Plan), ("training", Training)):
        for field in fields(cls):
            assert described[f"{part}.{field.name}"]["help"], field.name
    assert described["plan.tp"] == {
        "type": "integer",
        "choices": None,
        "minimum": 1,
        "maximum": 100_000,
        "help": "tensor parallel degree",
        "default": 1,
    }
    assert "fsdp" in described["plan.sharding"]["choices"]
    assert described["plan.schedule"]["choices"] == ["gpipe", "1f1b", "interleaved", "zero-bubble", "zero-bubble-v"]
    assert described["cluster.nodes"]["minimum"] == 1
    assert described["training.seq_len"]["default"] is None


def test_what_figures_show_is_named_in_the_order_of_an_estimate(client, catalog):
    found = client.post("/api/estimate", json=EXPERTS).json()
    names = {kind: [entry["key"] for entry in catalog[kind]] for kind in ("categories", "phases", "memory_kinds")}
    assert names["categories"] == list(found["breakdown_s"])
    assert names["phases"] == list(found["phases_s"])
    assert names["memory_kinds"] == list(found["memory"]["by_kind"])
    for kind in names:
        assert all(entry["label"] and entry["hue"] for entry in catalog[kind])
    axes = {one["key"]: one["label"] for one in catalog["axes"]}
    assert all(axes.values())
    assert set(axes) == {one["axis"] for one in found["collectives"]}


def test_the_document_is_what_its_type_says_and_every_part_of_a_plan_has_an_axis(catalog):
    assert set(catalog) == set(Catalog.__annotations__)
    assert {f"plan.{field.name}" for field in fields(Plan)} <= set(catalog["axis_fields"])


def test_defaults_are_legal(catalog):
    for name, field in catalog["fields"].items():
        default = field["default"]
        if default is None:
            continue
        assert field["choices"] is None or default in field["choices"], name
        if field["minimum"] is not None:
            assert field["minimum"] <= default <= field["maximum"], name


def test_without_a_bundled_measurement_the_default_scenario_still_predicts(client, catalog):
    assert catalog["sample"] is None
    assert client.post("/api/estimate", json=catalog["default_scenario"]).status_code == 200


def test_the_first_bundled_measurement_is_the_default(settings):
    write_json(settings.samples / "b-later.json", encode(MEASUREMENT) | {"label": "later"})
    write_json(settings.samples / "a-first.json", encode(MEASUREMENT) | {"label": "first"})
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as client:
        catalog = client.get("/api/catalog").json()
        assert catalog["sample"] == {"measurement_id": "a-first", "scenario": SCENARIO}
        assert catalog["default_scenario"] == SCENARIO
        measurement = client.get("/api/measurements/a-first").json()
        assert measurement["label"] == "first"
        assert measurement["prediction"]["step_time_s"] > 0
        listed = client.get("/api/measurements").json()["measurements"]
        assert [(item["id"], item["bundled"]) for item in listed] == [("a-first", True), ("b-later", True)]


def test_this_cpu_is_pending_until_it_is_measured(client, catalog):
    assert [(item["key"], item["state"]) for item in catalog["pending"]] == [("cpu", "off")]
    asked = client.post("/api/this-cpu").json()
    assert (asked["measuring"], "switched off" in asked["message"]) == (False, True)


def test_why_a_prediction_for_a_chip_says_nothing_stands_in_the_catalogue(settings, catalog, catalogue_as_before):
    assert catalog["doubts"] == {}
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as client:
        cpu = client.app.state.context.cpu
        write_json(
            cpu.cache_file,
            {"chip": encode(replace(chips.chip("a100"), kind="cpu")), "samples": {"cpu_share_frac": 0.11}},
        )
        assert cpu.load()
        document = client.get("/api/catalog").json()
        (said,) = document["doubts"].items()
        table = "| model | seq_len | step time (ms) |\n|---|---|---|\n| gpt2 | 128 | 10.5 |\n"
        (listed,) = client.put("/api/uploads?filename=t.md", content=table).json()["measurements"]
        rows = f"/api/measurements/{listed['id']}/rows"
        on = [client.get(f"{rows}?chip={chip}").json()["doubt"] for chip in ("cpu", "h100-sxm")]
    assert said[0] == "cpu"
    assert "left 11 % of it" in said[1]
    assert on[0] == said[1]
    assert said[1] not in on[1]
    assert document["measuring"] is False
