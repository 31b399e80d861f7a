"""A | B: what stands beside what, where the difference goes, what would be faster, and that nothing else is drawn."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.looking import (
    EIGHT_GPUS,
    expect_view,
    headline,
    marked,
    points,
    query,
    settled,
    side,
    wait_for_causes,
    wait_for_figures,
    wait_for_points,
    wait_until,
)

pytestmark = pytest.mark.browser

ROWS = "#step-time .causes li"
_WORDS_PX = """(row) => {
    const [name, how] = [".name", ".how"].map((one) => row.querySelector(one));
    const top = () => how.getBoundingClientRect().top - row.getBoundingClientRect().top;
    const [named, words] = [top(), [...name.childNodes]];
    name.replaceChildren();
    const alone = top();
    name.replaceChildren(...words);
    return [alone, named];
}"""
"""How far below the top of a row the words of its cause stand: without a name, which a row above has, and with it."""

_CAUSES = """async () => {
    const { state } = await import(js("state"));
    const { a, b } = state.pair;
    const sum = state.difference.causes.reduce((all, { seconds }) => all + seconds, 0);
    return { sum, difference: b.step_s - a.step_s, step: a.step_s };
}"""
_WORDS = """() => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    let count = 0;
    while (walker.nextNode()) {
        const { parentElement, data } = walker.currentNode;
        if (!parentElement.checkVisibility() || parentElement.closest(".sr, option, noscript, script")) continue;
        const range = document.createRange();
        range.selectNodeContents(walker.currentNode);
        const box = range.getBoundingClientRect();
        if (box.width && box.top < innerHeight && box.bottom > 0)
            count += data.split(/\\s+/).filter((word) => /[a-z]{2}/i.test(word)).length;
    }
    return count;
}"""


def test_the_page_opens_with_a_prediction_a_and_its_run_b_and_where_the_difference_goes(open_page):
    page = open_page()
    wait_for_figures(page)
    wait_for_causes(page)
    expect(side(page, "A")).to_contain_text("predicted")
    expect(side(page, "B")).to_contain_text("measured")
    found = page.evaluate(_CAUSES)
    assert found["sum"] == pytest.approx(found["difference"], abs=1e-9 * found["step"])
    expect(page.locator("#step-time h3")).to_contain_text(re.compile(r"A → B\s+[+−][\d.]+ ms"))
    expect(page.locator("#step-time .sub")).to_contain_text("80 % interval of A")
    expect(page.locator(ROWS).first).to_contain_text("faster kernels")
    wait_for_points(page, "predicted")
    assert len(points(page, "predicted")) > 5
    assert len(points(page, "measured")) > 5
    page.wait_for_selector("#timeline .plot .scatterlayer path")
    expect(page.locator(".remedies .try").first).to_be_visible()
    for part in ("#tile-step-time", "#tile-peak-memory", "#tile-price", "#step-time", "#roofline", "#timeline"):
        box = page.locator(part).bounding_box()
        assert box is not None
        assert box["y"] < 700, f"{part} is on the first screen"
    assert page.evaluate(_WORDS) <= 250

    # one cause is what all figures show; Escape shows all
    row = page.locator(f"{ROWS} button", has_text="attention")
    row.focus()
    page.keyboard.press("Enter")
    expect(row).to_have_attribute("aria-pressed", "true")
    for figure in ("#roofline", "#timeline"):
        assert marked(page, figure) == {"bright", "faint"}, f"{figure} marks what the cause is about"
    expect(page.locator("#layers tr.marked")).to_have_text(re.compile("^attention"))
    assert page.locator("#layers tr.muted").count() > 5
    page.get_by_role("tab", name="Kernels").click()
    expect(page.locator("#kernels tr.group").first).to_contain_text("attention")
    page.keyboard.press("Escape")
    expect(row).to_have_attribute("aria-pressed", "false")
    for figure in ("#roofline", "#timeline"):
        assert marked(page, figure) == {"bright"}
    # a bar is as good as its row, and a segment of A or B as its category
    plot, bar = page.locator("#step-time .plot").bounding_box(), page.locator(ROWS).first.bounding_box()
    assert plot is not None
    assert bar is not None
    page.mouse.click(plot["x"] + plot["width"] / 2, bar["y"] + bar["height"] / 2)
    expect(page.locator(f"{ROWS} button").first).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Escape")
    page.mouse.click(plot["x"] + 30, plot["y"] + 8)
    expect(page.locator(f"{ROWS} button[aria-pressed=true]")).to_have_text(re.compile("^matmul"))
    page.keyboard.press("Escape")
    expect(page.locator("#kernels tr.group")).to_have_count(0)
    page.get_by_role("tab", name="Configuration").click()
    expect(page.locator("#configuration")).to_contain_text("no recorded setting differs")
    page.get_by_role("tab", name="Assumed").click()
    assert page.locator("#assumptions li").count() > 2
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Timeline: download a trace for Perfetto").click()
    assert "traceEvents" in waiting.value.path().read_text()

    # turned narrow, every cause has the two lines that its words take
    rows = page.locator(ROWS)
    page.locator("#tab-configuration").click()
    for width, height in ((390, 32), (1440, 18)):
        page.set_viewport_size({"width": width, "height": 900})
        expect(rows.first).to_have_css("height", f"{height}px")
        if width < 600:
            alone, named = rows.nth(1).evaluate(_WORDS_PX)
            assert abs(alone + 14 / 2 - height / 2) <= 1, "the words of a further bar stand beside it, in the middle"
            assert named > alone
        # what else comes into sight is drawn anew as well: a drag on a phone's figure scrolls the page
        page.locator("#timeline").scroll_into_view_if_needed()
        page.wait_for_function(
            "(drag) => document.querySelector('#timeline .plot').layout.dragmode === drag",
            arg=False if width < 600 else "zoom",
        )
        # and the tab that was chosen stays in sight
        page.locator(".details").scroll_into_view_if_needed()
        expect(page.locator("#tab-configuration")).to_be_in_viewport(ratio=1)

    # the price is edited in place, and stands in the address
    price = page.locator("#tile-price .own, #tile-price dd > b").last
    before = price.inner_text()
    page.locator("#tile-price .edit").click()
    page.get_by_role("spinbutton", name="Price of one chip").fill("7.18")
    page.keyboard.press("Enter")
    expect(price).not_to_have_text(before)
    assert query(page, "usd_per_hour") == "7.18"


def test_a_slider_leaves_the_plan_before_as_a_and_try_keeps_its_promise(open_page):
    page = open_page(EIGHT_GPUS)
    wait_for_figures(page)
    expect(side(page, "B")).to_contain_text("choose B")
    expect(page.locator(ROWS)).to_have_count(0)
    before = headline(page)
    page.get_by_role("radio", name="full", exact=True).check(force=True)
    settled(page)
    wait_for_causes(page)
    expect(side(page, "B")).to_contain_text("full recompute")
    expect(page.locator("#tile-peak-memory dt b")).to_have_text(re.compile(r"^−\S+ [GM]B$"))
    expect(page.locator("#tile-step-time dd i")).to_have_text(before[0].split()[0])
    expect(page.locator(ROWS).first).to_contain_text("more recomputed")

    page.keyboard.press("x")
    expect(side(page, "A")).to_contain_text("Llama 3 8B")
    expect(side(page, "B")).to_contain_text("no recompute")
    address = page.url
    page.keyboard.press("Control+z")
    expect(side(page, "B")).to_contain_text("full recompute")
    page.goto(address)
    expect(side(page, "B")).to_contain_text("no recompute")
    wait_for_causes(page)

    # what is promised is what the estimate says once it is tried
    page.keyboard.press("Control+z")
    remedy = page.locator(".remedy").first
    expect(remedy).to_be_visible()
    promised = page.evaluate("async () => (await import(js('state'))).state.remedies.best[0]")
    expect(page.locator(".remedies")).not_to_have_class(re.compile("stale"))
    of_another = "async () => { const { set, state } = await import(js('state')); window.own = state.remedies; "
    of_another += "set({ remedies: { ...own, scenario: state.base } }); }"
    page.evaluate(of_another)
    expect(page.locator(".remedies")).to_have_class(re.compile("stale"))
    page.evaluate("async () => (await import(js('state'))).set({ remedies: own })")
    remedy.get_by_role("button", name="Try").click()
    same = "async (step_s) => (await import(js('state'))).state.estimate.step_time_s === step_s"
    wait_until(page, same, promised["step_time_s"])
    settled(page)
    wait_for_causes(page)
    found = page.evaluate(_CAUSES)
    assert found["sum"] == pytest.approx(found["difference"], abs=1e-9 * found["step"])


def test_any_two_are_chosen_run_against_run_and_none_of_another_chip_or_model(open_page):
    page = open_page()
    wait_for_figures(page)
    side(page, "A").click()
    dialog = page.get_by_role("dialog", name="Choose A")
    dialog.get_by_role("textbox").fill("llama one")
    dialog.get_by_role("listitem").get_by_role("button").click()
    wait_for_causes(page)
    expect(side(page, "A")).to_contain_text("measured")
    expect(side(page, "B")).to_contain_text("measured")
    found = page.evaluate(_CAUSES)
    assert found["sum"] == pytest.approx(found["difference"], abs=1e-9 * found["step"])
    # what the panel moves then takes the place of B
    page.get_by_role("radio", name="full", exact=True).check(force=True)
    expect(side(page, "B")).to_contain_text("predicted")

    page.goto(page.url.partition("?")[0] + "?measured=2-llama3.2-1b-bf16-h200")
    wait_for_figures(page)
    model = query(page, "model")
    page.select_option("#model", "gpt2")
    expect(page.locator("#step-time .sub")).to_contain_text("another model was measured")
    expect(page.locator(ROWS)).to_have_count(0)
    expect(page.locator("#tile-step-time .better, #tile-step-time .worse")).to_have_count(0)
    page.get_by_role("button", name="Predict what was measured").click()
    wait_for_causes(page)
    expect(side(page, "B")).to_contain_text("measured")
    assert query(page, "model") == model


def test_a_load_asks_for_each_thing_once(open_page):
    page = open_page()
    wait_for_figures(page)
    wait_for_causes(page)
    settled(page)  # what is asked for once all rests is not the second load's
    asked: list[str] = []
    page.on("request", lambda request: asked.append(f"{request.method} {urlsplit(request.url).path}"))
    page.reload()
    wait_for_figures(page)
    wait_for_causes(page)
    settled(page)
    once = [one for one in asked if one.startswith(("POST /api/", "GET /api/measurements/"))]
    assert "POST /api/estimate" in once
    assert [one for one in set(once) if one != "POST /api/estimate/axis" and once.count(one) > 1] == []
    # the other pages come when somebody goes for them
    assert [one for one in asked if one.endswith("/views/search/search.js")] == []
    with page.expect_request("**/views/search/search.js"):
        page.locator('.tabs [data-view="search"]').hover()
    expect(page.locator("#search main")).to_have_count(1)
    expect_view(page, "explore")
    expect(page.locator("#explore .panel .hint", has_text="TFLOP/s")).to_contain_text("151 GB (140 GiB) at 4.80 TB/s")
    expect(page.locator("#tile-peak-memory")).to_have_attribute("title", re.compile("nvidia-smi"))
