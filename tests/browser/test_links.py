"""Links: what of them nobody knows is said, once."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.looking import EIGHT_GPUS, query, side, wait_for_figures

pytestmark = pytest.mark.browser


def test_what_a_link_says_that_nobody_knows_is_said_once(open_page):
    unknown = "&view=constructor&colour=blue&pp=two&measured=elsewhere&b=m:elsewhere"
    page = open_page(EIGHT_GPUS + unknown, refusals=(422, 404))
    wait_for_figures(page)
    # a measurement of another server: what it stood beside is there, and it is said what to send instead
    lost = page.locator(".kept .import", has_text="elsewhere")
    expect(lost).to_contain_text("The measurement elsewhere of this link is not on this server")
    expect(lost).to_contain_text("Send the saved report instead, as HTML or JSON")
    expect(side(page, "A")).to_contain_text("Llama 3 8B")
    assert (query(page, "measured"), query(page, "b")) == ("none", None)
    lost.get_by_role("button", name="Dismiss").click()
    said = page.locator(".kept .import", has_text="colour")
    expect(said).to_contain_text("This link says view=constructor, colour, pp=two, which this page does not know")
    said.get_by_role("button", name="Dismiss").click()
    page.keyboard.press("3")
    page.go_back()
    expect(page.locator(".kept .import")).to_have_count(0)
