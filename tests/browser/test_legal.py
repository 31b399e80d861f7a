"""Explore leads to legal plans: before an axis is there, after a value that cannot be, on more chips, and back."""

from __future__ import annotations

import json
import time

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.looking import (
    EIGHT_GPUS,
    headline,
    query,
    settled,
    unfold,
    wait_for_axis,
    wait_for_figures,
)

pytestmark = pytest.mark.browser

PROBLEMS = "#explore .problem:visible, #explore .notice:visible"


def _box(page: Page, path: str):
    return page.locator(f'[data-field="{path}"] input[type=number]')


def _type(page: Page, path: str, value: str) -> None:
    box = _box(page, path)
    box.fill(value)
    box.press("Enter")
    settled(page)


def test_a_slider_moved_before_its_axis_is_there_goes_to_the_nearest_legal_value(open_page):
    page = open_page(EIGHT_GPUS)
    wait_for_figures(page)
    for path in ("plan.dp", "plan.micro_batch"):
        wait_for_axis(page, path)
    page.wait_for_load_state("networkidle")

    def late(route: Route) -> None:
        if '"plan.micro_batch"' in (route.request.post_data or ""):
            time.sleep(0.4)
        route.continue_()

    page.route("**/api/estimate/axis", late)
    # with 64 ranks every one has one sequence of the batch: micro-batches of 8 are no longer legal
    page.evaluate(
        """() => {
            const slide = (path, value) => {
                const range = document.querySelector(`[data-field="${path}"] input[type=range]`);
                range.value = value;
                for (const type of ["input", "change"]) range.dispatchEvent(new Event(type, { bubbles: true }));
            };
            slide("plan.dp", 6);
            requestAnimationFrame(() => slide("plan.micro_batch", 3));
        }"""
    )
    expect(_box(page, "plan.dp")).to_have_value("64")
    expect(page.locator('[data-field="plan.micro_batch"]')).to_have_class("field")
    settled(page)
    expect(_box(page, "plan.micro_batch")).to_have_value("1")
    assert (query(page, "dp"), query(page, "micro_batch")) == ("64", "1")
    assert page.locator(PROBLEMS).count() == 0


def test_a_choice_made_before_its_axis_is_there_is_refused_when_it_says_so(visit):
    page = visit(EIGHT_GPUS.replace("tp=1", "tp=2").replace("dp=8", "dp=4"))
    wait_for_figures(page)
    unfold(page)
    kind = page.locator('[data-field="plan.tp_kind"]')
    kind.get_by_role("radio", name="2D").first.dispatch_event("click")
    expect(kind.locator(".problem")).to_contain_text("not q²")
    assert query(page, "tp_kind") is None


IMPOSSIBLE = EIGHT_GPUS.replace("tp=1", "tp=5").replace("nodes=1", "nodes=5")
"""What five ranks of tensor parallelism make of it, where heads are 32."""


def test_what_gave_way_for_an_impossible_value_comes_back(visit):
    page = visit(EIGHT_GPUS)
    wait_for_figures(page)
    visit(IMPOSSIBLE, refusals=(422,))
    expect(page.locator("#explore .notice")).to_contain_text("does not divide heads")
    _type(page, "plan.tp", "8")
    expect(page.locator("#explore .notice")).to_have_count(0)
    expect(_box(page, "plan.dp")).to_have_value("1")
    assert (query(page, "tp"), query(page, "dp")) == ("8", "1")


def test_one_press_leads_back_to_the_last_that_could_be_estimated(visit):
    page = visit(EIGHT_GPUS)
    wait_for_figures(page)
    settled(page)
    before = headline(page)
    visit(IMPOSSIBLE, refusals=(422,))
    expect(page.locator("#explore .notice b")).to_have_text("This scenario cannot be estimated.")
    page.get_by_role("button", name="Back to the last one that could").click()
    expect(page.locator("#explore .notice")).to_have_count(0)
    settled(page)
    assert headline(page) == before
    assert (query(page, "dp"), query(page, "global_batch")) == ("8", "64")


def test_a_typed_value_that_is_refused_moves_nothing(visit):
    page = visit(EIGHT_GPUS, refusals=(422,))
    wait_for_figures(page)
    settled(page)
    before = headline(page)
    for path, value, why in (
        ("plan.tp", "3", "tp = 3 does not divide heads"),
        ("plan.tp", "5", "tp = 5 does not divide heads"),
        ("plan.pp", "33", "33 pipeline stages for 32 layers"),
        ("plan.cp", "7", "14 parts of the sequence"),
        ("plan.micro_batch", "9", "does not divide into"),
        ("training.global_batch", "3", "does not divide into"),
        ("training.seq_len", "999999999", "is out of range"),
    ):
        _type(page, path, value)
        problem = page.locator(f'[data-field="{path}"] .problem')
        expect(problem).to_contain_text("Refused: ")
        expect(problem).to_contain_text(why)
        expect(problem.get_by_role("button")).to_have_count(0)
        expect(page.get_by_label("GPUs", exact=True)).to_have_value("8")
        assert page.locator("#explore .notice:visible").count() == 0
        assert headline(page) == before
        assert (query(page, "dp"), query(page, "tp"), query(page, "nodes")) == ("8", "1", "1")


def test_the_number_of_chips_is_a_field(visit):
    page = visit("/?model=llama3-70b&chip=h100-sxm&chips_per_node=1&nodes=1&dp=1&micro_batch=1&global_batch=8")
    wait_for_figures(page)
    chips = page.get_by_label("GPUs", exact=True)
    expect(chips).to_have_value("1")
    _type(page, "plan.tp", "8")
    problem = page.locator('[data-field="plan.tp"] .problem')
    expect(problem).to_contain_text("Refused: 1 is no multiple of tp 8.")
    expect(chips).to_have_value("1")
    problem.get_by_role("button", name="Take 8 GPUs").click()
    expect(chips).to_have_value("8")
    expect(problem).to_have_text("Also changed: GPUs 1 → 8, as 1 is no multiple of tp 8.")
    settled(page)
    chips.fill("64")
    chips.press("Enter")
    settled(page)
    assert (query(page, "nodes"), query(page, "dp"), query(page, "tp")) == ("8", "8", "8")


def test_gradients_over_dp_and_cp_say_so_and_keep_their_axis_in_the_data(visit):
    page = visit(EIGHT_GPUS.replace("dp=8", "dp=4&cp=2"))
    wait_for_figures(page)
    page.get_by_role("tab", name="Communication").click()
    row = page.locator("#communication tbody tr", has_text="gradient scatter")
    expect(row.locator("td").nth(1)).to_have_text("dp·cp 8")
    expect(row.locator("td").nth(1)).to_have_attribute("title", "dp 4 × cp 2: ranks of both hold the same parameters")
    axes = page.evaluate("import(js('state')).then(({ state }) => state.estimate.collectives.map(({ axis }) => axis))")
    assert "dp" in axes
    assert not [axis for axis in axes if "·" in axis], json.dumps(axes)


def test_more_chips_leave_a_legal_plan_and_say_what_followed(visit):
    page = visit()
    wait_for_figures(page)
    chips = page.get_by_label("GPUs", exact=True)
    expect(chips).to_have_value("4")
    chips.fill("8")
    chips.press("Enter")
    expect(_box(page, "plan.micro_batch")).to_have_value("2")
    said = "Adapted: micro batch 4 → 2, as it has to divide the 2 sequences of each rank."
    expect(page.locator('[data-field="plan.micro_batch"] .problem')).to_have_text(said)
    expect(page.locator(".field:has(#chips) + .problem")).to_contain_text("Also changed: micro batch 4 → 2")
    settled(page)
    assert page.locator("#explore .notice:visible").count() == 0
    assert (query(page, "dp"), query(page, "micro_batch"), query(page, "global_batch")) == ("8", "2", None)
    _type(page, "training.seq_len", "1024")
    expect(page.locator('[data-field="plan.micro_batch"] .problem')).to_be_hidden()


def test_sliders_of_an_impossible_link_show_its_values_and_lead_out_of_it(visit):
    page = visit("/?dp=8&chips_per_node=8", refusals=(422,))
    notice = page.locator("#explore .notice")
    expect(notice).to_contain_text("global batch 16 does not divide into dp·micro_batch = 8·4")
    expect(notice).to_contain_text("Choose a global batch that is a multiple of 32")
    expect(page.locator('[data-field="training.global_batch"]')).to_have_class("field wrong")
    for path in ("plan.dp", "plan.micro_batch"):
        wait_for_axis(page, path)
    micro_batch = page.locator('[data-field="plan.micro_batch"] input[type=range]')
    expect(micro_batch).to_be_enabled()
    assert float(page.locator('[data-field="plan.dp"] input[type=range]').input_value()) > 0
    # sharding is not what is wrong
    expect(page.locator('[data-field="plan.sharding"] label.no')).to_have_count(0)
    # the number of chips is no way out that nobody chose
    _type(page, "plan.tp", "3")
    refused = page.locator('[data-field="plan.tp"] .problem')
    expect(refused).to_contain_text("Refused: 8 is no multiple of tp 3.")
    expect(refused.get_by_role("button", name="Take 24 GPUs")).to_be_visible()
    expect(page.get_by_label("GPUs", exact=True)).to_have_value("8")
    _type(page, "plan.micro_batch", "2")
    expect(notice).to_have_count(0)
    wait_for_figures(page)
