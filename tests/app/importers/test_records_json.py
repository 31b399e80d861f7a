"""Results of one's own in JSON: an object is a row, a list of them a table."""

from __future__ import annotations

import json

import pytest

from tests.app.importers.reading import one, read, refusal

ROW = {"strategy": "ddp", "model": "gpt2", "world_size": 4, "mean_step_time_sec": 0.25, "config": {"lr": 1e-4}}


@pytest.mark.parametrize("document", [ROW, [ROW, {**ROW, "strategy": "fsdp", "note": "a,\nb"}]])
def test_plain_values_are_rows_of_a_table(tmp_path, document):
    found = one(read(tmp_path, json.dumps(document).encode()))
    assert [row["strategy"] for row in found.rows] == ["ddp", "fsdp"][: len(found.rows)]
    assert len(found.rows) == (1 if document is ROW else 2)
    assert {(row["step_s"], row["gpus"]) for row in found.rows} == {(0.25, 4)}
    assert not any("config" in row for row in found.rows)


@pytest.mark.parametrize(
    "document",
    [
        {"strategy": "ddp", "mean_step_time_sec": 0.1321},
        {"strategy": "ddp", "mean_step_time_ms": 132.1, "gpus": 8},
        [{"strategy": "ddp", "step_ms": 132.1}],
    ],
)
def test_a_time_of_no_known_kind_is_a_row_as_well(tmp_path, document):
    (row,) = one(read(tmp_path, json.dumps(document).encode())).rows
    assert row["strategy"] == "ddp"
    assert [value for name, value in row.items() if name.endswith("_s")] == [pytest.approx(0.1321)]


@pytest.mark.parametrize(
    "document",
    [
        {"hidden_size": 768, "model_type": "gpt2", "vocab_size": 50257},
        [{f"k{i}": 1.0, "step_ms": 3} for i in range(600)],
        {"scripts": {}},
    ],
)
def test_other_json_is_refused_by_its_keys(tmp_path, document):
    refused = refusal(tmp_path, json.dumps(document).encode())
    assert "unknown kind" in refused.message


def test_a_list_of_more_than_a_megabyte_is_a_table_too(tmp_path):
    rows = [{"strategy": f"{at:0300}", "step_ms": at + 1.0} for at in range(4000)]
    imported = read(tmp_path, json.dumps(rows).encode())
    assert one(imported).rows[2]["step_s"] == pytest.approx(3e-3)
    assert (len(one(imported).rows), imported.skipped) == (len(rows), 0)
    few = read(tmp_path, json.dumps(rows).encode(), rows=1000)
    assert (len(one(few).rows), few.skipped) == (1000, 3000)


def test_one_list_inside_an_object_is_read_like_the_list_and_a_mean_stands_for_its_object(tmp_path):
    runs = [
        {"config": {"model": "gpt2", "strategy": name, "batch": 32}, "timing": {"step_ms": {"mean": mean, "std": 4.2}}}
        for name, mean in (("ddp", 660.5), ("fsdp", 701))
    ]
    for document in (runs, {"runs": runs}, {"experiment": "s7", "host": {"gpu": "A100-SXM4-80GB"}, "results": runs}):
        found = one(read(tmp_path, document))
        assert [(row["catalogue_model"], row["strategy"], row["step_s"]) for row in found.rows] == [
            ("gpt2", "ddp", pytest.approx(0.6605)),
            ("gpt2", "fsdp", pytest.approx(0.701)),
        ]
    assert found.device == {"name": "NVIDIA A100 SXM 80 GB"}
    own = one(read(tmp_path, {**ROW, "history": [{"loss": 1.0}, {"loss": 0.9}]}))
    assert [row["step_s"] for row in own.rows] == [0.25]
    two = {"runs": [{"step_ms": 4}], "others": [{"step_ms": 5}]}
    assert "unknown kind" in refusal(tmp_path, two).message


def test_objects_keyed_by_name_are_a_row_each(tmp_path):
    each = {
        name: {"model": "gpt2", "step": {"mean_ms": mean, "std_ms": 1.2}, "peak_memory_gb": 24.4}
        for name, mean in (("ddp", 190.2), ("fsdp", 201.4))
    }
    around = {"hardware": {"gpu": "H100", "count": 8}, "settings": {"seq_len": 2048}}
    for document in ({"experiment": "sharding", **around, "results": each}, each):
        rows = one(read(tmp_path, document)).rows
        assert [(row["strategy"], row["step_s"]) for row in rows] == [
            ("ddp", pytest.approx(0.1902)),
            ("fsdp", pytest.approx(0.2014)),
        ]
        assert [row.get("gpus") for row in rows] == ([None, None] if document is each else [8, 8])
    phases = {name: {"mean_ms": 4.0, "std_ms": 0.1} for name in ("forward", "backward")}
    assert len(one(read(tmp_path, {"model": "gpt2", **phases})).rows) == 1


def test_a_mean_takes_no_name_that_a_value_has_and_the_row_of_the_mean_is_none(tmp_path):
    each = [
        {"model": "gpt2", "seq_len": 1024, "step": {"mean_ms": 5, "std_ms": 1}, "step_ms": 118 + at} for at in (0, 4)
    ]
    found = one(read(tmp_path, [*each, {"model": "mean", "step_ms": 120}], "runs.json"))
    assert [row["step_s"] for row in found.rows] == [0.118, 0.122]
    assert {"values-left-out", "sum-rows"} <= {warning.code for warning in found.warnings}
    assert "means beside a value of their own name" in found.warnings[0].message
    inner = [{"model": "gpt2", "seq_len": 1024, "time": {"step": {"mean_ms": 5}, "step_ms": 118}, "gpus": 8,
              "hardware": {"count": 1}}] * 2  # fmt: skip
    assert [(row["step_s"], row["gpus"]) for row in one(read(tmp_path, inner, "runs.json")).rows] == [(0.118, 8)] * 2
