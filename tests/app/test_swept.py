"""A sweep as rows, figure and table, and A and B as one table: every number is the estimator's."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec

from estimator.operations.optimizer import chooses_kernel
from estimator.scenario.codec import encode
from estimator.scenario.framework import FRAMEWORKS
from estimator.scenario.training import OPTIMIZERS, Training
from estimator.search.axis import AXIS_FIELDS, axis
from tests.app.examples import LLAMA
from tests.javascript import call_each

CATALOG = {"fields": {}}


def swept(field: str, document: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The points of the estimator's axis, and the rows that the page makes of them."""
    points = msgspec.json.decode(msgspec.json.encode(axis(document, field).points))
    part, name = field.split(".")
    now = {"path": field, "value": document[part][name], "catalog": CATALOG,
           "scenario": next(one["scenario"] for one in points if one["value"] == document[part][name])}  # fmt: skip
    (rows,) = call_each("sweptRows", "sweptRows", [[points, now]])
    return points, rows


def test_rows_say_what_each_value_takes_or_why_it_cannot_be():
    plan = {**LLAMA["plan"], "dp": 24, "tp": 1}
    document = {**LLAMA, "plan": plan, "cluster": {**LLAMA["cluster"], "chips_per_node": 8, "nodes": 3}}
    document["training"] = {**LLAMA["training"], "global_batch": 96, "seq_len": 4096}
    points, rows = swept("plan.tp", document)
    assert [row["value"] for row in rows] == [point["value"] for point in points]
    assert [row["value"] for row in rows if row["now"]] == [1]
    for point, row in zip(points, rows, strict=True):
        found = point["estimate"]
        assert row["step_s"] == (found and found["step_time_s"])
        assert (row["why"] == "") == bool(found and found["memory"]["fits"])
        if found and point["value"] > 1:
            assert f"dp {24 // point['value']}" in row["follows"]
    refused = [row for row in rows if row["step_s"] is None]
    assert refused
    assert all("divide" in row["why"] for row in refused)
    _, lengths = swept("training.seq_len", document)
    over = [row for row in lengths if row["step_s"] and not row["fits"]]
    assert over, "a long sequence has no room"
    assert all(row["why"].startswith("does not fit: needs ") for row in over)
    given = {"rows": lengths, "label": "Sequence length", "colour": True, "narrow": False}
    (figure,) = call_each("figures/sweep", "sweep", [[given]])
    marks = figure["data"][0]["marker"]["symbol"]
    shown = [row for row in lengths if row["step_s"]]
    assert marks == ["circle" if row["now"] else "circle-open" if row["fits"] else "x-thin-open" for row in shown]
    assert len(figure["table"]["rows"]) == len(lengths), "what is refused stands in the table, too"
    assert dict(figure["legend"])["bad"] == "× does not fit"


def test_names_beside_one_another_have_room():
    document = {**LLAMA, "training": {**LLAMA["training"], "optimizer": "adamw"}}
    _, rows = swept("training.optimizer", document)
    given = {"rows": rows, "label": "Optimizer", "colour": True, "narrow": False}
    (figure,) = call_each("figures/sweep", "sweep", [[given]])
    names = figure["layout"]["xaxis"]["ticktext"]
    assert [name.replace("<br>", "") for name in names] == [row["words"] for row in rows if row["step_s"]]
    widths = [max(map(len, name.split("<br>"))) for name in names]
    room = 42 / len(names)  # letters: a third of a page of 1440 holds some 45
    assert all(one + other <= 2 * room for one, other in pairwise(widths)), names


def test_every_field_that_can_be_swept_has_a_label_before_any_control_is_made():
    labels = call_each("fieldLabels", "labelOf", [[field] for field in AXIS_FIELDS])
    assert not {label for label, field in zip(labels, AXIS_FIELDS, strict=True) if label in field.replace("_", " ")}
    assert call_each("fieldLabels", "axisOf", [["tp"], ["chips"], ["micro_batch"]]) == ["tp", "chips", "Micro-batch"]


def side(letter: str, step_s: float, **more: Any) -> dict[str, Any]:
    told = {"name": f"plan {letter}", "extra": "", "kind": "predicted", "step_s": step_s, "tokens": 4096, "chips": 2}
    return {"letter": letter, **told, "breakdown_s": {"matmul": step_s / 2}, "scenario": None, **more}


def test_steps_of_other_tokens_are_of_another_work():
    a, b, unknown = side("A", 1.0), side("B", 2.0, tokens=8192), side("B", 2.0, tokens=None)
    assert call_each("sides", "workRatio", [[a, b], [b, a], [a, a], [a, unknown], [None, b]]) == [2, 0.5, 1, 1, 1]


def test_a_and_b_are_one_table_of_figures_causes_and_settings():
    scenario = {"model": "m", "cluster": {"chip": "c"}, "plan": {"tp": 1}, "training": {}}
    other = {**scenario, "plan": {"tp": 2}}
    pair = {"a": side("A", 2.0, scenario=scenario, mfu=0.4), "b": side("B", 1.5, scenario=other)}
    cause = {"name": "matmul", "axis": "", "factor": "rate", "seconds": -0.25, "a_s": 1.0, "b_s": 0.75}
    beside = {"usd": [3.6, 3.6], "causes": [cause], "categories": [{"key": "matmul", "label": "products"}]}
    (table,) = call_each("sidesTable", "sidesTable", [[pair, beside]])
    rows = {row[0]: row[1:] for row in table["rows"]}
    assert rows["step time"] == ["s", 2.0, 1.5, -0.5]
    assert rows["tokens/s"] == ["", 2048, 4096 / 1.5, 4096 / 1.5 - 2048]
    assert rows["MFU"] == ["frac", 0.4, None, None], "what one side does not say stays empty"
    assert rows["price of a million tokens"][1] == 3.6 * 2 * 2.0 / 3600 / 4096 * 1e6
    assert rows["step: products"] == ["s", 1.0, 0.75, -0.25]
    assert rows["cause: matmul, rate"] == ["s", 1.0, 0.75, -0.25]
    assert rows["setting: plan.tp"] == ["", 1, 2, None]
    assert "peak memory" not in rows
    (alone,) = call_each("sidesTable", "sidesTable", [[{"a": pair["a"], "b": None}, beside | {"causes": []}]])
    assert ["step time", "s", 2.0, None, None] in alone["rows"]


def test_an_optimizers_kernels_have_a_control_where_one_can_be_chosen():
    known = {"models": [], "fields": {"training.optimizer_kernel": {"default": "default"}}}
    asked = [
        Training(seq_len=8, global_batch=8, framework=one, optimizer=of) for one in FRAMEWORKS for of in OPTIMIZERS
    ]
    given = [{"model": {}, "plan": {}, "training": encode(one)} for one in asked]
    shown = call_each("fieldUse", "hasUse", [["training.optimizer_kernel", one, known] for one in given])
    assert shown == [chooses_kernel(one) for one in asked]
    assert any(shown)
