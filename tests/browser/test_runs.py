"""Runs: a real run on this CPU from the form to its prediction, and one that is cancelled."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.looking import expect_view, number, points, settled, wait_for_figures

pytestmark = pytest.mark.browser

RUN_MS = 120_000


def _fill(page, label: str, steps: int, warmup: int) -> None:
    page.get_by_label("Steps", exact=True).fill(str(steps))
    page.get_by_label("Warm-up steps").fill(str(warmup))
    page.get_by_label("Label").fill(label)
    command = page.locator("#run-command")
    expect(command).to_contain_text("-m runners step")


def test_a_run_on_this_cpu_is_watched_and_stands_beside_its_prediction(open_page):
    page = open_page("/?view=runs")
    expect_view(page, "runs")
    _fill(page, "small on this CPU", steps=4, warmup=1)
    page.get_by_role("button", name="Launch").click()
    run = page.locator(".run", has_text="small on this CPU")
    expect(run).to_contain_text(re.compile(r"(build|warmup|measure|profile) \d+ of \d+"), timeout=RUN_MS)
    expect(page.locator(".tabs .count")).to_have_text("1")
    expect(run.locator(".state")).to_have_text("ok", timeout=RUN_MS)
    expect(run).to_contain_text("per step")
    expect(page.locator("#run-result tr.total")).to_contain_text("%")
    expect(page.locator(".tabs .count")).to_have_count(0)

    run.get_by_role("button", name="Open in Explore").click()
    expect_view(page, "explore")
    wait_for_figures(page)
    settled(page)
    expect(page.locator(".pins .chip", has_text="measured")).to_contain_text("small on this CPU")
    total = page.locator("#step-time tr.total td")
    predicted, measured = number(total.nth(1).inner_text()), number(total.nth(2).inner_text())
    assert predicted > 0
    assert measured > 0
    expect(page.locator("#step-time thead")).to_contain_text("error")
    assert page.evaluate("document.querySelector('#memory .plot').data[0].x") == ["predicted", "measured"]
    assert len(points(page, "measured")) > 0
    address = page.url
    page.goto(address)
    wait_for_figures(page)
    expect(page.locator("#step-time tr.total td").nth(2)).to_have_text(total.nth(2).inner_text())


def test_a_run_is_cancelled_and_its_log_stays(open_page):
    page = open_page("/?view=runs")
    _fill(page, "to be cancelled", steps=900, warmup=1)
    page.get_by_role("button", name="Launch").click()
    run = page.locator(".run", has_text="to be cancelled")
    expect(run.locator(".state")).to_have_text("running", timeout=RUN_MS)
    cancel = run.get_by_role("button", name="Cancel", exact=True)
    place = cancel.bounding_box()
    cancel.click()
    expect(run.locator(".state")).to_have_text("cancelled", timeout=RUN_MS)
    expect(run.get_by_role("button", name="Retry")).to_be_visible()
    page.mouse.click(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    retry = run.get_by_role("button", name="Retry").bounding_box()
    assert retry["x"] + retry["width"] <= place["x"], "a second click on Cancel must not retry"
    expect(page.locator(".run", has_text="to be cancelled")).to_have_count(1)
    expect(page.get_by_role("heading", name="Log")).to_be_visible()


def test_a_job_that_cannot_run_says_which_field(open_page):
    page = open_page(
        "/?view=runs&chip=cpu&chips_per_node=1&nodes=1&dp=1&tp=1&pp=1&global_batch=4&micro_batch=4", refusals=(422,)
    )
    page.get_by_role("combobox", name="Scenario").select_option("explore")
    page.get_by_label("Processes").fill("3")
    problem = page.locator("#runs .problem")
    expect(problem).to_contain_text("world_size")
    expect(problem).to_contain_text("3 processes for a scenario of 1 chip")
    expect(page.get_by_role("button", name="Launch")).to_be_disabled()
