"""Runs: a real run on this CPU from the form to its prediction, and one that is cancelled."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.looking import expect_view, number, points, settled, side, wait_for_figures

pytestmark = pytest.mark.browser

RUN_MS = 240_000


def _fill(page, label: str, steps: int, warmup: int) -> None:
    page.get_by_label("Steps", exact=True).fill(str(steps))
    page.get_by_label("Warm-up steps").fill(str(warmup))
    page.get_by_label("Label").fill(label)
    command = page.locator("#run-command")
    expect(command).to_contain_text("-m runners step")


def test_a_run_on_this_cpu_is_watched_and_stands_beside_its_prediction(open_page):
    page = open_page("/?view=runs")
    expect_view(page, "runs")
    _fill(page, "small on this CPU", steps=2, warmup=1)
    page.get_by_role("button", name="Launch").click()
    run = page.locator(".run", has_text="small on this CPU")
    expect(run).to_contain_text(re.compile(r"(build|warmup|measure|profile) \d+ of \d+"), timeout=RUN_MS)
    expect(page.locator(".tabs .count")).to_have_text("1")
    expect(run.locator(".state")).to_have_text("ok", timeout=RUN_MS)
    expect(run).to_contain_text("per step")
    # on a busy machine steps, or the CPU's probe, are disturbed, and no error is told
    expect(page.locator("#run-result tr.total")).to_contain_text(re.compile(r"%|–"))
    expect(page.locator(".tabs .count")).to_have_count(0)
    written = page.request.get(f"{page.url.split('/?')[0]}/api/runs/{run.get_attribute('data-run')}/log").text()
    log = page.get_by_role("heading", name="Log")
    expect(log).to_be_visible() if written else expect(log).to_be_hidden()

    run.get_by_role("button", name="Open in Explore").click()
    expect_view(page, "explore")
    wait_for_figures(page)
    expect(side(page, "A")).to_contain_text("predicted")
    expect(side(page, "B")).to_contain_text("small on this CPU")
    settled(page)
    predicted, measured = (page.locator(f"#tile-step-time dd > {one}").inner_text() for one in ("i", "b"))
    assert number(predicted) > 0
    assert number(measured) > 0
    assert len(points(page, "measured")) > 0
    page.get_by_role("tab", name="Memory").click()
    page.wait_for_function("() => document.querySelector('#memory .plot').data?.[0].x.join() === 'predicted,measured'")
    page.goto(page.url)
    wait_for_figures(page)
    expect(page.locator("#tile-step-time dd > b")).to_have_text(measured)
    expect(page.locator("#tile-step-time")).to_have_attribute(
        "title", re.compile(r"Measured: the median of \d+ steps, .+ to .+\.|Disturbed: \d+ steps differ by .+×")
    )


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
    run.get_by_role("button", name="Retry").click()
    again = page.locator(".run.chosen", has_text="to be cancelled")
    expect(page.locator(".run", has_text="to be cancelled")).to_have_count(2)
    expect(again).to_have_count(1)
    assert again.get_attribute("data-run") in page.url, "the new run is shown"
    again.get_by_role("button", name="Cancel", exact=True).click()
    expect(again.locator(".state")).to_have_text("cancelled", timeout=RUN_MS)


def _asked(page, act, like: dict) -> dict:
    """The job with the fields of ``like`` of which the page asks what would run, once ``act`` is done.

    By its fields, because the page asks of itself too: when it opens, and when this CPU's peaks have come.
    """

    def meant(request) -> bool:
        if not request.url.endswith("/api/runs?dry_run=true"):
            return False
        job = request.post_data_json
        return {name: job.get(name) for name in like} == like

    with page.expect_request(meant) as request:
        act()
    return request.value.post_data_json


def test_a_benchmark_of_rows_is_launched_and_its_table_stands_beside_its_predictions(open_page):
    page = open_page("/?view=runs", refusals=(422,))
    page.locator("#run-benchmark").select_option("attention")
    options = page.locator('[data-options="attention"]')
    for name in ("compiled", "sdpa-flash", "sdpa-efficient", "sdpa-cudnn", "sdpa-math", "triton"):
        options.get_by_label(name, exact=True).uncheck()
    options.get_by_label("fp32", exact=True).check()
    options.get_by_label("seq lens").fill("64")
    options.get_by_label("dims").fill("16, wide")
    wrong = options.locator(".option.wrong")
    expect(wrong.get_by_role("alert")).to_have_text("'wide' is not a whole number. Give a whole number.")
    expect(wrong.get_by_label("dims")).to_be_visible()
    expect(page.get_by_role("button", name="Launch")).to_be_disabled()
    asked = {"implementations": ["naive"], "dims": [16], "seq_lens": [64], "precisions": ["fp32"]}
    job = _asked(page, lambda: options.get_by_label("dims").fill("16"), {"benchmark": "attention", "options": asked})
    assert "scenario" not in job
    expect(wrong).to_have_count(0)
    page.get_by_label("Steps", exact=True).fill("2")
    page.get_by_label("Warm-up steps").fill("0")
    page.get_by_label("Label").fill("one small attention")
    expect(page.locator("#run-command")).to_contain_text("-m runners attention")
    page.get_by_role("button", name="Launch").click()
    run = page.locator(".run", has_text="one small attention")
    expect(run.locator(".state")).to_have_text("ok", timeout=RUN_MS)
    expect(run).to_contain_text("6 rows")
    card = page.locator("#run-tables")
    expect(card.locator("h3").first).to_have_text("one small attention")
    expect(card).to_contain_text("Predicted on This CPU")
    expect(card.locator("tbody tr")).to_have_count(6)
    expect(card.locator("thead")).to_contain_text("predicted median")
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0

    expect(run.get_by_role("button", name="Open in Explore")).to_have_count(0)
    run.get_by_role("button", name="Open in Measurements").click()
    expect_view(page, "measurements")
    expect(page.locator("#details h3", has_text="one small attention")).to_be_in_viewport()


def test_every_benchmark_is_offered_and_the_command_line_s_sizes_are_read(visit, server):
    page = visit("/?view=runs")
    choice = page.locator("#run-benchmark")
    known = server.get("/api/benchmarks")["benchmarks"]
    expect(choice.locator("option")).to_have_text(["step: this scenario", *(one["name"] for one in known[1:])])
    for one in known[1:]:
        job = _asked(page, lambda name=one["name"]: choice.select_option(name), {"benchmark": one["name"]})
        assert job["world_size"] == one["least_ranks"]
        expect(page.locator("#run-command")).to_contain_text(f"-m runners {one['name']}")
        expect(page.locator("#runs aside")).to_contain_text(one["about"])
        for option in one["options"]:
            assert page.locator(f"#option-{one['name']}-{option['name']}, fieldset").count(), option["name"]
    choice.select_option("collectives")
    _asked(
        page, lambda: page.get_by_label("sizes, bytes").fill("4KiB, 1024"), {"options": {"sizes_bytes": ["4KiB", 1024]}}
    )
    expect(page.locator("#run-command")).to_contain_text("-m runners collectives")
    expect(page.locator("#runs .problem:visible")).to_have_count(0)


def test_a_grid_of_steps_takes_its_models_from_its_options(visit):
    page = visit("/?view=runs")
    page.locator("#run-benchmark").select_option("step")
    scenario = page.get_by_role("combobox", name="Scenario")
    expect(scenario).to_be_visible()
    page.locator('[data-options="step"] summary').click()
    models = page.locator('[data-options="step"]').get_by_label("models", exact=True)
    job = _asked(page, lambda: models.fill("tiny"), {"options": {"models": ["tiny"]}})
    assert "scenario" not in job
    expect(scenario).to_be_hidden()
    expect(page.locator("#run-command")).to_contain_text("-m runners step")


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
