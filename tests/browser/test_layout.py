"""Layout: wide and narrow, light and dark, nothing overflows, overlaps or is cut, and the console stays empty."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import LOOKS, SCHEMES, WIDTHS
from tests.browser.looking import EIGHT_GPUS, expect_view, headline, settled, wait_for_axis, wait_for_figures

pytestmark = pytest.mark.browser

_OVERLAPS = """(selector) => {
    const found = [];
    for (const box of document.querySelectorAll(selector)) {
        const outer = box.getBoundingClientRect();
        const texts = [];
        const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) {
            if (!walker.currentNode.data.trim() || !walker.currentNode.parentElement.checkVisibility()) continue;
            const range = document.createRange();
            range.selectNodeContents(walker.currentNode);
            for (const part of range.getClientRects()) texts.push([walker.currentNode.data, part]);
        }
        for (const [text, part] of texts) {
            const cut = part.left < outer.left - 1 || part.right > outer.right + 1 || part.bottom > outer.bottom + 1;
            if (cut) found.push(`${text} leaves ${box.id || box.className}`);
        }
        texts.forEach(([a, one], at) => texts.slice(at + 1).forEach(([b, two]) => {
            const wide = Math.min(one.right, two.right) - Math.max(one.left, two.left);
            const high = Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top);
            if (wide > 1 && high > 3) found.push(`${a} over ${b}`);
        }));
    }
    return found;
}"""

_PLOT_TEXTS = """(selector) => {
    const found = [];
    for (const plot of document.querySelectorAll(selector)) {
        const outer = plot.getBoundingClientRect();
        for (const text of plot.querySelectorAll("text")) {
            const part = text.getBoundingClientRect();
            const cut = part.left < outer.left - 1 || part.right > outer.right + 1;
            if (part.width && cut) found.push(text.textContent);
        }
    }
    return found;
}"""


def _overflow(page: Page) -> int:
    return page.evaluate("document.documentElement.scrollWidth - innerWidth")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_explore(open_page, width, scheme):
    page = open_page(EIGHT_GPUS, width=width, scheme=scheme)
    wait_for_figures(page)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    page.set_viewport_size({"width": width, "height": 4000})  # draws every figure
    page.wait_for_selector("#roofline .plot .scatterlayer .point", state="attached")
    page.wait_for_selector("#memory .plot .barlayer .point", state="attached")
    settled(page)
    assert _overflow(page) <= 0
    assert page.evaluate(_OVERLAPS, ".tile") == []
    assert page.evaluate(_PLOT_TEXTS, "#explore .plot") == []
    tile = page.locator("#tile-step-time").bounding_box()
    figure = page.locator("#step-time").bounding_box()
    assert tile is not None
    assert figure is not None
    assert tile["y"] < 200, "the headline comes first"
    assert figure["y"] < (900 if width > 600 else 844), "the step time begins on the first screen"


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
@pytest.mark.parametrize("view", ["runs", "compare"])
def test_other_pages(open_page, view, width, scheme):
    page = open_page(f"/?view={view}&pin=s:recompute%3Dfull", width=width, scheme=scheme)
    expect_view(page, view)
    page.wait_for_load_state("networkidle")
    settled(page)
    assert _overflow(page) <= 0
    assert page.evaluate(_PLOT_TEXTS, f"#{view} .plot") == []


def test_narrow_the_scenario_is_a_sheet_over_live_figures(open_page):
    page = open_page(EIGHT_GPUS, width=390)
    wait_for_figures(page)
    panel = page.locator("#explore .panel")
    expect(panel).not_to_be_visible()
    page.locator("#explore .sheet-button").click()
    expect(panel).to_be_visible()
    wait_for_axis(page, "plan.tp")
    before = headline(page)
    page.locator('[data-field="plan.tp"] input[type=range]').focus()
    page.keyboard.press("ArrowRight")
    settled(page)
    assert headline(page) != before
    box = page.locator("#tile-step-time").bounding_box()
    sheet = panel.bounding_box()
    assert box is not None
    assert sheet is not None
    assert box["y"] + box["height"] <= sheet["y"] + 1, "the step time stays in sight"
    page.keyboard.press("Escape")
    expect(panel).not_to_be_visible()
