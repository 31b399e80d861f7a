"""Links: what of them nobody knows is said, once."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.looking import EIGHT_GPUS, wait_for_figures

pytestmark = pytest.mark.browser


def test_what_a_link_says_that_nobody_knows_is_said_once(open_page):
    page = open_page(EIGHT_GPUS + "&colour=blue&pp=two", refusals=(422,))
    wait_for_figures(page)
    said = page.locator(".kept .import", has_text="colour")
    expect(said).to_contain_text("This link says colour, pp=two, which this page does not know")
    said.get_by_role("button", name="Dismiss").click()
    page.keyboard.press("3")
    page.go_back()
    expect(page.locator(".kept .import")).to_have_count(0)
