"""What figures of a table look like: marks and words are told apart, ticks of axes say what they are of."""

from __future__ import annotations

from typing import Any

import pytest

from app.importers.text.values import meaning
from tests.javascript import call_each


def drawn(*charts: dict[str, Any]) -> list[dict[str, Any]]:
    given = [[{"chart": chart, "colour": True, "narrow": False}] for chart in charts]
    return call_each("figures/tableChart", "tableChart", given)


def charts_of(kind: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    (found,) = call_each(
        "figures/tableCharts", "chartsOf", [[{"origin": {"format": f"text/{kind}"}, "rows": rows}, None]]
    )
    return found


def test_marks_of_several_that_are_out_of_memory_at_one_place_stand_apart():
    rows = [
        {"model": name, "seq_len": length, "forward_s": None if length > 1000 else length * 1e-4 * (at + 1)}
        for at, name in enumerate(("xl", "2.7B"))
        for length in (256, 512, 1024)
    ]
    (figure,) = drawn(charts_of("step-times", rows)[0])
    marks = [trace for trace in figure["data"] if "out of memory" in trace["name"]]
    assert [mark["x"] for mark in marks] == [[1024], [1024]]
    assert marks[1]["y"][0] > 1.05 * marks[0]["y"][0]


def test_a_chart_says_how_the_predicted_is_told_from_the_measured():
    measured = {"name": "forward", "y": [1.0]}
    given = [{"form": form, "series": [measured, {**measured, "predicted": predicted}]}
             for form in ("bars", "lines") for predicted in (True, False)]  # fmt: skip
    said = call_each("figures/tableChart", "kindsOf", [[one] for one in given])
    assert said == ["hatched: predicted", "", "dashed: predicted", ""]
    crossed = {"form": "lines", "series": [{**measured, "out": [1024]}]}
    assert call_each("figures/tableChart", "kindsOf", [[crossed]]) == ["×: out of memory, or not run"]


def test_lines_of_one_colour_differ_in_their_marks():
    rows = [
        {"version": version, "compile": version == "compiled", "d_model": width, "seq_len": length, "forward_s": 1e-3}
        for width in (16, 32, 64, 128)
        for length in (256, 512)
        for version in ("uncompiled", "compiled")
    ]
    series = charts_of("attention", rows)[0]["series"]
    assert len({(one["hue"], one["symbol"] % 6) for one in series}) == 8


def test_lines_of_one_model_differ_in_their_colour():
    rows = [
        {"model": "2.7B", "compile": compiled, "seq_len": length, "forward_s": length / 1e3}
        for compiled in (True, False)
        for length in (128, 256)
    ]
    first, second = charts_of("step-times", rows)[0]["series"]
    assert (first["name"], second["name"]) == ("compile", "no compile")
    assert first["hue"] != second["hue"]


@pytest.mark.parametrize(
    ("length", "other"), [("seq", {}), ("context_length", {}), ("width", {}), ("seq", {"width": 64})]
)
def test_the_length_of_a_sequence_is_where_a_time_was_measured_and_no_measure_itself(length, other):
    rows = [{length: size, "time_s": size / 1e4, **other} for size in (256, 512, 1024)]
    (chart,) = charts_of("table", rows)
    assert (chart["x"]["label"], chart["y"]["kind"]) == (length.replace("_", " "), "s")
    assert chart["series"][0]["y"] == [row["time_s"] for row in rows]


def test_memory_is_drawn_over_time():
    held = [1e9, 2e9]
    (chart,) = charts_of("table", [{"time_s": at, "allocated_bytes": held[at]} for at in range(2)])
    assert (chart["x"]["kind"], chart["series"][0]["y"]) == ("s", held)


def test_every_figure_of_a_table_has_a_chart_and_a_unit_is_written_as_people_do():
    rows = [{"seq": 512 * 2**at, "time_s": 0.04 * 2**at, "gb": 9.1 + at, "layers": 12 + at} for at in range(4)]
    charts = charts_of("table", rows)
    assert [chart["title"] for chart in charts] == ["time by seq", "GB by seq"]
    assert [chart["y"]["label"] for chart in charts] == ["time", "GB"]
    assert charts[1]["series"][0]["y"] == [row["gb"] for row in rows]
    assert call_each("figures/tableSeries", "said", [["gb"], ["peak_gb"]]) == ["GB", "peak gb"]


def test_a_row_without_a_bar_says_why():
    times = {"ran": 0.5, "zero": 0.0, "negative": -0.001, "big": None, "lost": None}
    rows = [
        {"model": name, "step_s": step_s, "status": "oom" if name == "big" else "ok"} for name, step_s in times.items()
    ]
    (chart,) = charts_of("step-times", rows)
    (figure,) = drawn(chart)
    marks = {one["y"]: one["text"] for one in figure["layout"]["annotations"]}
    assert marks == {1: "0 in the file", 2: "below zero in the file", 3: "✕ out of memory", 4: "no number"}
    assert "1 place out of memory" in figure["summary"]


def test_a_step_s_passes_and_its_optimizer_stand_in_one_chart():
    passes = {"forward_s": 0.1, "backward_s": 0.2, "optimizer_s": 0.05}
    rows = [{"model": name, "status": "ok", **passes} for name in ("small", "large")]
    (chart,) = charts_of("step-times", rows)
    assert [one["name"] for one in chart["series"]] == ["forward", "backward", "optimizer"]
    # what ran out of memory beside figures says so
    rows[1] |= {"optimizer_s": None, "oom_cells": ["optimizer_s"]}
    (chart,) = charts_of("step-times", rows)
    (figure,) = drawn(chart)
    (mark,) = figure["layout"]["annotations"]
    assert (mark["y"], mark["x"], mark["text"]) == (pytest.approx(1.25), 0, "✕ out of memory"), "where its bar would be"


def test_page_and_importers_know_a_length_by_the_same_names():
    (found,) = call_each("figures/genericChart", "lengths", [[]])
    assert set(found) == meaning.SEQ_LEN - {"t"}, "t is as often a time"


def test_a_long_name_keeps_both_of_its_ends():
    names = [
        f"float32 accumulator + {kind} addend ({how} conversion)"
        for kind, how in (("float16", "explicit"), ("bfloat16", "implicit"), ("float16", "implicit"))
    ]
    chart = charts_of("accumulation", [{"experiment": name, "error": 0.1} for name in names])[0]
    (figure,) = drawn(chart)
    words = figure["layout"]["yaxis"]["ticktext"]
    assert len(set(words)) == 3
    assert words[0].endswith("xplicit conversion)")
    assert all("…" in text and "(2)" not in text for text in words)


def test_names_are_cut_where_they_tell_rows_apart():
    rows = [
        {"kernel": f"d model {width}, seq len {length}", "time_frac": 0.1}
        for width in (16, 128)
        for length in (256, 512)
    ]
    (chart,) = charts_of("kernel-shares", rows)
    (figure,) = call_each("figures/tableChart", "tableChart", [[{"chart": chart, "colour": True, "narrow": True}]])
    words = figure["layout"]["yaxis"]["ticktext"]
    assert len(set(words)) == 4
    assert all("…" in text and len(text) <= 18 for text in words)


def test_kernels_whose_names_differ_in_their_middle_alone_keep_what_tells_them_apart():
    head, tail = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::",
        "<c10::BFloat16>, std::array<char*, 3>>",
    )
    kernels = [f"{head}{functor}{tail}(int, x)" for functor in ("AddFunctor", "MulFunctor", "FillFunctor")]
    (chart,) = charts_of("kernel-shares", [{"kernel": name, "time_frac": 0.1} for name in kernels])
    for narrow in (False, True):
        given = {"chart": chart, "colour": True, "narrow": narrow}
        (figure,) = call_each("figures/tableChart", "tableChart", [[given]])
        words = figure["layout"]["yaxis"]["ticktext"]
        assert len(set(words)) == 3
        assert all("(2)" not in text for text in words)
        assert [any(own in text for own in ("Add", "Mul", "Fil")) for text in words] == [True] * 3
    assert chart["series"][0]["x"] == kernels, "a table of the chart has them whole"


def test_rows_of_one_name_say_what_else_they_are_set_to():
    rows = [
        {"model": "Llama 3 8B", "seq_len": 4096, "gpus": gpus, "step_s": 1.0, "status": "ok"} for gpus in (8, 16, 16)
    ]
    (chart,) = charts_of("step-times", rows)
    assert chart["series"][0]["x"] == ["Llama 3 8B, gpus 8", "Llama 3 8B, gpus 16", "Llama 3 8B, gpus 16 (2)"]


def test_axes_of_numbers_without_a_unit_have_no_prefix_and_shares_are_in_percent():
    properties = [{"property": name, "fp32": value} for name, value in (("bits", 8), ("max", 3.4e38), ("least", 1e-4))]
    (chart,) = charts_of("table", properties)
    (shares,) = charts_of("kernel-shares", [{"kernel": name, "time_frac": 0.4} for name in "ab"])
    vast, share = drawn({**chart, "y": {**chart["y"], "log": True}}, shares)
    axis = vast["layout"]["xaxis"]
    assert axis["title"]["text"] == ""
    assert len(axis["tickvals"]) <= 14
    assert (axis["tickvals"][0] <= 1e-4, axis["tickvals"][-1] >= 3.4e38) == (True, True)
    assert axis["ticktext"][0] == "0.0001"
    assert axis["ticktext"][-1].startswith("10<sup>")
    assert share["layout"]["xaxis"]["tickformat"].endswith("%")


def test_sizes_along_an_axis_are_in_bytes():
    rows = [
        {"kind": "all-reduce", "world_size": 2, "size_bytes": 10**power, "mean_s": 10**power / 1e10}
        for power in (6, 7, 8, 9)
    ]
    (figure,) = drawn(charts_of("collectives", rows)[0])
    axis = figure["layout"]["xaxis"]
    assert axis["title"]["text"] == "size"
    ticks = dict(zip(axis["tickvals"], axis["ticktext"], strict=True))
    assert (ticks[10**6], ticks[10**9]) == ("1 MB", "1 GB")


def pair(words: str, measured: float, predicted: float, kind: str = "") -> dict[str, Any]:
    return {"words": words, "column": "c", "kind": kind, "measured": measured, "predicted": predicted}


def scatter(*pairs: dict[str, Any]) -> dict[str, Any]:
    (found,) = call_each(
        "figures/predictedOverMeasured",
        "predictedOverMeasured",
        [[{"pairs": list(pairs), "colour": True, "narrow": False}]],
    )
    return found


def test_predicted_over_measured_names_its_axes_and_leaves_room_at_both_ends():
    axis = scatter(pair("a", 1, 1.1), pair("b", 2, 2))["layout"]["xaxis"]
    assert axis["title"]["text"] == "measured"
    vast = scatter(pair("a", 1, 1, "bytes"), pair("b", 1e10, 1e10, "bytes"))["layout"]["xaxis"]
    assert vast["title"]["text"] == "measured"
    assert vast["ticktext"][0] == "1 B"
    assert vast["ticktext"][-1] == "1 GB"
    least, most = vast["range"]
    assert (most - least - 10) / 2 > 0.2


def test_words_of_the_worst_cover_no_other_point():
    # to the right of the worst lie others in a row
    near = [pair("near", 0.12 * 1.2**at, 1.0) for at in range(8)]
    figure = scatter(
        pair("the worst of all of these rows", 0.1, 1.0), *near, pair("least", 0.05, 0.05), pair("most", 2.0, 2.0)
    )
    named = next(one for one in figure["layout"]["annotations"] if "worst" in one["text"])
    assert named["ay"] != 0
    low, high = figure["layout"]["yaxis"]["range"]
    assert low < named["y"] - named["ay"] / 228 * (high - low) < high


def test_many_lines_are_told_by_the_colour_that_tells_most_of_them_and_predicted_ones_keep_their_marks():
    rows = [
        {"version": version, "d_model": width, "seq_len": length, "forward_s": 1e-3 * width}
        for version in ("compiled", "uncompiled")
        for width in (16, 32, 64, 128)
        for length in (256, 512)
    ]
    given = [[{"origin": {"format": "text/attention"}, "rows": rows}, {"rows": [{"forward_s": 2e-3}] * len(rows)}]]
    ((chart,),) = call_each("figures/tableCharts", "chartsOf", given)
    assert len({one["hue"] for one in chart["series"]}) == 4
    assert len({one["symbol"] for one in chart["series"]}) == 2
    (figure,) = drawn(chart)
    looks = {(one["line"]["color"], one["line"]["dash"], one["marker"]["symbol"]) for one in figure["data"]}
    assert len(looks) == len(figure["data"]) == 16
    assert all("markers" in one["mode"] for one in figure["data"])


def test_repeats_are_one_bar_with_their_median_and_how_far_they_reach():
    rows = [
        {"ddp_mode": mode, "repeat": at, "backward_communication_s": seconds * factor}
        for mode, factor in (("naive", 1.0), ("flat", 2.0))
        for at, seconds in enumerate((3.0, 1.0, 2.5))
    ]
    (chart,) = charts_of("data-parallel-variants", rows)
    (one,) = chart["series"]
    assert (one["x"], one["y"]) == (["naive", "flat"], [2.5, 5.0])
    assert one["spread"] == [[1.5, 0.5], [3.0, 1.0]]
    assert "median of up to 3 repeats" in chart["title"]
    (figure,) = drawn(chart)
    assert (figure["data"][0]["error_x"]["arrayminus"], figure["data"][0]["error_x"]["array"]) == (
        [1.5, 3.0],
        [0.5, 1.0],
    )
    assert figure["data"][0]["customdata"][0] == "naive: 2.50 s, from 1.00 s to 3.00 s"
    assert figure["layout"]["xaxis"]["range"][1] >= 6.0


def test_no_whisker_reaches_below_zero():
    rows = [
        {"model": "xl", "seq_len": length, "forward_s": 1.0, "forward_std_s": spread}
        for length, spread in ((128, 0.25), (256, 1.0), (512, 3.0))
    ]
    (chart,) = charts_of("step-times", rows)
    logarithmic, linear = drawn(chart, {**chart, "y": {**chart["y"], "log": False}})
    assert logarithmic["data"][0]["error_y"]["arrayminus"] == [0.25, 0, 0]
    assert linear["data"][0]["error_y"]["arrayminus"] == [0.25, 1.0, 1.0]
    assert logarithmic["data"][0]["error_y"]["array"] == [0.25, 1.0, 3.0]
    assert "2 spreads down to zero" in logarithmic["summary"]
    assert logarithmic["data"][0]["customdata"][2].endswith("1.00 s ± 3.00 s")


def test_memory_that_ran_out_is_marked_whether_its_cell_is_empty_or_missing():
    rows = [
        {"model": "xl", "pass": "step", "seq_len": 256, "peak_bytes": 1e9, "status": "ok"},
        {"model": "xl", "pass": "step", "seq_len": 512, "peak_bytes": 3e9, "status": "ok"},
        {"model": "xl", "pass": "step", "seq_len": 1024, "peak_bytes": None, "status": "oom"},
        {"model": "xl", "pass": "step", "seq_len": 2048, "status": "oom"},
    ]
    ((chart,),) = call_each("figures/tableCharts", "chartsOf", [[{"origin": {"format": "memory"}, "rows": rows}, None]])
    assert chart["series"][0]["out"] == [1024, 2048]
    (figure,) = drawn(chart)
    assert figure["data"][1]["x"] == [1024, 2048]
    assert figure["summary"].endswith("2 places out of memory.")


def test_rates_of_tokens_and_of_samples_have_errors_of_their_own():
    measured = {"tokens_per_s": 100.0, "tokens_per_s_per_gpu": 50.0, "samples_per_s": 10.0}
    errors = {name: {"n": 1, "median_ape": 10.0, "bias": 10.0} for name in measured}
    predicted = {"rows": [{name: value * 1.1 for name, value in measured.items()}], "errors": errors}
    ((row,),) = call_each("predictedRows", "besideRows", [[[measured], predicted]])
    assert len(row) == 3 * len(measured)


def test_rates_of_a_gpu_have_the_unit_of_the_rate():
    rows = [{"step": at, "flops_per_s_per_gpu": 4e14 + at} for at in range(4)]
    ((chart,),) = call_each(
        "figures/tableCharts", "chartsOf", [[{"origin": {"format": "log/Megatron-LM"}, "rows": rows}, None]]
    )
    assert (chart["y"]["kind"], chart["y"]["label"]) == ("flops_per_s", "rate per gpu")
    (figure,) = drawn(chart)
    assert figure["layout"]["yaxis"]["title"]["text"].endswith("TFLOP/s")
    assert call_each("figures/tables", "bare", [["tokens_per_s"], ["step_s"]]) == ["tokens per s", "step"]


def test_a_column_has_one_name_without_its_unit():
    names = [
        "tokens_per_s",
        "flops_per_s_per_gpu",
        "bytes_per_s",
        "bus_bytes_per_s",
        "peak_bytes",
        "mfu_frac",
        "step_s",
    ]
    short = ["tokens per s", "rate per gpu", "bytes per s", "bus", "peak", "mfu", "step"]
    assert call_each("figures/tables", "bare", [[name] for name in names]) == short
    errors = {name: {"n": 1, "median_ape": 10.0, "bias": 10.0} for name in names}
    measured = dict.fromkeys(names, 1.0)
    ((row,),) = call_each("predictedRows", "besideRows", [[[measured], {"rows": [measured], "errors": errors}]])
    found = [name.removesuffix("_error_change").replace("_", " ") for name in row if name.endswith("_error_change")]
    assert found == short


def test_the_label_of_a_size_is_no_result_of_it():
    rows = [
        {"world_size": ranks, "size_label_bytes": label, "size_bytes": size, "mean_s": ranks * size / 1e9}
        for ranks in (2, 4, 8)
        for label, size in ((1e6, 2**20), (1e7, 10 * 2**20), (1e8, 100 * 2**20))
    ]
    assert [chart["title"] for chart in charts_of("text/table", rows)] == ["mean by size"]


def test_memory_of_a_table_of_no_kind_is_marked_where_it_ran_out():
    rows = [{"s": at, "seq_len": at, "peak_bytes": None if at > 1000 else at * 1e6} for at in (256, 512, 1024)]
    (chart,) = charts_of("table", rows)
    assert chart["series"][0]["out"] == [1024]


def test_a_table_of_rates_is_drawn_by_its_rates():
    rows = [{"model": name, "seq_len": 2048, "tokens_per_s": 1e4, "tokens_per_s_per_gpu": 1e3} for name in "ab"]
    charts = charts_of("step-times", rows)
    assert [chart["title"] for chart in charts] == ["tokens a second and GPU", "tokens a second"]
    assert charts[0]["series"][0]["x"] == ["a", "b"]


def test_no_line_of_a_table_of_no_kind_has_two_values_at_one_place():
    rows = [
        {"section": section, "model": model, "seq_len": length, "stage": stage, "mean_s": base * length + repeat}
        for section in ("a", "b")
        for model in ("small", "large")
        for length in (128, 256, 512)
        for stage, base in (("forward", 1e-4), ("backward", 2e-4))
        for repeat in (0.0, 2e-3)
    ]
    (chart,) = charts_of("none", rows)
    assert len(chart["series"]) == 8
    assert all(one["x"] == [128, 256, 512] for one in chart["series"])
    first = chart["series"][0]
    # the median of what is measured again
    assert first["y"] == pytest.approx([1e-4 * length + 1e-3 for length in first["x"]])


ODD = [
    {
        "run_name": name,
        "net": net,
        "card": card,
        "#cards": cards,
        "bs_total": batch,
        "ctx_len": length,
        "step_s": step_s,
    }
    for name, net, card, cards, batch, length, step_s in [
        ("a1", "llama3-8b", "H100", 8, 64.0, 4096, 7.42),
        ("a2", "llama3-8b", "H100", 8, 128.0, 4096, 14.61),
        ("b1", "mistral-7b", "A100", 8, 64.0, 4096, 15.9),
        ("c1", "our-own-3b", "A100", 16, 256.0, 2048, 6.1),
    ]
]


def test_rows_of_other_batches_are_no_repeats_and_no_line_joins_two_models():
    (chart,) = charts_of("table", ODD)
    assert chart["form"] == "bars"
    assert [one["y"] for one in chart["series"]] == [[7.42, 14.61, 15.9, 6.1]]
    assert len(set(chart["series"][0]["x"])) == len(ODD)


def test_models_of_one_length_each_are_no_sweep_of_the_length():
    rows = [{"net": net, "ctx_len": 1024 << at, "step_s": 1.0 + at} for at, net in enumerate(("one", "two", "three"))]
    (chart,) = charts_of("table", rows)
    assert (chart["form"], chart["series"][0]["x"]) == ("bars", ["one", "two", "three"])


def test_what_a_study_s_table_prints_is_said_of_that_table_and_never_all_of_none():
    said = call_each("studyPages", "agreementWords", [[77, 77], [3, 2], [0, 0]])
    assert said == [
        "77 of 77 printed in this table agree",
        "2 of 3 printed in this table agree",
        "the reference prints none of these",
    ]
