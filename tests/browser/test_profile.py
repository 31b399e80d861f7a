"""A profile of a program that nobody described: beside its own prediction, until its scenario is confirmed."""

from __future__ import annotations

import gzip
import itertools
import json
import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import LOOKS
from tests.browser.looking import (
    bring_into_view,
    headline,
    marked,
    query,
    settled,
    side,
    turn,
    wait_for_causes,
    wait_for_figures,
)
from tests.browser.server import ROOT

pytestmark = pytest.mark.browser
TRACE = ROOT / "tests" / "reference" / "h200" / "trace-short-2.trace.json.gz"
_DOUBT = """async (doubts) => {
    const { set, state } = await import(js("state"));
    set({ catalog: { ...state.catalog, doubts }, theme: state.theme + 1 });
}"""
_IMAGES = """async () => {
    const { set, state } = await import(js("state"));
    const expected = { ...state.measurement.expected, rows: "samples" };
    set({ measurement: { ...state.measurement, expected } });
}"""
MOMENTS = itertools.count(1)


@pytest.fixture
def unknown(tmp_path):
    """A profile whose name says nothing, another file for each test: one that is there already is shown as it is."""
    path = tmp_path / "unknown.json.gz"
    path.write_bytes(gzip.compress(gzip.decompress(TRACE.read_bytes()), 1, mtime=next(MOMENTS)))
    return path


def test_an_unknown_profile_is_predicted_by_itself_then_its_scenario_is_confirmed_and_changed(visit, drop, unknown):
    page = visit("/?measured=none")
    wait_for_figures(page)
    drop(page, unknown)
    expect(side(page, "A")).to_contain_text("its own ops")
    expect(side(page, "B")).to_contain_text("measured")
    wait_for_causes(page)
    step = page.locator("#tile-step-time dd")
    expect(step.locator("> i")).to_contain_text(re.compile(r"^6[0-5]\."))
    expect(step.locator("> b")).to_have_text("63.4")
    # its shapes propose how many tokens a step has
    titles = [page.locator(f"#tile-{name} dt span") for name in ("tokens", "price")]
    for title, words in zip(titles, ("Tokens/s per GPU", "Per million tokens"), strict=True):
        expect(title).to_have_text(words)
    expect(page.locator("#tile-tokens dd > b")).to_have_text("129")
    expect(page.locator("#tile-price dd > b")).to_have_text("0.772")
    # it is laid out over time as the recorded step is
    page.wait_for_function(
        """() => ["host <b>A</b>", "compute <b>A</b>"].every((lane) =>
            document.querySelector("#timeline .plot").layout?.yaxis.ticktext.includes(lane))"""
    )
    # and its lanes have what memory would have, of which it says nothing
    below = page.evaluate("() => document.querySelector('#timeline .plot').layout.yaxis.domain[0]")
    assert below < 0.3, "the card is not half empty"
    # nothing is subtracted from the scenario that happens to be open
    expect(page.locator("#step-time .sub")).to_contain_text("until its own is confirmed")
    # nor from what its own ops should take on a chip whose peaks are doubted
    delta = page.locator("#tile-step-time dt b")
    for doubts, said in (({"h200-sxm": "Measured while busy."}, "chip was busy"), ({}, re.compile("%"))):
        page.evaluate(_DOUBT, doubts)
        expect(delta).to_have_text(said)
        if doubts:
            expect(page.locator("#step-time .causes li")).to_have_count(0)
    expect(page.locator("#own-ops")).to_contain_text("8192×2048, 2048×128256")
    page.fill("#own-ops input", "allreduce")
    expect(page.locator("#own-ops tbody tr")).to_have_count(4)
    # a cause that is selected is what its own ops are of, as in the other figures
    page.fill("#own-ops input", "")
    page.locator("#step-time .causes button", has_text="matmul").click()
    expect(page.locator("#own-ops .sub")).to_contain_text(re.compile(r"\d+ ops of matmul"))
    expect(page.locator("#layers tr.marked")).not_to_have_count(0)
    assert marked(page, "#roofline") == marked(page, "#timeline") == {"bright", "faint"}
    page.keyboard.press("Escape")
    expect(page.locator("#own-ops .sub")).not_to_contain_text("of matmul")
    proposal = page.locator("#proposal")
    expect(proposal).to_contain_text("31 fields sure")
    expect(proposal.locator("tr", has_text="hidden")).to_contain_text("2048")
    proposal.get_by_role("button", name="Confirm").click()
    expect(proposal).to_contain_text("This profile is of")
    settled(page)
    expect(side(page, "A")).to_contain_text("predicted")
    expect(step.locator("> b")).to_have_text("63.4")
    expect(page.locator("#tile-step-time dt b")).to_contain_text("%")
    expect(titles[1]).to_have_text("Per million tokens")

    before = headline(page)
    page.locator('[data-field="plan.micro_batch"] input[type=range]').focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("() => new URLSearchParams(location.search).get('micro_batch') === '2'")
    settled(page)
    assert headline(page) != before
    expect(page.locator("#step-time .sub")).to_contain_text("A is the plan that was measured")
    expect(side(page, "B")).to_contain_text("micro batch 2")
    assert query(page, "measured")


def test_a_recording_without_a_step_leaves_no_figure_of_what_stood_there_before(visit, drop, tmp_path):
    broken = tmp_path / "broken.json"
    events = [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 10 * at, "dur": 5, "pid": 1, "tid": 1}
              for at in range(40)]  # fmt: skip
    broken.write_text(json.dumps({"traceEvents": events})[:-40])
    page = visit("/")
    wait_for_causes(page)
    drop(page, broken)
    expect(side(page, "B")).to_contain_text("broken")
    expect(page.locator("#tile-step-time dd > b")).to_have_text("–")
    expect(page.locator("#step-time .sub")).to_contain_text("gives no step time")
    expect(page.locator("#step-time .water")).to_be_hidden()
    expect(page.locator("#timeline")).to_be_hidden()
    page.keyboard.press("Control+z")
    wait_for_causes(page)
    expect(page.locator("#tile-step-time dd > b")).not_to_have_text("–")
    expect(page.locator("#timeline")).to_be_visible()
    page.get_by_role("button", name="Dismiss broken.json").click()


_BEYOND = """() => {
    const right = document.querySelector("#explore .panel").getBoundingClientRect().right;
    const parts = [...document.querySelectorAll("#explore .whose, #explore .whose *")];
    return parts.filter((one) => one.getBoundingClientRect().right > right).map((one) => one.textContent);
}"""


def test_the_controls_say_whose_scenario_they_move_while_a_profile_s_own_is_not_confirmed(visit, drop, unknown):
    page = visit("/?measured=none")
    wait_for_figures(page)
    name = "pretraining_of_the_small_model_on_two_hosts_again"
    drop(page, unknown.rename(unknown.with_name(f"{name}.json.gz")))
    whose = page.locator(".panel .whose")
    expect(whose).to_contain_text(f"Proposed from the shapes of {name}, not confirmed.")
    expect(page.locator("#model")).to_contain_text(name)
    assert query(page, "dp") == "2", "the controls stand at what was proposed"
    page.locator("#model").select_option("llama3-8b")
    expect(whose).to_contain_text("which is neither A nor B")
    expect(whose).to_contain_text("These controls move Llama 3 8B")
    assert page.evaluate(_BEYOND) == [], "a long name has room"
    bring_into_view(page, "#layers")
    expect(page.locator("#layers header .sub")).to_contain_text("of A, the program's own ops; one rank")
    expect(
        page.locator("#proposal").get_by_role("button", name="It ran the plan that the controls show")
    ).to_be_visible()
    whose.get_by_role("button", name=f"What {name} seems to be").click()
    expect(whose).to_contain_text("Proposed from the shapes")
    # a control that is moved is seen to move something: the plan that is left is A
    page.locator('[data-field="plan.micro_batch"] input[type=range]').focus()
    page.keyboard.press("ArrowLeft")
    expect(side(page, "B")).to_contain_text("micro batch 2")
    expect(whose).to_be_hidden()
    page.keyboard.press("Control+z")
    expect(side(page, "A")).to_contain_text("its own ops")
    whose.get_by_role("button", name="Confirm").click()
    expect(page.locator("#proposal")).to_contain_text("This profile is of")
    expect(whose).to_be_hidden()


_CUT_OFF = """
() => {
  const box = document.querySelector("#layers .scroll:not(.every)");
  return box.scrollWidth - box.clientWidth;
}
"""


def test_what_if_questions_are_answered_from_the_profile_s_own_ops_and_its_cards_fit_the_page(visit, drop, unknown):
    page = visit("/?measured=none")
    wait_for_figures(page)
    drop(page, unknown)
    what = page.locator("#what-if")
    expect(what).to_contain_text(re.compile(r"As it is: 6[0-5]\."))
    what.get_by_role("button", name="no exposed communication").click()
    expect(what).to_contain_text(re.compile(r"−\d.* % against 6[0-5]"))
    expect(what.locator("tr.total")).to_contain_text("step")
    chip = what.get_by_label("On the chip")
    chip.select_option("a100-80gb-sxm")
    expect(what).to_contain_text(re.compile(r"\+\d.* % against 6[0-5]"))
    what.get_by_role("button", name="no exposed communication").click()
    chip.select_option("h200-sxm")
    expect(what).to_contain_text(re.compile(r"As it is: 6[0-5]\."))
    # products have one precision at a time
    for name in ("fp8", "tf32"):
        what.get_by_role("button", name=f"products in {name}").click()
        expect(what.locator("button[aria-pressed=true]")).to_have_text([f"products in {name}"])
    what.get_by_role("button", name="products in tf32").click()
    expect(what).to_contain_text(re.compile(r"As it is: 6[0-5]\."))
    # what binds it is said in the words of its estimate
    expect(page.get_by_label("Remedies")).to_contain_text(re.compile(r"Binds.* takes .* of 6[0-5]"))
    # a profile of two ranks has its collectives: other layouts are refused, each with its reason
    expect(what.get_by_label("Data parallel ranks")).to_be_hidden()
    refused = what.locator("details", has_text="What it cannot be asked")
    refused.locator("summary").click()
    expect(refused).to_contain_text("data parallel: The list is of one rank of 2 already")
    expect(what.get_by_label("Tensor parallel ranks")).to_be_hidden()
    refused.locator("summary").click()
    # of what other tests dropped nothing is said any more
    notices = page.get_by_role("button", name="Dismiss unknown.json.gz")
    while notices.count() > 1:
        notices.first.click()
    settled(page)
    assert page.evaluate("document.documentElement.scrollHeight") <= 2 * 900, "no page is longer than two screens"
    for look in LOOKS:
        turn(page, look)
        settled(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= look[0]
        assert page.evaluate(_CUT_OFF) <= 0, "every column of the layers is in sight"
    # of a program that looks up no tokens samples are counted; the controls are of another plan, which has a length
    turn(page, (1440, "light"))
    length = page.locator('#explore [data-field="training.seq_len"]')
    expect(length).to_be_visible()
    page.evaluate(_IMAGES)
    expect(page.locator("#tile-tokens dt span")).to_have_text("Samples/s per GPU")
    expect(page.locator("#tile-price dt span")).to_have_text("Per million samples")
    expect(page.locator("#tile-tokens dd > b")).not_to_have_text("–")
    expect(length).to_be_visible()


def test_the_table_sets_nothing_against_a_profile_of_unknown_scenario(visit, drop, unknown):
    page = visit("/?measured=none")
    wait_for_figures(page)
    drop(page, unknown)
    expect(side(page, "A")).to_contain_text("its own ops")
    page.get_by_role("button", name="Pin this plan").click()
    page.get_by_role("link", name="Measured").click()
    line = page.locator("#items tr", has=page.get_by_role("button", name="as B", pressed=True))
    expect(line).to_contain_text("measured")
    expect(page.locator("#items td.better, #items td.worse")).to_have_count(0)


def test_a_profile_without_shapes_asks_for_its_scenario(open_page, drop, tmp_path):
    document = json.loads(gzip.decompress(TRACE.read_bytes()))
    for event in document["traceEvents"]:
        event.get("args", {}).pop("Input Dims", None)
    (tmp_path / "bare.json").write_text(json.dumps(document))
    page = open_page()
    wait_for_figures(page)
    drop(page, tmp_path / "bare.json")
    proposal = page.locator("#proposal")
    expect(proposal).to_contain_text("It does not say what ran")
    whose = page.locator("#explore .details > [role=note]")
    expect(whose).to_contain_text("are of Llama 3.2 1B · 4 × H200 SXM 141 GB · dp 4, which the controls hold")
    expect(side(page, "A")).to_contain_text("choose A")
    expect(page.locator("#step-time .causes li")).to_have_count(0)
    expect(page.locator("#tile-step-time dt b")).to_have_text("")
    proposal.get_by_role("button", name="It ran the plan that the controls show").click()
    expect(side(page, "A")).to_contain_text("predicted")
    expect(whose).to_be_hidden()
    expect(page.locator("#tile-step-time dd > b")).to_have_text("63.4")
    # a log that names its run lands beside its own prediction, with what it was and on what it ran as the questions
    run = '"model": "gpt2-xl", "gpu": "H100", "gpus": 8, "global_batch": 64, "sequence": 1024, "sharding": "fsdp"'
    steps = "".join(f'{{{run}, "step": {at}, "step_time_s": 0.4{at}}}\n' for at in range(4))
    (tmp_path / "run.jsonl").write_text(steps)
    drop(page, tmp_path / "run.jsonl")
    expect(proposal).to_contain_text("What was this? GPT-2 XL · 8 × H100 SXM 80 GB · dp 8")
    expect(side(page, "A")).to_contain_text("predicted")
    expect(side(page, "B")).to_contain_text("run.jsonl")
    # it guesses its chip: until that is said no difference is drawn, in words or colour
    expect(page.locator("#tile-step-time dt b")).to_have_text("not confirmed")
    expect(page.locator("#step-time .sub")).to_contain_text(
        "no difference is drawn until its own scenario is confirmed"
    )
    expect(page.locator("#step-time .causes li")).to_have_count(0)
    asked = proposal.get_by_label("run.jsonl: ran on")
    expect(asked).to_have_value("h100-sxm")
    expect(proposal).to_contain_text("the log says H100, and SXM is its usual form")
    asked.select_option("h200-sxm")
    expect(side(page, "A")).to_contain_text("H200")
    expect(side(page, "B")).to_contain_text("H200")
    expect(proposal).to_be_hidden()
    # what it leaves out is asked for in the same place, and the rest of it stands there
    (tmp_path / "short.jsonl").write_text(steps.replace('"sequence": 1024, ', ""))
    drop(page, tmp_path / "short.jsonl")
    expect(proposal).to_contain_text("What was this? GPT-2 XL · dp 8 · fsdp · global batch 64")
    confirm = proposal.get_by_role("button", name="Confirm")
    expect(confirm).to_be_disabled()
    expect(proposal.get_by_label("short.jsonl: ran on")).to_have_value("h100-sxm")
    proposal.get_by_label("short.jsonl: ran on").select_option("h200-sxm")
    proposal.get_by_label("short.jsonl: tokens of a sequence").fill("1024")
    expect(proposal.get_by_label("short.jsonl: ran on")).to_have_value("h200-sxm")
    confirm.click()
    expect(side(page, "A")).to_contain_text("H200")
    expect(side(page, "B")).to_contain_text("short.jsonl")
    expect(proposal).to_be_hidden()
    # a batch that may be that of each GPU or of all is asked for, with what it was taken for
    (tmp_path / "whose.jsonl").write_text(steps.replace('"global_batch": 64', '"batch_size": 8'))
    drop(page, tmp_path / "whose.jsonl")
    expect(proposal.get_by_label("whose.jsonl: sequences of a step, all GPUs")).to_have_value("64")
    confirm.click()
    expect(side(page, "B")).to_contain_text("whose.jsonl")
    expect(proposal).to_be_hidden()
    # how many GPUs is a guess, in the list and in the box, and nobody confirms it unawares
    lone = steps.replace('"gpus": 8, ', "").replace("gpt2-xl", "a model of mine, 4.47M params")
    (tmp_path / "lone.jsonl").write_text(lone)
    drop(page, tmp_path / "lone.jsonl")
    number = proposal.get_by_label("lone.jsonl: GPUs")
    expect(number).to_have_value("")
    expect(proposal.locator("tr.guessed", has_text="dp")).to_contain_text("one is assumed until somebody does")
    # a model that no list has comes from its config.json
    model = proposal.get_by_label("lone.jsonl: model")
    number.fill("8")
    expect(confirm).to_be_disabled()
    config = {"model_type": "gpt2", "n_embd": 128, "n_layer": 2, "n_head": 2, "vocab_size": 512, "n_positions": 1024}
    (tmp_path / "mine.json").write_text(json.dumps(config))
    proposal.get_by_label("config.json of the model of this run").set_input_files(tmp_path / "mine.json")
    expect(model).to_have_value("own:mine.json")
    confirm.click()
    expect(side(page, "A")).to_contain_text("mine.json")
    expect(side(page, "B")).to_contain_text("lone.jsonl")
    expect(proposal).to_be_hidden()
