"""A measured run stands beside the prediction of its own model and chip, and of no other."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.looking import query, wait_for_figures

pytestmark = pytest.mark.browser


def test_a_run_of_another_model_is_not_drawn_beside_the_prediction(open_page):
    page = open_page()
    wait_for_figures(page)
    errors = page.locator(".errors tr.total td")
    expect(errors.nth(2)).to_have_text(re.compile(r"\d"))
    model = query(page, "model")
    page.select_option("#model", "gpt2")
    strip = page.locator("#explore .pins")
    expect(strip).to_contain_text("not drawn beside another model")
    expect(page.locator("#step-time .sub")).to_contain_text("another model was measured")
    expect(page.locator("#step-time")).not_to_contain_text(re.compile(r"\d %"))
    strip.get_by_role("button", name="Predict what was measured").click()
    expect(errors.nth(2)).to_have_text(re.compile(r"\d"))
    expect(strip).not_to_contain_text("not drawn")
    assert query(page, "model") == model


def test_a_run_on_another_chip_than_its_scenario_names_is_not_drawn_as_an_error(open_page, drop, measured):
    page = open_page("/?measured=none")
    wait_for_figures(page)
    drop(page, measured / "result.json")
    strip = page.locator("#explore .pins")
    expect(strip).to_contain_text("not drawn beside a prediction for NVIDIA H200", timeout=30_000)
    expect(strip).to_contain_text("measured on ")
    wait_for_figures(page)
    expect(page.locator("#step-time .sub")).to_contain_text("predicted; measured on ")
    expect(page.locator("#step-time")).not_to_contain_text(re.compile(r"\d %"))
    expect(page.locator("#tile-step-time")).not_to_contain_text("vs measured")
    strip.get_by_role("button", name="Predict for This CPU").click()
    expect(page.locator("#tile-step-time")).to_contain_text("vs measured")
    expect(strip).not_to_contain_text("not drawn")
    assert (query(page, "chip"), query(page, "link")) == ("cpu", None)
