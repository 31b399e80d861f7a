"""When the server goes, the page says so calmly, keeps its figures, and goes on when it is back."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.looking import EIGHT_GPUS, expect_view, headline, settled, wait_for_change, wait_for_figures
from tests.browser.server import Server

pytestmark = pytest.mark.browser


def test_the_page_outlives_its_server(open_page, tmp_path):
    own = Server(tmp_path / "data")
    try:
        # what a server that ends on a busy machine is still asked
        page = open_page(EIGHT_GPUS, url=own.url, refusals=(503,))
        wait_for_figures(page)
        before = headline(page)
        page.wait_for_load_state("networkidle")
        own.stop()
        page.select_option("#model", "llama3.2-1b")
        banner = page.locator("#banner")
        expect(banner).to_contain_text("does not answer")
        assert headline(page) == before
        own = Server(tmp_path / "data", own.port)
        banner.get_by_role("button", name="Retry now").click()
        expect(banner).not_to_be_visible()
        wait_for_change(page, before[0])
    finally:
        own.stop()


def test_a_view_that_could_not_be_loaded_says_so_and_is_loaded_when_it_is_opened_again(open_page, browser):
    module = "**/views/search/search.js"
    browser.route(module, lambda route: route.abort())
    try:
        page = open_page()
        wait_for_figures(page)
        settled(page)
        page.keyboard.press("s")
        expect(page.locator(".toast")).to_have_text("Search could not be loaded.")
    finally:
        browser.unroute(module)
    page.keyboard.press("1")
    expect_view(page, "explore")
    page.keyboard.press("s")
    expect(page.locator("#search")).to_contain_text("plans tried")
