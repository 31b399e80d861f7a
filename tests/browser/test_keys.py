"""The page by keyboard: keys for its views, help, search and figures; theme and links."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from tests.browser.looking import EIGHT_GPUS, expect_view, side, wait_for_figures

pytestmark = pytest.mark.browser


_SIDES = """async () => {
    const { setSides } = await import(js("actions"));
    const { state } = await import(js("state"));
    setSides(`m:${state.sample}`, "plan");
}"""


def test_keyboard_help_theme_and_link(open_page, drop, tmp_path):
    page = open_page(EIGHT_GPUS)
    wait_for_figures(page)
    for key, name in (("2", "runs"), ("3", "measurements"), ("1", "explore")):
        page.keyboard.press(key)
        expect_view(page, name)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).not_to_be_visible()
    page.keyboard.press("s")
    expect_view(page, "search")
    page.keyboard.press("1")
    page.locator('[data-field="plan.dp"] input[type=number]').focus()
    page.keyboard.press("Control+k")
    expect(page.locator("dialog[open]").get_by_role("textbox")).to_be_focused()
    page.keyboard.press("Escape")
    page.locator("body").evaluate("() => document.activeElement.blur()")
    page.keyboard.press("/")
    expect(page.get_by_role("textbox", name="Find model")).to_be_focused()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Switch between light and dark").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark", "the choice is kept"
    wait_for_figures(page)
    said = page.locator(".toast")
    page.get_by_role("button", name="Copy link").click()
    expect(said).to_have_text("Link copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    page.get_by_role("button", name="Copy JSON").click()
    expect(said.first).to_have_text("Scenario copied as JSON")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert '"model": "llama3-8b"' in copied
    # what was copied comes back as A, with nothing beside it
    scenario = json.loads(copied)
    scenario["training"]["seq_len"] = 1024
    (tmp_path / "mine.json").write_text(json.dumps(scenario), "utf-8")
    drop(page, tmp_path / "mine.json")
    expect(said.first).to_have_text("mine.json is now the scenario")
    expect(page.locator('[data-field="training.seq_len"] input[type=number]')).to_have_value("1024")
    expect(side(page, "A")).to_contain_text("Llama 3 8B")
    expect(side(page, "B")).to_contain_text("choose B")
    expect(page.locator("#step-time .legend")).to_contain_text("matmul"), "a bar alone says what its colours are"
    assert "seq_len=1024" in page.url
    assert "measured=none" in page.url


def test_skip_link_reaches_the_figures(open_page):
    page: Page = open_page()
    wait_for_figures(page)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the figures")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#content")).to_be_focused()
    # what somebody has set against each other is no bundled run to look around
    welcome = page.locator(".welcome")
    expect(welcome).to_be_visible()
    page.evaluate(_SIDES)
    expect(welcome).to_be_hidden()
