"""Catalogue: models, chips, links, the legal values of every field, and the scenario that the page opens with."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from fastapi import APIRouter
from starlette.responses import Response

from app.api.body import json_response
from app.api.documented import documented
from app.api.fields import WORDS, described
from app.context import Context, Ctx
from estimator.estimate.estimate import roofs_of
from estimator.scenario import catalog
from estimator.scenario.breakdown import (
    BETWEEN_PASSES,
    SHOWN_CATEGORIES,
    SHOWN_MEMORY_KINDS,
    SHOWN_PASSES,
    SHOWN_PHASES,
    Category,
    Shown,
)
from estimator.scenario.codec import types_of
from estimator.scenario.hardware import Chip, Cluster
from estimator.scenario.measurement import scenario_run
from estimator.scenario.model import Model
from estimator.scenario.parameters import parameters
from estimator.scenario.plan import AXIS_LABELS, Plan
from estimator.scenario.training import Training
from estimator.search.axis import AXIS_FIELDS
from runners.options import PROGRAM_PRECISIONS

router = APIRouter()

FALLBACK_SCENARIO: dict[str, Any] = {
    "model": "llama3-8b",
    "cluster": {"chip": "h200-sxm", "chips_per_node": 8, "nodes": 1},
    "plan": {"dp": 8, "sharding": "fsdp", "micro_batch": 1},
    "training": {"seq_len": 4096, "global_batch": 8, "precision": "bf16-amp"},
}
"""What the page opens with where no measurement is bundled."""


class Entry(TypedDict):
    """What a name stands for, with its other names and the source of each number."""

    key: str
    label: str
    value: dict[str, Any]
    aliases: list[str]
    sources: dict[str, str]


class Name(TypedDict):
    """A category, phase, pass or kind of memory: label and hue, and of some what it is, its formula and source."""

    key: str
    label: str
    hue: str
    says: NotRequired[str]
    formula: NotRequired[str]
    source: NotRequired[str]


class Catalog(TypedDict):
    """All that the scenario panel offers, and the names of what figures show.

    ``pending``: chips that are not measured yet; ``doubts``: why predictions for a chip say nothing, by its key;
    ``measuring``: whether this CPU is measured now, for the first time or anew;
    ``axis_fields``: what can be moved along all its values; ``sends``: the category of messages;
    ``between_passes``: what the lane of a stage shows beside its passes.
    """

    models: list[Entry]
    chips: list[Entry]
    links: list[Entry]
    pending: list[dict[str, str]]
    doubts: dict[str, str]
    measuring: bool
    fields: dict[str, dict[str, Any]]
    axis_fields: list[str]
    categories: list[Name]
    phases: list[Name]
    passes: list[Name]
    between_passes: list[str]
    sends: str
    memory_kinds: list[Name]
    traced_precisions: list[str]
    axes: list[dict[str, str]]
    default_scenario: dict[str, Any]
    sample: dict[str, Any] | None


_PARTS: dict[str, type[Any]] = {"model": Model, "chip": Chip, "cluster": Cluster, "plan": Plan, "training": Training}


@router.get("/api/catalog")
@documented({200: Catalog})
def get_catalog(context: Ctx) -> Response:
    """Everything that the scenario panel offers, and the names of what figures show."""
    return json_response(catalog_document(context))


def catalog_document(context: Context) -> dict[str, Any]:
    """Build the catalogue's answer; a chip that is not measured yet stands in ``pending``, not in ``chips``."""
    models = [
        _entry(entry) | {"parameters": parameters(entry.value, entry.value.max_positions)}
        for entry in catalog.entries("models")
    ]
    sample = default_sample(context)
    return {
        "models": models,
        "chips": [_entry(entry) | {"roofs": roofs_of(entry.value)} for entry in catalog.entries("chips")],
        "links": [_entry(entry) for entry in catalog.entries("links")],
        "pending": context.cpu.pending(),
        "doubts": context.cpu.doubts(),
        "measuring": context.cpu.measuring,
        "fields": fields(),
        "axis_fields": AXIS_FIELDS,
        "categories": _names(SHOWN_CATEGORIES),
        "phases": _names(SHOWN_PHASES),
        "passes": _names(SHOWN_PASSES),
        "between_passes": BETWEEN_PASSES,
        "sends": Category.COMMUNICATION,
        "memory_kinds": _names(SHOWN_MEMORY_KINDS),
        "traced_precisions": PROGRAM_PRECISIONS,
        "axes": [{"key": key, "label": label} for key, label in AXIS_LABELS.items()],
        "default_scenario": sample["scenario"] if sample else FALLBACK_SCENARIO,
        "sample": sample,
    }


def default_sample(context: Context) -> dict[str, Any] | None:
    """Name the first bundled measurement and give its scenario."""
    for measurement_id in context.store.bundled():
        measurement = context.store.measurement(measurement_id)
        if measurement and measurement.scenario:
            return {"measurement_id": measurement_id, "scenario": scenario_run(measurement)}
    return None


def fields() -> dict[str, dict[str, Any]]:
    """Describe every plain field of a scenario: its choices or bounds, help and default."""
    found = {}
    for part, cls in _PARTS.items():
        hints = types_of(cls)
        for field in dataclasses.fields(cls):
            if hints[field.name] in WORDS:
                found[f"{part}.{field.name}"] = described(field, hints[field.name])
    return found


def _names(shown: Mapping[str, Shown]) -> list[dict[str, str]]:
    """Names in the order in which figures stack them, each with its label and hue, and what it says where it does."""
    return [
        {"key": key, "label": one.label, "hue": one.hue} | (dataclasses.asdict(one.term) if one.term else {})
        for key, one in shown.items()
    ]


def _entry(entry: catalog.CatalogEntry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in ("key", "label", "value", "aliases", "sources")}
