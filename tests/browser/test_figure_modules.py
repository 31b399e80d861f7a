"""Pure modules of figures and tables, run in the browser that they are for: curves, points, lines of ops, ticks."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.browser

MEASURED_OPS = [("mm", 1e-3, 3e-3), ("add", 2e-3, 1e-3)]
"""Ops by measured time: name, predicted and measured seconds."""


def test_the_curve_spans_the_axis_and_shades_what_does_not_fit(call):
    rows = [(10, True), (20, True), (15, False), (5, False)]
    estimates = [
        {"tokens_per_s_per_chip": speed, "memory": {"fits": fits, "peak_bytes": 4.0 * speed}} for speed, fits in rows
    ]
    found = call("figures/curve", "curve", estimates)
    assert found["points"] == [
        [0, pytest.approx(66.67, abs=0.01)],
        [pytest.approx(33.33, abs=0.01), 0],
        [pytest.approx(66.67, abs=0.01), pytest.approx(33.33, abs=0.01)],
        [pytest.approx(100), 100],
    ]
    assert found["no_fit"] == [[pytest.approx(50), pytest.approx(100)]]
    assert [height for _, height in found["memory"]] == [50, 0, 25, 75], "over the largest peak"


def test_a_point_is_held_against_the_lower_of_its_two_roofs(call):
    roofs = {"memory_bytes_per_s": 4.8e12, "flops_per_s": {"bf16": 989e12, "fp32": 67e12}}
    work = {"category": "matmul", "count": 1, "precision": ""}
    dense = {**work, "name": "dense", "flops": 989e9, "bytes": 1e9, "seconds": 2e-3}
    streaming = {**work, "name": "stream", "flops": 1e9, "bytes": 4.8e9, "seconds": 4e-3}
    unknown = {**work, "name": "no flops", "flops": 0, "bytes": 1e9, "seconds": 1}
    found = call("figures/points", "pointsOf", [dense, streaming, unknown], roofs, 0.01, "bf16-amp")
    assert [(one["name"], one["roof_frac"], one["share_frac"]) for one in found] == [
        ("stream", pytest.approx(0.25), pytest.approx(0.4)),
        ("dense", pytest.approx(0.5), pytest.approx(0.2)),
    ]


def test_gradients_join_the_line_of_their_op(call):
    op = {"layer": "layer", "category": "matmul", "shape": "4 × 4", "count": 2, "launches": 2, "bound": "compute"}
    ops = [
        {**op, "name": name, "phase": phase, "flops": 8, "bytes": 4, "saved_bytes": 0, "seconds": seconds}
        for name, phase, seconds in [
            ("q projection", "forward", 2.0),
            ("q projection input gradient", "backward", 3.0),
            ("q projection weight gradient", "backward", 5.0),
            ("qkv gradient sum", "backward", 1.0),
        ]
    ]
    found = call("figures/opLines", "linesOf", ops, False)
    assert [(one["name"], one["forward_s"], one["backward_s"], one["flops"]) for one in found] == [
        ("q projection", 1.0, 4.0, 4.0),
        ("qkv gradient sum", 0.0, 0.5, 4.0),
    ]


def test_an_op_that_a_layer_runs_twice_counts_twice_in_the_layer(call):
    op = {"layer": "layer", "category": "matmul", "shape": "4 × 4", "flops": 8, "bytes": 4, "saved_bytes": 0}
    ops = [
        {**op, "name": name, "phase": phase, "count": count, "launches": count, "bound": "compute", "seconds": seconds}
        for name, phase, count, seconds in [
            ("k, v projections", "forward", 4, 2.0),
            ("q projection", "forward", 2, 1.0),
            ("k, v projections input gradient", "backward", 4, 3.0),
            ("k, v projections gradient sum", "backward", 2, 1.0),
        ]
    ]
    twice, once = call("figures/opLines", "linesOf", ops, False)
    assert (twice["per_layer"], once["per_layer"]) == (2, 1)
    assert twice["forward_s"] + twice["backward_s"] == pytest.approx(twice["seconds"] / twice["count"])
    assert (twice["forward_s"], twice["backward_s"], twice["launches"]) == (1.0, 2.0, 2.0)


def test_ops_of_a_trace_stand_by_what_they_should_take(call):
    about = {"inputs": "", "phase": "forward", "bound": "memory", "count": 1}
    ops = [{**about, "op": f"aten::{name}", "predicted_s": s, "measured_s": m} for name, s, m in MEASURED_OPS]
    titles, rows = (call("figures/ownOps", "opRows", ops, "")[part] for part in ("columns", "rows"))
    assert [one["title"] for one in titles][:3] == ["op", "measured", "predicted"]
    assert [row[0] for row in rows] == ["mm", "add"]
    traced = [{**one, "measured_s": 0} for one in ops]
    titles, rows = (call("figures/ownOps", "opRows", traced, "")[part] for part in ("columns", "rows"))
    assert "measured" not in [one["title"] for one in titles]
    assert [row[:2] for row in rows] == [["add", 2e-3], ["mm", 1e-3]]


def test_what_a_program_runs_beside_its_model_is_told_from_its_ops(call):
    ops = [{"op": name} for name in ("aten::mm", "aten::_foreach_norm.Scalar", "aten::normalize", "aten::randint")]
    assert call("figures/ownOps", "leftOutOfForm", ops) == [
        "the norm of the gradients, as clipping takes it",
        "numbers drawn in the step, as its input",
    ]
    assert call("figures/ownOps", "leftOutOfForm", [{"op": "aten::mm"}, {"op": "aten::item_like"}]) == []


def test_kernels_of_one_name_say_how_many_shapes_they_have(call):
    def op(name, shape, seconds):
        return {"name": name, "phase": "forward", "category": "matmul", "shape": shape, "seconds": seconds,
                "count": 1, "flops": 1.0, "bytes": 1.0, "precision": ""}  # fmt: skip

    ops = [op("mm", "8 × 4 × 4", 1.0), op("mm", "8 × 9 × 4", 3.0), op("mm", "8 × 4 × 4", 1.5), op("copy", "", 1.0)]
    rows = call("figures/matched", "matched", {"a": {"estimate": {"ops": ops, "collectives": []}}, "b": None}, None, "")
    assert {row["name"]: row["shape"] for row in rows} == {"mm, forward": "8 × 9 × 4 and 1 more", "copy, forward": ""}


def test_rows_of_one_kind_share_a_table_also_where_cells_are_missing(call):
    rows = [
        {"model": "small", "forward_s": 0.02, "status": "ok"},
        {"model": "xl", "status": "oom"},
        {"d_model": 16, "peak_bytes": 3, "heads": 1},
    ]
    found = call("views/common/table", "tablesOf", rows)
    assert [len(one["table"]["rows"]) for one in found] == [2, 1]
    partly = {"model": "large", "forward_s": 0.1, "optimizer_s": None, "oom_cells": ["optimizer_s"]}
    (table,) = call(
        "views/common/table", "tablesOf", [{"model": "small", "forward_s": 0.1, "optimizer_s": 0.2}, partly]
    )
    assert [row[-1] for row in table["table"]["rows"]] == [0.2, "OOM"]
    assert "oom cells" not in [column["title"] for column in table["table"]["columns"]]
    assert found[0]["table"]["columns"][1] == {"title": "forward", "unit": "s"}
    assert found[0]["table"]["rows"][1] == ["xl", None, "oom"]


@pytest.mark.parametrize(
    ("name", "title", "unit"),
    [
        ("median_s", "median", "s"),
        ("flops", "flops", "FLOP"),
        ("flops_per_s", "rate", "FLOP/s"),
        ("bytes_per_s", "rate", "B/s"),
        ("tokens_per_s", "rate", "tokens/s"),
        ("predicted_bytes_per_s", "predicted rate", "B/s"),
        ("bus_bytes_per_s", "bus", "B/s"),
        ("flops_per_s_per_gpu", "rate per GPU", "FLOP/s"),
        ("tokens_per_s_per_gpu", "rate per GPU", "tokens/s"),
        ("model_flops_per_s", "model", "FLOP/s"),
    ],
)
def test_a_column_s_name_gives_its_title_and_unit(call, name, title, unit):
    assert call("views/common/table", "columnOf", name) == {"title": title, "unit": unit}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            {"median_s": (24, 59.3, -13.5)},
            "half of the 24 predictions of median are within 59 %, on average 13.5 % too low",
        ),
        (
            {"step_s": (2, 8.1, 2.5), "peak_bytes": (3, 3.0, 0.01), "forward_s": (2, 1.2, -1.0)},
            "half of the 3 predictions of peak are within 3 %, on average neither too low nor too high; half of the 2"
            " predictions of step are within 8.1 %, on average 2.5 % too high; of forward within 1.2 %, on average 1.0"
            " % too low",
        ),
        (
            {"bus_bytes_per_s": (1, 8.0, 8.0), "step_s": (1, 2.0, -2.0)},
            "the one prediction of bus is 8.0 % too high; that of step is 2.0 % too low",
        ),
    ],
)
def test_how_far_predictions_are_off_is_said_in_words(call, columns, said):
    errors = {name: dict(zip(("n", "median_ape", "bias"), its, strict=True)) for name, its in columns.items()}
    predicted = {"chip": "X", "rows": [], "errors": errors, "assumptions": [], "unpredicted": "", "reasons": [],
                 "taken_errors": {}}  # fmt: skip
    assert call("predictedRows", "errorWords", predicted) == f"Predicted on X: {said}."
    reasons = ["", "A100 may be two", "it was not measured: oom", "A100 may be two"]
    more = call("predictedRows", "errorWords", {**predicted, "reasons": reasons, "doubt": "all is far off"})
    assert more == f"Predicted on X: {said}. All is far off. Not predicted: 2 rows (A100 may be two)."
    apart = call("predictedRows", "errorWords", {**predicted, "taken_errors": errors, "taken": "Y"})
    fits = {"oom": 3, "oom_known": 3, "oom_unfit": 2, "ran": 12, "ran_unfit": 1}
    memory = call("predictedRows", "errorWords", {**predicted, "fits": fits})
    assert memory.endswith(" Predicted not to fit: 2 of 3 rows that ran out of memory, 1 of 12 rows that ran.")
    alone = {**predicted, "errors": {}, "unpredicted": "why", "fits": {"oom": 1}}
    assert call("predictedRows", "errorWords", alone) == "Not predicted: why. 1 row ran out of memory."
    rows = "Rows that name no GPU of the catalogue, for which Y is taken"
    assert apart == f"Predicted on X: {said}. {rows}: {said}."


@pytest.mark.parametrize(
    ("values", "most", "ticks"),
    [
        ([512, 128, 256, 256, 1024], 10, [128, 256, 512, 1024]),
        ([2.0**power for power in range(7, 15)], 5, [128, 512, 2048, 8192]),
        ([128, 256, 500], 10, []),
        ([128, 256], 10, []),
        ([0, 1, 2, 4], 10, []),
    ],
)
def test_lengths_that_double_have_their_own_ticks(call, values, most, ticks):
    assert call("figures/tableSeries", "doublings", values, most) == ticks


@pytest.mark.parametrize("values", [[0.013, 0.9], [3, 5], [1, 2e6], []])
def test_logarithmic_ticks_enclose_their_values_and_are_few(call, values):
    found = call("figures/base", "logTicks", values)
    assert len(found["tickvals"]) == len(found["ticktext"]) <= 24
    if values:
        assert found["tickvals"][0] <= min(values)
        assert found["tickvals"][-1] >= max(values)


def cause(name, seconds, factor="", axis="", **more):
    given = {"a_s": 1.0, "b_s": 1.0 + seconds, "a_amount": None, "b_amount": None, "unit": ""}
    return {"name": name, "axis": axis, "factor": factor, "seconds": seconds, **given, **more}


def test_the_waterfall_s_rows_add_to_the_difference_and_name_each_cause_once(call):
    names = [{"key": key, "label": key, "hue": "blue"} for key in ("matmul", "communication", "host")]
    causes = [
        cause("matmul", 0.3, "amount", unit="FLOP"),
        cause("matmul", -0.1, "rate"),
        cause("communication", 0.2, "overlap", "dp"),
        cause("host", 1e-5),
        cause("untold", 2e-5),
    ]
    given = {"causes": causes, "step_s": 1.0, "from_s": 1.0, "names": names, "degrees": {"dp": "dp 4 → 8"}}
    rows = call("figures/waterRows", "waterRows", given)
    assert sum(row["seconds"] for row in rows) == pytest.approx(sum(one["seconds"] for one in causes))
    assert [row["words"] for row in rows] == [
        "more FLOPs", "faster kernels", "dp 4 → 8, less overlap", "2 small ones",
    ]  # fmt: skip
    assert [row["first"] for row in rows] == [True, False, True, True]
    assert [row["from_s"] for row in rows] == pytest.approx([1.0, 1.3, 1.2, 1.4])
    unseen = {**given, "causes": [*causes[:3], cause("host", 3e-7)]}
    assert len(call("figures/waterRows", "waterRows", unseen)) == 3, "no row of −3.12e-5 ms"
    slower = {**given, "causes": [cause("communication", 0.2, "rate", "tp")]}
    for links, words in ((False, "more time per byte"), (True, "slower link")):
        assert call("figures/waterRows", "waterRows", {**slower, "newLinks": links})[0]["words"] == words
    for seconds, words in ((0.2, "more recomputed"), (-0.2, "less recomputed")):
        again = {**given, "causes": [cause("matmul", seconds, "again", unit="FLOP")]}
        assert call("figures/waterRows", "waterRows", again)[0]["words"] == words
    for amounts, words in (([4e13, None], "slower, not all FLOPs recorded"), ([None, None], "slower")):
        part = {"a_amount": amounts[0], "b_amount": amounts[1], "unit": "FLOP"}
        untold = {**given, "causes": [cause("matmul", 0.2, **part)]}
        assert call("figures/waterRows", "waterRows", untold)[0]["words"] == words
    update = {**given, "causes": [cause("optimizer", 4.7)]}
    for offloaded, words in (
        ([False, True], "through host memory"),
        ([True, False], "on the chip"),
        ([True] * 2, "slower"),
    ):
        assert call("figures/waterRows", "waterRows", {**update, "offloaded": offloaded})[0]["words"] == words
    many = [cause("host", 0.01 * (1 + at)) for at in range(20)]
    assert len(call("figures/waterRows", "waterRows", {**given, "causes": many})) == 10


def test_the_count_of_a_file_s_parameters_is_held_against_the_chosen_model(call):
    words = [
        call("views/explore/missing", "countWords", 4_465_280, own, "GPT-2 small") for own in (0, 124e6, 4.4e6, 1e6)
    ]
    assert [text.replace("\u202f", " ") for text in words] == [
        "Its file counts 4.47 M parameters.",
        "Its file counts 4.47 M parameters, GPT-2 small has 124 M: it is another model, or trains a part of it.",
        "Its file counts 4.47 M parameters, as GPT-2 small has.",
        "Its file counts 4.47 M parameters, GPT-2 small has 1 M: it is another model.",
    ]
    assert call("views/explore/missing", "countWords", 0, 124e6, "GPT-2 small") == ""
