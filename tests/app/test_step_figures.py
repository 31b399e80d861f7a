"""What figures of a step show: roofs of each chip, passes of a pipeline, and what a selected cause is about."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest

from estimator.estimate.estimate import estimate
from estimator.estimate.layer_table import WHOLE_STEP, layer_table
from estimator.estimate.timeline import timeline as laid_out
from estimator.scenario.breakdown import BETWEEN_PASSES, SHOWN_CATEGORIES, SHOWN_PASSES, SHOWN_PHASES, Category, Shown
from estimator.scenario.codec import encode
from estimator.scenario.scenario import scenario_from_json
from estimator.scenario.timeline import LEFT_OUT
from tests.app.examples import LLAMA
from tests.javascript import MODULES, NODE, call_each

H100 = {"memory_bytes_per_s": 3.35e12, "flops_per_s": {"bf16": 989e12, "fp32": 67e12, "fp8": 1979e12}}
H200 = {**H100, "memory_bytes_per_s": 4.8e12}
HALF = {"memory_bytes_per_s": 4.8e12, "flops_per_s": {"bf16": 495e12, "fp32": 33e12}}


def names(shown: dict[str, Shown]) -> list[dict[str, str]]:
    return [{"key": key, "label": one.label, "hue": one.hue} for key, one in shown.items()]


def work(name: str, category: str, phase: str, flops: float, taken_s: float = 1e-3) -> dict[str, Any]:
    about = {"name": name, "category": category, "phase": phase, "precision": "bf16", "count": 2}
    return {**about, "flops": flops, "bytes": 1e9, "seconds": taken_s}


WORKS = [work("mm", "matmul", "forward", 3e11), work("norm", "elementwise", "backward", 1e9)]


def roofline(*sides: tuple[str, dict[str, Any], str], selected: str = "") -> dict[str, Any]:
    roofed = [{"letter": letter, "roofs": roofs, "precision": precision} for letter, roofs, precision in sides]
    (apart,) = call_each("figures/points", "roofsApart", [[roofed]])
    series = [{"letter": letter, "predicted": True, "works": WORKS, "step_s": 2e-3} for letter, _, _ in sides]
    given = {"series": series, "roofed": apart, "categories": names(SHOWN_CATEGORIES), "selected": selected,
             "colour": True, "range": None, "narrow": False}  # fmt: skip
    (figure,) = call_each("figures/roofline", "roofline", [[given]])
    return figure


def test_kernels_that_have_no_place_are_counted_where_they_stand():
    works = [*WORKS, *({**work(f"copy {at}", "other", "forward", 0), "flops": 0} for at in range(3))]
    series = [{"letter": "B", "predicted": False, "works": works, "step_s": 2e-3}]
    roofed = [{"letter": "B", "roofs": H100, "precision": "bf16"}]
    given = {"series": series, "roofed": roofed, "categories": names(SHOWN_CATEGORIES), "colour": True, "narrow": False}
    (figure,) = call_each("figures/roofline", "roofline", [[given]])
    assert roofs_of(figure)[-1] == f"3 unpriced, {3 * works[0]['seconds'] * 1e3:.2f} ms"


def roofs_of(figure: dict[str, Any]) -> list[str]:
    return [one["text"] for one in figure["layout"]["annotations"]]


def test_two_chips_have_the_roofs_of_both_told_apart():
    figure = roofline(("A", H100, "bf16-amp"), ("B", HALF, "bf16-amp"))
    assert roofs_of(figure) == ["A bf16", "B bf16", "B 4.80 TB/s<br>A 3.35 TB/s"]
    lines = [one for one in figure["data"] if one["mode"] == "lines" and "name" not in one]
    assert {(max(one["y"]), one["line"]["dash"]) for one in lines[:4]} == {(989, "dot"), (495, "solid")}
    # each is held against its own: 300 of 495 TFLOP/s is more of the roof than of 989
    shares = [one["customdata"][0][4] for one in figure["data"] if one.get("name") == "predicted"]
    assert shares == ["30.3 %", "60.6 %"]
    low, high = figure["layout"]["yaxis"]["range"]
    assert 10**high > 989
    assert 10**low < 1


def test_one_chip_has_its_roofs_once_whatever_stands_beside_it():
    assert roofs_of(roofline(("A", H100, "bf16"), ("B", H100, "bf16-amp"))) == ["fp8", "bf16", "fp32", "3.35 TB/s"]
    faster_memory = roofs_of(roofline(("A", H100, "bf16"), ("B", H200, "bf16")))
    assert faster_memory == ["A bf16", "B bf16", "B 4.80 TB/s<br>A 3.35 TB/s"]
    narrower = roofs_of(roofline(("A", H100, "bf16"), ("B", H100, "fp8")))
    assert narrower == ["B fp8", "A bf16", "B bf16", "3.35 TB/s"], "B's products in bf16 keep their roof"


@pytest.mark.parametrize(
    ("selected", "bright"), [("", [1, 1]), ("matmul", [1, 0.2]), ("forward", [1, 0.2]), ("untold", [1, 1])]
)
def test_a_cause_leaves_bright_what_it_is_about_and_all_where_nothing_tells(selected: str, bright: list[float]):
    figure = roofline(("A", H100, "bf16"), selected=selected)
    (points,) = [one for one in figure["data"] if one.get("name") == "predicted"]
    assert points["marker"]["opacity"] == bright


def drawn(kinds: list[str], phases: list[str]) -> dict[str, Any]:
    count = len(kinds)
    return {"lanes": ["stage 1"], "lane": [0] * count, "kind": kinds, "name": kinds, "phase": phases,
            "start_s": list(range(count)), "end_s": list(range(1, count + 1)), "total_s": count, "memory": [],
            "capacity_bytes": 0, "folded": ""}  # fmt: skip


def timeline(one: dict[str, Any], selected: str = "") -> dict[str, Any]:
    run = {"letter": "A", "predicted": True, "fits": True, "drawn": one}
    given = {"runs": [run], "names": names(SHOWN_CATEGORIES), "phases": names(SHOWN_PHASES),
             "passes": names(SHOWN_PASSES), "selected": selected, "colour": True, "narrow": False}  # fmt: skip
    (figure,) = call_each("figures/timeline", "timeline", [[given]])
    return figure


PIPELINE = drawn(
    ["forward", "backward", "weight_gradients", "bubble", "communication"],
    ["forward", "backward", "backward", "bubble", "backward"],
)


def test_a_timeline_of_a_pipeline_says_what_its_passes_are():
    key = dict(map(reversed, timeline(PIPELINE)["key"]))
    assert set(key) == {"forward", "backward", "weight gradients", "bubble", "communication"}
    assert len(set(key.values())) == 5
    rank = drawn(["matmul", "elementwise"], ["forward", "forward"])
    assert timeline(rank)["key"] == [], "categories stand in the waterfall beside it"


def test_what_is_left_out_is_drawn_as_no_pass():
    figure = timeline(drawn(["forward", LEFT_OUT], ["forward", "backward"]))
    assert dict(map(reversed, figure["key"]))["passes not drawn one by one"] == "line-strong"
    one, other = (part for part in figure["data"] if part.get("fill"))
    assert ("fillpattern" in one, "fillpattern" in other) == (False, True)


@pytest.mark.parametrize(("schedule", "batch"), [("1f1b", 50), ("1f1b", 51), ("zero-bubble", 33), ("zero-bubble", 34)])
def test_the_key_has_what_will_be_left_out_before_it_is_drawn(schedule: str, batch: int):
    plan = {"pp": 8, "dp": 1, "micro_batch": 1, "schedule": schedule}
    training = {**LLAMA["training"], "global_batch": batch}
    found = laid_out(scenario_from_json({**LLAMA, "plan": plan, "training": training}))
    side = {"pp": 8, "schedule": schedule, "rounds": batch, "breakdown_s": {}}
    (kinds,) = call_each("figures/timeline", "kindsOf", [[side, {"passes": names(SHOWN_PASSES),
                                                                "between_passes": BETWEEN_PASSES}]])  # fmt: skip
    assert (LEFT_OUT in kinds) == (LEFT_OUT in found.kind) == (batch in (51, 34))


def test_a_pass_stays_bright_for_a_cause_that_it_holds():
    def faint(selected: str) -> set[str]:
        return {one["name"] for one in timeline(PIPELINE, selected)["data"] if one["opacity"] < 0.5}

    assert faint("") == set()
    assert faint("matmul") == {"bubble", "communication"}, "products are inside the passes"
    assert faint("communication dp") == {"forward", "backward", "weight gradients", "bubble"}


def test_free_text_in_a_hover_is_no_wider_than_a_narrow_page():
    kernel = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>(int)" * 2
    (text,) = call_each("figures/base", "hoverText", [[kernel]])
    lines = text.split("<br>")
    assert len(lines) > 3
    assert max(len(re.sub("&..;", "<", line)) for line in lines) <= 44
    assert "".join(lines).replace("&lt;", "<").replace("&gt;", ">") == kernel
    assert call_each("figures/base", "hoverText", [["mm, forward"], ["x" * 100]]) == [
        "mm, forward", "<br>".join(["x" * 44, "x" * 44, "x" * 12]),
    ]  # fmt: skip


def test_a_term_follows_the_label_of_its_name():
    renamed = [
        {"key": "matmul", "label": "products", "hue": "blue", "says": "Matrix products."},
        {"key": "host", "label": "launching", "hue": "ochre", "says": "Waits."},
        {"key": "other", "label": "rest", "hue": "grey"},
    ]
    phases = [{"key": "host_wait", "label": "launch wait", "hue": "ochre", "says": "Waits."}]
    (terms,) = call_each("glossary", "termsWith", [[renamed, phases]])
    asked = ["Products", "launch wait, s", "launching", "matmul", "rest", "MFU", "HFU"]
    found = call_each("glossary", "termOf", [[word, terms] for word in asked])
    assert [one and one["name"] for one in found] == ["products", "launching", "launching", None, None, "MFU", "MFU"]


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return sum(part * one for part, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_words_on_any_colour_between_the_ends_of_a_heatmap_are_legible():
    ends = [("#2457d6", "#e8eefc"), ("#7fa6ff", "#1d2942"), ("#000000", "#ffffff")]
    fills = call_each("figures/base", "between", [[*pair, step / 50] for pair in ends for step in range(51)])
    words = call_each("figures/base", "legibleOn", [[fill] for fill in fills])
    for fill, word in zip(fills, words, strict=True):
        high, low = sorted((luminance(fill), luminance(word)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, fill


def waterfall(*rows: tuple[str, float, float], tight: bool = False) -> dict[str, Any]:
    """Rows: name, seconds and where the bar begins."""
    drawn = [{"cause": name, "name": name, "token": "hue-blue", "words": "", "first": True, "seconds": seconds,
              "from_s": from_s, "a_s": 1, "b_s": 1, "title": ""} for name, seconds, from_s in rows]  # fmt: skip
    end = rows[-1][1] + rows[-1][2]
    sides = [{"letter": letter, "predicted": True, "step_s": step, "breakdown_s": {"matmul": step / 2}}
             for letter, step in (("A", rows[0][2]), ("B", end))]  # fmt: skip
    given = {"a": sides[0], "b": sides[1], "rows": drawn, "names": names(SHOWN_CATEGORIES), "selected": "",
             "colour": True, "narrow": tight, "tight": tight, "muted": False}  # fmt: skip
    (figure,) = call_each("figures/waterfall", "waterfall", [[given]])
    return figure


def test_ticks_of_the_waterfall_say_their_own_value():
    for wide in (3.0, 6.0, 12.0, 16.0, 25.0, 60.0):
        axis = waterfall(("matmul", wide, 0.5))["layout"]["xaxis2"]
        assert [float(text) for text in axis["ticktext"]] == pytest.approx(axis["tickvals"]), axis


def test_a_number_of_the_waterfall_stands_beside_the_line_of_b_where_there_is_room():
    # the first bar ends just before B's end, at 1.2: its number would lie on the line
    figure = waterfall(("matmul", 0.19, 1.0), ("host", 0.1, 1.19), ("bubble", -0.09, 1.29))
    (texts,) = [one for one in figure["data"] if one.get("mode") == "markers+text"]
    places = texts["textposition"][3:]
    assert places[0] == "middle left"
    assert texts["x"][3] == pytest.approx(1.0), "at the beginning of its bar"
    assert figure["keys"] == ["matmul", "", "matmul", ""], "a segment of A or B says what it is of"


def item(label: str, step_s: float) -> dict[str, Any]:
    return {"key": label, "label": label, "predicted": False, "values": {"step_s": step_s}}


def test_bars_of_measurements_have_their_names_on_a_narrow_page_too():
    labels = [f"Llama 3.2 1B, bf16 on one H200, batch {number}" for number in range(6)]
    groups = [{"name": "", "items": [item(label, 0.1 + at) for at, label in enumerate(labels)]}]
    (figure,) = call_items(groups)
    axis = figure["layout"]["yaxis"]
    assert len(set(axis["ticktext"])) == 6
    assert all(text.endswith(str(at)) and len(text) <= 20 for at, text in enumerate(axis["ticktext"]))
    assert [bar["orientation"] for bar in figure["data"]] == ["h"]
    assert figure["layout"]["height"] >= 6 * 19


def call_items(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    written = f"""
        import {{ itemsFigure }} from "{(MODULES / "figures" / "items.js").as_uri()}";
        const up = {{ key: "step_s", title: "step time", kind: "s", number: true, write: String }};
        const given = {{ groups: {json.dumps(groups)}, up, across: null, colour: (token) => token, narrow: true }};
        process.stdout.write(JSON.stringify([itemsFigure(given)]));
    """
    command = [str(NODE), "--input-type=module", "--eval", written]
    found: list[dict[str, Any]] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return found


def pair_of(**about: Any) -> list[dict[str, Any]]:
    estimate = {"step_time_s": 2.0, "tokens_per_s": 256.0, "memory": {"fits": True}, "chips": 2, "mfu": 0.4}
    estimate |= about.pop("estimate", {})
    expected = {"estimate": estimate, "rows": about.pop("counts", "tokens"), "ops": []}
    measurement = {"id": "x", "label": "x", "device": {}, "origin": {"format": "kineto"}, "rows": [],
                   "steps_s": [2.5], "step_s": 2.5, "memory": {}, "status": "ok",
                   "world_size": 2, "breakdown_s": {}, "phases_s": {}, "expected": expected, **about}  # fmt: skip
    scenario = {"model": "m", "cluster": {"chip": "c"}, "plan": {}, "training": {}}
    shown = {"a": "own", "b": "m:x", "measured": "x", "measurement": measurement, "measuredScenario": None,
             "scenario": scenario, "base": scenario, "catalog": {"chips": [], "doubts": {}}}  # fmt: skip
    (pair,) = call_each("sides", "pairOf", [[shown, {}]])
    return [pair["a"], pair["b"]]


def test_a_profile_of_unknown_scenario_has_the_tokens_that_its_proposal_or_its_loss_has():
    training = {"seq_len": 1024, "global_batch": 4}
    by_loss = pair_of()
    assert [(one["tokens"], one["samples"]) for one in by_loss] == [(512, None)] * 2
    proposed = pair_of(proposed={"scenario": {"training": training}})
    assert [one["tokens"] for one in proposed] == [4096] * 2
    (price,) = call_each("sides", "priceOf", [[by_loss[1], 3.6]])
    assert price == {"step_usd": 0.005, "million_usd": pytest.approx(0.005 / 512e-6)}
    images = pair_of(counts="samples", proposed={"scenario": None, "reason": "no tokens"})
    assert [(one["tokens"], one["samples"]) for one in images] == [(None, 512)] * 2
    assert call_each("sides", "uncounted", [[one] for one in (*by_loss, *images)]) == [""] * 4


def test_a_log_without_a_scenario_has_its_own_rates():
    steps = [{"step": at, "step_s": 2.0 + at, "mfu_frac": 0.4} for at in range(3)]
    log = {"expected": None, "origin": {"format": "log/loop"}, "step_s": 3.0}

    def logged(rate: str, world: int = 1) -> dict[str, Any]:
        rows = [{**step, rate: 300 / step["step_s"]} for step in steps]
        return pair_of(**log, world_size=world, rows=rows)[1]

    def each_and_all(side: dict[str, Any], word: str) -> list[float | None]:
        return [call_each("sides", name, [[side, word]])[0] for name in ("rowsOfEach", "rowsOfAll")]

    one_gpu, everybody = logged("tokens_per_s_per_gpu"), logged("tokens_per_s")
    assert (one_gpu["mfu"], one_gpu["tokens"]) == (0.4, None)
    assert each_and_all(one_gpu, "tokens") == [pytest.approx(300), None]
    # how many GPUs these are shared by, the log does not say
    assert each_and_all(everybody, "tokens") == [None, pytest.approx(300)]
    assert each_and_all(logged("samples_per_s"), "samples") == [None, pytest.approx(300)]
    assert each_and_all(logged("tokens_per_s", world=4), "tokens") == [pytest.approx(75), pytest.approx(300)]
    assert each_and_all(logged("tokens_per_s_per_gpu", world=4), "tokens") == [pytest.approx(300), pytest.approx(1200)]
    assert call_each("sides", "uncounted", [[one] for one in (one_gpu, everybody)]) == ["", ""]


def test_a_profile_whose_tokens_nobody_can_tell_says_why():
    without_loss = pair_of(estimate={"tokens_per_s": 0})
    bare = {**without_loss[1], "measurement": {"device": {}}}
    told = call_each("sides", "uncounted", [[one] for one in (*without_loss, bare)])
    assert told == ["no loss tells its tokens", "no loss tells its tokens", "its scenario is not known"]


FIELDS = {
    f"training.{name}": {"default": value}
    for name, value in {"precision": "bf16-amp", "attention": "sdpa", "framework": "pytorch-eager", "compile": False,
                        "optimizer": "adamw", "dropout": 0.0}.items()
}  # fmt: skip
FIELDS["training.framework"]["labels"] = {"pytorch-eager": "PyTorch eager", "megatron": "Megatron"}


def test_a_search_says_what_all_of_its_plans_take_for_granted():
    usual = {"seq_len": 4096, "global_batch": 64, "precision": "bf16-amp", "attention": "sdpa"}
    own = {**usual, "precision": "fp8", "framework": "megatron", "compile": True, "dropout": 0.1}
    assert call_each("planLabel", "trainingWords", [[usual, FIELDS], [own, FIELDS]]) == [
        "bf16 amp, SDPA attention, PyTorch eager", "fp8, SDPA attention, Megatron, compiled, dropout 0.1",
    ]  # fmt: skip


def test_an_answer_whose_interval_ends_beyond_the_days_says_so_and_which_does_not():
    day_s = 86400

    def answer(name: str, low: float, high: float, late: bool = False) -> dict[str, Any]:
        return {"name": name, "late": late, "range_s": [low * day_s, high * day_s]}

    asked = {"run_tokens": 1e12, "days": 20, "usd_per_hour": 2}
    cheap, sure, slow = answer("cheap", 17, 23), answer("sure", 12, 16), answer("slow", 22, 30, late=True)
    assert call_each("answers", "mayBeLate", [[one, asked] for one in (cheap, sure, slow)]) == [True, False, False]
    found = call_each("answers", "surelyWithin", [[[cheap, sure, slow], asked], [[cheap, slow], asked]])
    assert [one and one["name"] for one in found] == ["sure", None]
    assert call_each("answers", "mayBeLate", [[cheap, {**asked, "days": 0}]]) == [False]


def test_a_search_over_several_numbers_of_chips_has_one_clock():
    before = [{"plans_tried": 100, "plans_fitting": 40, "seconds": 1.5}] * 2
    now = {"tried": 7, "fitting": 3, "seconds": 0.25}
    assert call_each("answers", "soFar", [[before, now], [[], now]]) == [
        {"tried": 207, "fitting": 83, "seconds": 3.25}, now,
    ]  # fmt: skip


def test_what_no_op_has_of_a_step_is_what_the_server_s_table_of_layers_says():
    plan = {**LLAMA["plan"], "dp": 2, "tp": 2, "pp": 2, "schedule": "1f1b"}
    scenario = scenario_from_json({**LLAMA, "plan": plan})
    found = estimate(scenario)
    (beside,) = call_each("figures/opLines", "besideOps", [[json.loads(json.dumps(encode(found)))]])
    rows = layer_table(scenario)
    said = {row.category: row.share_frac * found.step_time_s for row in rows if row.part == WHOLE_STEP}
    said[Category.COMMUNICATION] += sum(
        (row.communication_forward_s + row.communication_backward_s) * row.times for row in rows
    )
    said.pop(Category.OPTIMIZER)  # which stands as ops in the page's table
    assert dict(beside) == pytest.approx(said)
    assert {Category.COMMUNICATION, Category.BUBBLE} <= set(said)


def test_a_program_s_collectives_stand_between_its_ranks_where_all_of_them_meet():
    one = {"name": "allreduce", "kind": "all-reduce", "bytes": 8.0, "count": 2, "axis": "2 ranks", "ranks": 2}
    wide, same = ({"tp": 1, "cp": 1, "dp": 8, "pp": 1}, {"tp": 2, "cp": 1, "dp": 2, "pp": 1})
    plans = call_each("figures/rankMatrix", "planOf", [[wide, 2], [same, 4]])
    assert plans == [{"tp": 1, "cp": 1, "dp": 2, "pp": 1}, same]
    given = {"collectives": [one], "per_node": 8, "axes": [], "colour": True, "narrow": False}
    pair, four = call_each("figures/rankMatrix", "rankMatrix", [[{**given, "plan": plan}] for plan in plans])
    assert pair["table"]["rows"] == [[0, 1, "2 ranks", 16, "inside a node"], [1, 0, "2 ranks", 16, "inside a node"]]
    assert pair["said"].startswith("a rank sends 16.0 B a step inside its node")
    assert four["table"]["rows"] == [], "which two of four meet nobody knows"
    assert call_each("figures/rankMatrix", "isPlaced", [[one, 2], [one, 4]]) == [True, False]


def test_what_a_traced_program_was_run_with_is_read_by_option():
    given = ["data", "--batch-size", "4", "--compile", "--lr=1e-3", "-n", "2", "more"]
    traced = {"environment": {"program": "train.py", "arguments": given}, "world_size": 8}
    found = call_each("measured", "tracedSettings", [[traced], [{"environment": {}}], [None]])
    said = {"program": "train.py", "argument 1": "data", "batch-size": "4", "compile": "yes", "lr": "1e-3", "n": "2"}
    assert found == [{**said, "argument 2": "more", "ranks": "8"}, {}, {}]


def test_profiles_of_a_cpu_are_known_by_kind_or_name():
    summaries = [("cpu", "AMD EPYC"), ("", "cpu"), ("", "NVIDIA H200"), ("", "")]
    given = [[{"device_kind": kind, "device_name": name}] for kind, name in summaries]
    assert call_each("measured", "isOfCpu", given) == [True, True, False, False]
