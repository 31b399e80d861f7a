"""The page's pure modules, run in the browser that they are for: numbers as text, the URL, plans, sides and answers."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.browser


def test_numbers_have_three_digits_and_one_unit(call):
    assert [call("format", "seconds", value) for value in (0.4123, 0.9996, 12.34, 5.1e-6, 0)] == [
        "412 ms", "1.00 s", "12.3 s", "5.10 µs", "0 ms",
    ]  # fmt: skip
    assert [call("format", "bytes", value) for value in (61.23e9, 141e9, 999.9e6, 0)] == [
        "61.2 GB", "141 GB", "1.00 GB", "0 B",
    ]  # fmt: skip
    assert [call("format", "short", value).replace("\u202f", " ") for value in (9940, 59_200, 8.03e9)] == [
        "9 940", "59.2 k", "8.03 B",
    ]  # fmt: skip
    assert [call("format", "change", value) for value in (-0.182, 0.22, 0.0001, 48.1)] == [
        "−18.2 %", "+22.0 %", "±0 %", "+4\u202f810 %",
    ]  # fmt: skip
    assert call("format", "seconds", None) == "–"


def test_figures_of_a_study_have_the_digits_of_the_reference_else_those_that_say_something(call):
    figures = [(1.051, None), (2.0, None), (21.75, None), (1234560.5, None), (0.00002524, None), (1.5, 3), (0.5, None)]
    written = [call("views/studies/table", "written", *one) for one in figures]
    assert written == ["1.051", "2", "21.75", "1\u202f234\u202f560", "2.524e−5", "1.500", "0.5"]


def test_csv_keeps_full_precision_and_disarms_formulas(call):
    table = {
        "columns": [{"title": "op"}, {"title": "time", "unit": "s"}],
        "rows": [["=1+1", 0.1 + 0.2], ['a,"b"', None]],
    }
    assert call("format", "csv", table) == 'op,time (s)\r\n\'=1+1,0.30000000000000004\r\n"a,""b""",\r\n'


def test_the_url_holds_only_what_differs_and_gives_it_back(call):
    base = {
        "model": "llama3-8b",
        "cluster": {"chip": "h200-sxm", "chips_per_node": 8, "nodes": 1, "link": "nvlink4"},
        "plan": {"dp": 8, "tp": 1, "pp": 1, "cp": 1, "sequence_parallel": False, "sharding": "fsdp"},
        "training": {"seq_len": 4096, "precision": "bf16"},
    }
    scenario = {
        "model": {"name": "own", "layers": 2, "note": "a&b=c"},
        "cluster": {"chip": "h200-sxm", "chips_per_node": 4, "nodes": 1},
        "plan": {**base["plan"], "dp": 2, "tp": 2, "sequence_parallel": True},
        "training": {"seq_len": 4096, "precision": "fp32"},
    }
    place = {
        "view": "measurements",
        "open": "m.1",
        "table": {"find": "a b", "group": "model", "sort": "-mfu", "columns": ["mfu"], "chart": ["mfu", "chips"]},
        "scenario": scenario,
        "measured": "",
        "a": "s:tp=2",
        "b": "plan",
        "usd_per_hour": 2.5,
        "run_tokens": 1e12,
        "calibration": "20261120-101500-042-1f3a9c",
        "sweep": "training.global_batch",
        "pins": ["m:1", "s:tp=4"],
        "run": "",
    }
    search = call("url", "encode", place, base, "sample")
    assert "seq_len" not in search
    assert call("url", "decode", search, base, "sample") == place
    unchanged = {**place, "view": "explore", "scenario": base, "measured": "sample", "pins": [], "open": ""}
    unchanged |= {"a": "", "b": "", "usd_per_hour": 0, "run_tokens": 0, "calibration": "", "sweep": ""}
    del unchanged["table"]
    assert call("url", "encode", unchanged, base, "sample") == ""
    odd = call(
        "url",
        "decode",
        "?view=nowhere&tp=abc&unknown=1&baseline=-3&pin=javascript:1&a=javascript:1&sweep=a",
        base,
        "sample",
    )
    assert odd == {**unchanged, "run": ""}


@pytest.mark.parametrize(
    ("path", "value", "degrees", "nodes"),
    [
        ("plan.tp", 4, (2, 4, 1), (8, 1)),
        ("plan.pp", 8, (1, 1, 8), (8, 1)),
        ("plan.tp", 3, (8, 3, 1), (8, 3)),
        ("plan.dp", 16, (16, 1, 1), (8, 2)),
        ("plan.dp", 12, (12, 1, 1), (6, 2)),
    ],
)
def test_tensor_and_pipeline_degrees_keep_the_chips_and_dp_changes_them(call, path, value, degrees, nodes):
    scenario = {
        "model": "m",
        "cluster": {"chip": "c", "chips_per_node": 8, "nodes": 1},
        "plan": {"dp": 8, "tp": 1, "pp": 1, "cp": 1, "micro_batch": 1},
        "training": {"global_batch": 64},
    }
    changed = call("scenario", "withField", scenario, path, value, 8)
    assert (changed["plan"]["dp"], changed["plan"]["tp"], changed["plan"]["pp"]) == degrees
    assert (changed["cluster"]["chips_per_node"], changed["cluster"]["nodes"]) == nodes
    followed = call("changes", "alsoChanged", call("changes", "coupledChanges", changed, scenario, path))
    assert ("GPUs 8 → 24, as 8 is no multiple of tp 3" in followed) == (value == 3)


@pytest.mark.parametrize(
    ("path", "value", "dp", "micro_batch", "global_batch"),
    [
        ("cluster.chips", 4, 4, 4, 16),
        ("cluster.chips", 8, 8, 2, 16),
        ("cluster.chips", 16, 16, 1, 16),
        ("cluster.chips", 64, 64, 4, 256),
        ("plan.dp", 6, 6, 4, 24),
        ("plan.tp", 4, 1, 4, 16),
    ],
)
def test_the_batch_follows_dp_in_one_field(call, path, value, dp, micro_batch, global_batch):
    scenario = {
        "model": "m",
        "cluster": {"chip": "c", "chips_per_node": 4, "nodes": 1},
        "plan": {"dp": 4, "tp": 1, "pp": 1, "cp": 1, "tp_depth": 1, "micro_batch": 4},
        "training": {"global_batch": 16},
    }
    changed = call("scenario", "withField", scenario, path, value, 8)
    found = (changed["plan"]["dp"], changed["plan"]["micro_batch"], changed["training"]["global_batch"])
    assert found == (dp, micro_batch, global_batch)
    followed = {one["path"] for one in call("changes", "coupledChanges", changed, scenario, path)}
    expected = {"plan.micro_batch"} if micro_batch != 4 else {"training.global_batch"} if global_batch != 16 else set()
    assert followed == expected


def test_a_plan_is_laid_on_another_number_of_chips_with_as_little_change_as_possible(call):
    plan = {"dp": 2, "tp": 8, "cp": 1, "pp": 2, "virtual_stages": 2, "schedule": "interleaved", "ep": 16,
            "expert_tp": 1, "shard_ranks": 2, "tp_kind": "1d"}  # fmt: skip
    fewer = call("relayout", "relayout", plan, 12)
    assert (fewer["tp"], fewer["cp"], fewer["pp"], fewer["dp"]) == (4, 1, 1, 3)
    assert (fewer["virtual_stages"], fewer["schedule"], fewer["ep"], fewer["shard_ranks"]) == (1, "1f1b", 4, 0)
    assert call("relayout", "relayout", plan, 64) == {"tp": 8, "cp": 1, "pp": 2, "dp": 4}


def test_problems_with_one_remedy_are_one_sentence(call):
    problems = [
        {"message": "tp = 5 does not divide heads = 32", "remedy": "Choose tp 4 or 8."},
        {"message": "3 sequences do not divide", "remedy": "Choose a multiple of 8."},
        {"message": "tp = 5 does not divide ffn = 14336", "remedy": "Choose tp 4 or 8."},
    ]
    assert call("format", "sentences", problems) == [
        "tp = 5 does not divide heads = 32; tp = 5 does not divide ffn = 14336. Choose tp 4 or 8.",
        "3 sequences do not divide. Choose a multiple of 8.",
    ]


@pytest.mark.parametrize(
    ("degrees", "placement", "said"),
    [
        ({"dp": 8}, "dp-tp-cp-pp", ("dp 8", "FSDP")),
        ({"dp": 4, "cp": 2}, "tp-cp-dp-pp", ("dp 4 · cp 2", "FSDP")),
        ({"dp": 4, "cp": 2}, None, ("dp 4 · cp 2", "FSDP")),
        ({"dp": 4, "cp": 2}, "dp-cp-tp-pp", ("dp 4 · cp 2", "FSDP, neighbours dp, cp")),
        ({"tp": 2, "pp": 4}, "pp-tp-cp-dp", ("tp 2 · pp 4", "neighbours pp, tp")),
    ],
)
def test_a_plan_names_its_placement_only_where_it_says_something(call, degrees, placement, said):
    plan = {"dp": 1, "tp": 1, "cp": 1, "pp": 1, "sharding": "fsdp", "placement": placement, **degrees}
    if placement is None:
        del plan["placement"]  # what a search found leaves out what is the default
    fields = {"plan.placement": {"default": "tp-cp-dp-pp"}, "plan.sharding": {"default": "ddp"}}
    found = call("planLabel", "planLabel", plan, fields)
    assert (found["degrees"], found["rest"]) == said


def test_an_inline_object_that_says_nothing_else_is_the_catalogue_s(call, server):
    catalog = server.get("/api/catalog")
    model = next(one["value"] for one in catalog["models"] if one["key"] == "llama3.2-1b")
    chip = next(one["value"] for one in catalog["chips"] if one["key"] == "h200-sxm")
    defaults = {path[6:]: field["default"] for path, field in catalog["fields"].items() if path.startswith("model.")}
    brief = {name: its for name, its in model.items() if name == "name" or defaults[name] != its}
    older = {name: its for name, its in chip.items() if name != "host_bytes_per_s"}
    found = call("scenario", "complete", {"model": brief, "cluster": {"chip": older}}, catalog)
    assert (found["model"], found["cluster"]["chip"]) == ("llama3.2-1b", "h200-sxm")
    changed = {"model": {**brief, "layers": 3}, "cluster": {"chip": {**chip, "l2_bytes": 1}}}
    other = call("scenario", "complete", changed, catalog)
    assert other["model"] == {**brief, "layers": 3}
    assert other["cluster"]["chip"]["l2_bytes"] == 1


def test_what_a_link_says_that_the_page_does_not_know(call):
    base = {
        "model": "m",
        "cluster": {"chip": "c", "chips_per_node": 8, "nodes": 1},
        "plan": {"tp": 1, "overlap": True, "sharding": "ddp"},
        "training": {"seq_len": 4096},
    }
    known = "?model=x&view=search&measured=none&tp=2&overlap=false&sharding=what&link=&pin=m:1&lock=tp%3D2&seq_len=1e3"
    assert call("url", "unknownIn", known, base) == []
    wrong = f"?foo=bar&tp=abc&overlap=maybe&seq_len=&view=nowhere&foo=baz&{'n' * 60}=1"
    found = call("url", "unknownIn", wrong, base)
    assert found == ["foo", "tp=abc", "overlap=maybe", "seq_len=", "view=nowhere", "n" * 39 + "…"]


def test_letters_of_an_axis_are_a_term(call):
    axes = call("glossary", "axesOf", [{"key": "edp", "label": "data parallel of experts"}])
    terms = call("glossary", "termsWith", axes)
    assert call("glossary", "termOf", "edp", terms)["says"] == "data parallel of experts."


def test_a_link_says_which_of_its_measurements_no_other_server_has(call):
    here = [{"id": "own", "bundled": False}, {"id": "table", "bundled": False}, {"id": "sample", "bundled": True}]
    none = {"measured": "sample", "a": "", "b": "m:sample", "open": "", "pins": [], "measurements": here}
    assert call("measurements", "onlyHere", none) == []
    assert call("measurements", "onlyHere", {**none, "a": "plan", "b": "m:own"}) == ["own"]
    assert call("measurements", "onlyHere", {**none, "measured": "own", "open": "table.2"}) == ["own", "table"]
    assert call("measurements", "onlyHere", {**none, "pins": ["m:own", "s:other"]}) == ["own"]


def test_hardware_is_multiplied_and_brought_back(call):
    value = {
        "fp32_flops_per_s": 1e12,
        "bf16_flops_per_s": 8e12,
        "fp4_flops_per_s": 3e13,
        "fp32_matrix_flops_per_s": 2e12,
        "memory_bytes_per_s": 1e12,
        "link": "l",
        "network": "n",
    }
    links = [
        {"key": key, "label": key, "aliases": [], "value": {"bytes_per_s": 1e9, "latency_s": 1e-6}} for key in "ln"
    ]
    catalog = {"chips": [{"key": "c", "label": "C", "aliases": [], "value": value}], "links": links}
    plain = {"model": "m", "cluster": {"chip": "c", "nodes": 1}, "plan": {}, "training": {}}

    def times(scenario, part, by):
        return call("hardware", "multiplied", scenario, catalog, part, by)

    twice = times(plain, "flops", 2)
    chip = twice["cluster"]["chip"]
    assert (chip["name"], chip["bf16_flops_per_s"], chip["memory_bytes_per_s"]) == ("c", 16e12, 1e12)
    assert (chip["fp4_flops_per_s"], chip["fp32_matrix_flops_per_s"]) == (6e13, 4e12), "whatever units a chip has"
    assert call("hardware", "multiples", twice, catalog) == {"flops": 2, "memory": 1, "link": 1, "network": 1}
    half = times(twice, "link", 0.5)
    assert half["cluster"]["link"]["bytes_per_s"] == 0.5e9
    assert call("scenario", "shortLabel", half, twice, catalog) == "link ×0.5"
    assert call("scenario", "shortLabel", twice, half, catalog) == "link ×1"
    assert call("scenario", "shortLabel", twice, plain, catalog) == "chip ×2 FLOP/s"
    assert times(times(half, "link", 1), "flops", 1) == plain


def test_plans_of_a_range_of_chips_in_groups_that_cannot_be_told_apart(call):
    assert call("answers", "chipCounts", 16, 64, 8) == [64, 48, 32, 24, 16]
    assert call("answers", "chipCounts", 1, 8, 8) == [8, 4, 2, 1]
    risks = [call("answers", "riskWords", {"out_of_memory_frac": risk}) for risk in (0.27, 0.049, None)]
    assert risks == ["OOM risk 27 %", "", ""]
    assert call("answers", "chipCounts", 0, 24, 8) == [24]
    assert call("answers", "chipCounts", 64, 8, 8) == []
    assert call("answers", "chipCounts", 1, 1024, 8) == [1024, 512, 256, 128, 64, 32, 16, 8]

    def found(name, chips, step_s, low, high):
        return {"scenario": {"plan": name}, "step_time_s": step_s, "interval_s": [low, high], "peak_bytes": 1e9,
                "cost_chip_s": chips * step_s, "tokens_per_s": 1000 / step_s}  # fmt: skip

    # an unsure plan does not make one group of all, and none of another number of chips is forgotten
    some = [found("unsure", 8, 1, 0.9, 4), found("sure", 8, 1.1, 1, 1.2), found("slow", 8, 2, 1.9, 2.1),
            found("few", 4, 1.5, 1.4, 1.6)]  # fmt: skip
    asked = {"run_tokens": 86400 * 1000, "usd_per_hour": 2, "days": 1.7}
    sorted_ = call("answers", "answers", some, asked, "step_time")
    names = [[one["found"]["scenario"]["plan"] for one in group["plans"]]
             for group in call("answers", "groups", sorted_, "step_time")]  # fmt: skip
    assert names == [["unsure", "sure"], ["few"], ["slow"]]
    assert [one["late"] for one in sorted_] == [False, False, False, True]
    cheapest = call("answers", "answers", some, asked, "cost")[0]
    assert (cheapest["chips"], cheapest["chip_hours"]) == (4, pytest.approx(4 * 1.5 * 24))
    assert cheapest["price_usd"] == pytest.approx(2 * cheapest["chip_hours"])
    late = call("answers", "answers", some, {**asked, "days": 0.1}, "cost")
    assert late[0]["found"]["scenario"]["plan"] == "unsure", "where all are too slow the quickest comes first"
    assert call("answers", "chipsNeeded", late, {**asked, "days": 0.1}) == 96
    assert call("answers", "chipsNeeded", sorted_, asked) == 0


def test_a_plan_is_said_to_be_on_the_hardware_that_there_is(call):
    """Also where its degrees ask for more, which is refused."""
    scenario = {"model": "llama3-8b", "cluster": {"chip": "h100-sxm", "chips_per_node": 8, "nodes": 4}}
    scenario["plan"] = {"dp": 64, "tp": 1, "pp": 1, "cp": 1, "ep": 1}
    named = {"models": [], "chips": [{"key": "h100-sxm", "label": "NVIDIA H100"}]}
    assert "32 × H100 · dp 64" in call("scenario", "describe", scenario, named)
