"""Links: what of them nobody knows is said, once."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.looking import EIGHT_GPUS, wait_for_figures

pytestmark = pytest.mark.browser


def test_what_a_link_says_that_nobody_knows_is_said_once(open_page):
    page = open_page(EIGHT_GPUS + "&colour=blue&pp=two", refusals=(422,))
    wait_for_figures(page)
    said = page.locator(".tray .import", has_text="colour")
    expect(said).to_contain_text("pp=two")
    said.get_by_role("button", name="Dismiss").click()
    page.keyboard.press("3")
    page.go_back()
    expect(page.locator(".tray .import")).to_have_count(0)


def test_what_of_a_link_is_not_known_is_said(open_page):
    page = open_page("/?foo=bar&tp=abc")
    wait_for_figures(page)
    expect(page.locator("#tray")).to_contain_text("This link says foo, tp=abc, which this page does not know")
    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator("#tray")).not_to_contain_text("This link")
