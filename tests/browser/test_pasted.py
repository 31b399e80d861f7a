"""What is pasted: a table shows its rows, a config.json becomes the model, wherever on the page that is."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.looking import expect_view, wait_for_figures
from tests.browser.server import ROOT
from tests.browser.test_imports import STEP_TIMES

pytestmark = pytest.mark.browser


def test_a_pasted_table_shows_its_rows(open_page):
    page = open_page("/?measured=none")
    wait_for_figures(page)
    page.keyboard.press("u")
    page.locator("#paste").fill(STEP_TIMES)
    page.get_by_role("button", name="Import text").click()
    expect(page.locator(".import")).to_contain_text("1 measurement")
    expect_view(page, "measurements")
    rows = page.locator("#details tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(2)).to_contain_text("969\u202f411\u202f840")
    cells = rows.nth(2).locator("td")
    assert "0.142913" in [cells.nth(at).get_attribute("title") for at in range(cells.count())]
    # nothing tells what it ran on: no chip is taken for it
    expect(page.get_by_label("measured on")).to_have_value("")
    expect(page.locator("#details thead")).not_to_contain_text("predicted")
    listed = page.evaluate("fetch('/api/measurements').then(r => r.json()).then(d => d.measurements.length)")
    page.keyboard.press("u")
    page.locator("#paste").fill(STEP_TIMES)
    page.get_by_role("button", name="Import text").click()
    expect(page.locator(".import").first).to_contain_text("the same file was there already, and is what is shown")
    expect_view(page, "measurements")
    now = page.evaluate("fetch('/api/measurements').then(r => r.json()).then(d => d.measurements.length)")
    assert now == listed
    # a config.json that is pasted becomes the model, as one that is dropped does
    page.keyboard.press("u")
    page.locator("#paste").fill((ROOT / "tests" / "reference" / "hf_configs" / "qwen3-8b.json").read_text())
    page.get_by_role("button", name="Import text").click()
    expect(page.locator("#model option:checked")).to_contain_text("qwen3 8.19B")
    expect_view(page, "explore")


def test_a_table_pasted_anywhere_on_the_page_opens_the_import_with_it(open_page):
    page = open_page("/?measured=none")
    wait_for_figures(page)
    paste = """(text) => {
      const clipboardData = new DataTransfer();
      clipboardData.setData("text/plain", text);
      document.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
    }"""
    page.evaluate(paste, "just a sentence, with 2 numbers, and 3 commas")
    expect(page.locator("#paste")).not_to_be_visible()
    page.evaluate(paste, "model\tGPU\tstep (ms)\ngpt2\tH100\t60\n")
    expect(page.locator("#paste")).to_have_value("model\tGPU\tstep (ms)\ngpt2\tH100\t60\n")
