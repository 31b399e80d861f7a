"""What the page derives from the catalogue: words of choices, and what of a chip can be changed."""

from __future__ import annotations

from app.api.catalog import fields
from estimator.scenario.framework import FRAMEWORKS
from estimator.scenario.hardware import PEAK_FIELD
from tests.javascript import call_each


def test_every_framework_is_called_by_its_label():
    offered = {name: {"labels": one.get("labels")} for name, one in fields().items()}
    said = call_each("words", "wordOf", [["framework", name, offered] for name in FRAMEWORKS])
    assert said == [one.label for one in FRAMEWORKS.values()]
    assert not any("," in label for label in said)  # they stand in lists
    assert call_each("words", "wordOf", [["sharding", "zero1", offered], ["schedule", "1f1b", {}]]) == [
        "ZeRO-1",
        "1F1B",
    ]


def test_a_sharding_of_a_plan_is_called_as_its_control_calls_it():
    said = call_each("planLabel", "planLabel", [[{"dp": 8, "sharding": name}, {}] for name in ("zero1", "fsdp")])
    assert [one["rest"] for one in said] == ["ZeRO-1", "FSDP"]


def test_every_peak_of_a_chip_can_be_changed():
    value = {"name": "", **dict.fromkeys(PEAK_FIELD.values(), 0.0), "fp32_matrix_flops_per_s": 0.0, "memory_bytes": 1}
    found, of_model = call_each(
        "ownParts", "ownFields", [[kind, {"chips": [{"value": value}]}] for kind in ("chip", "model")]
    )
    named = {one["name"]: one for one in found}
    assert set(PEAK_FIELD.values()) < set(named)
    assert (named["fp8_flops_per_s"]["label"], named["fp8_flops_per_s"]["factor"]) == ("fp8 dense", 1e12)
    assert named["fp32_matrix_flops_per_s"]["label"] == "fp32 matrix dense"
    assert {"memory_bytes", "usd_per_hour"} < set(named)
    assert "layers" in {one["name"] for one in of_model}
