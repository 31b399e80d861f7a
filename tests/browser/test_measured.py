"""A measured run stands beside the prediction of its own model and chip, and of no other."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from tests.browser.looking import bars, query, settled, wait_for_figures
from tests.browser.server import ROOT

pytestmark = pytest.mark.browser


def test_a_run_of_another_model_is_not_drawn_beside_the_prediction(open_page):
    page = open_page("/?measured=2-llama3.2-1b-bf16-h200")
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
    expect(strip).to_contain_text("not drawn beside a prediction for NVIDIA H200")
    expect(strip).to_contain_text("measured on ")
    wait_for_figures(page)
    expect(page.locator("#step-time .sub")).to_contain_text("predicted; measured on ")
    expect(page.locator("#step-time")).not_to_contain_text(re.compile(r"\d %"))
    expect(page.locator("#tile-step-time")).not_to_contain_text("vs measured")
    strip.get_by_role("button", name="Predict for This CPU").click()
    # on a busy machine steps, or the CPU's probe, are disturbed
    expect(page.locator("#tile-step-time")).to_contain_text(re.compile("vs measured|measured; "))
    expect(strip).not_to_contain_text("not drawn")
    assert (query(page, "chip"), query(page, "link")) == ("cpu", None)


def test_a_disturbed_measurement_shows_its_fastest_step_and_no_error(open_page, drop, tmp_path):
    sample = json.loads((ROOT / "app" / "samples" / "1-llama3.2-1b-ddp-4xh200.json").read_text())
    disturbed = {**sample, "id": "", "label": "disturbed", "steps_s": [0.53, 0.17, 0.35]}
    (tmp_path / "disturbed.json").write_text(json.dumps(disturbed))
    page = open_page()
    wait_for_figures(page)
    total = page.locator("#step-time tr.total td")
    expect(total.nth(3)).to_contain_text("%")
    drop(page, tmp_path / "disturbed.json")
    expect(page.locator("#step-time .hint")).to_have_text(
        "Disturbed: 3 steps differ by 3.1×; the fastest is shown.", timeout=30_000
    )
    settled(page)
    expect(total.nth(2)).to_have_text("170")
    expect(total.nth(3)).to_have_text("–")
    expect(page.locator("#step-time .worse")).to_have_count(0)
    expect(page.locator("#tile-step-time")).to_contain_text("170 ms measured; disturbed")
    assert bars(page)
    page.goto(page.url + ("&" if "?" in page.url else "?") + "view=compare")
    line = page.locator("#compared tr", has_text="disturbed")
    expect(line).to_contain_text("steps differ by 3.1×")
    expect(line).not_to_contain_text("worse")
    assert line.locator(".better, .worse").count() == 0


def test_a_prediction_for_a_chip_whose_peaks_are_doubted_is_no_error(open_page):
    page = open_page()
    wait_for_figures(page)
    expect(page.locator("#tile-step-time")).to_contain_text("vs measured")
    page.evaluate(
        """async () => {
            const { set, state } = await import(js("state"));
            const doubts = { [state.scenario.cluster.chip]: "Measured while other programs left 11 % of it." };
            set({ catalog: { ...state.catalog, doubts }, theme: state.theme + 1 });
        }"""
    )
    expect(page.locator("#tile-step-time")).to_contain_text("measured; peaks not known")
    expect(page.locator("#step-time .hint")).to_contain_text("left 11 % of it")
    expect(page.locator("#step-time tr.total td").nth(3)).to_have_text("–")
