"""Explore: opens filled, a pinned scenario is the baseline, capacities name their unit and source."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.looking import (
    EIGHT_GPUS,
    bring_into_view,
    number,
    points,
    settled,
    wait_for_figures,
    wait_for_points,
)

pytestmark = pytest.mark.browser


def test_opens_filled_with_a_measured_run_beside_its_prediction(open_page, server):
    page = open_page()
    wait_for_figures(page)
    sample = server.get("/api/catalog")["sample"]
    assert sample, "no measured run is bundled"
    expect(page.locator(".pins .chip", has_text="measured")).to_be_visible()
    total = page.locator(".errors tr.total td")
    expect(total.nth(2)).to_have_text(re.compile(r"\d"))
    predicted, measured, error = (number(total.nth(at).inner_text()) for at in (1, 2, 3))
    assert error == pytest.approx(100 * (predicted / measured - 1), abs=1.5)
    wait_for_points(page, "predicted")
    assert len(points(page, "predicted")) > 5
    bring_into_view(page, "#layers")
    expect(page.locator("#layers tbody tr").nth(3)).to_be_visible()
    assert page.locator("#assumptions li").count() > 0
    # a capacity is told in both units, with its source
    expect(page.locator("#explore .panel .hint", has_text="TFLOP/s")).to_contain_text("151 GB (140 GiB) at 4.80 TB/s")
    expect(page.locator("#tile-peak-memory dd small").first).to_have_attribute("title", re.compile("nvidia-smi"))
    # model and chip are named as the catalogue names them
    for select, part in (("#model", "model"), ("#chip", "cluster")):
        expect(page.locator(f"{select} option:checked")).not_to_contain_text("as given")
        entry = sample["scenario"][part]
        name = entry["name"] if part == "model" else entry["chip"]["name"]
        expect(page.locator(select)).to_have_value(name)


def test_a_pinned_scenario_is_the_baseline_of_the_deltas(open_page):
    page = open_page(EIGHT_GPUS)
    wait_for_figures(page)
    page.get_by_role("button", name="Pin this scenario").click()
    page.get_by_role("radio", name="full", exact=True).check(force=True)
    expect(page.locator("#tile-step-time")).to_contain_text("vs baseline")
    expect(page.locator("#tile-peak-memory")).to_contain_text("▼ −")
    expect(page.locator(".pins .chip", has_text="baseline")).to_contain_text("recompute none")
    page.reload()
    expect(page.locator("#tile-step-time")).to_contain_text("vs baseline")


def test_a_load_asks_for_each_thing_once(open_page):
    page = open_page()
    wait_for_figures(page)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(f"{request.method} {urlsplit(request.url).path}"))
    page.reload()
    wait_for_figures(page)
    settled(page)
    once = [one for one in asked if one.startswith(("POST /api/estimate", "GET /api/measurements/"))]
    assert "POST /api/estimate" in once
    assert [one for one in set(once) if one != "POST /api/estimate/axis" and once.count(one) > 1] == []


def test_what_limits_the_step_names_only_changes_that_were_estimated_the_best_first(open_page, server):
    page = open_page(EIGHT_GPUS)
    wait_for_figures(page)
    lines = page.locator("#tile-limits .remedies li")
    expect(lines.first.get_by_role("button")).to_be_visible(timeout=60_000)
    said = [re.fullmatch(r"(.+) −([\d.]+) %: ([\d.]+) (m?s)", text) for text in lines.all_inner_texts()]
    assert all(said), lines.all_inner_texts()
    gains = [float(one[2]) for one in said]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 2
    # nothing that any axis offers on the same chips for the same work is faster than what is named first
    fastest = page.evaluate(
        """async () => {
            const [{ validAxis }, { state }, { REMEDY_FIELDS }] = await Promise.all(
                ["axes", "state", "remedies"].map((name) => import(js(name))));
            const { plan, training } = state.scenario;
            const chips = ({ dp, tp, cp, pp }) => dp * tp * cp * pp;
            const same = (one) => chips(one.plan) === chips(plan) && one.training.global_batch === training.global_batch
                && one.training.precision === training.precision
                && [training.framework, "pytorch-compile"].includes(one.training.framework);
            const times = REMEDY_FIELDS.flatMap((field) => validAxis(field)?.legal ?? [])
                .filter(({ scenario, estimate }) => same(scenario) && estimate.memory.fits)
                .map(({ estimate }) => estimate.step_time_s);
            return Math.min(...times);
        }"""
    )
    named_s = float(said[0][3]) / (1000 if said[0][4] == "ms" else 1)
    assert named_s == pytest.approx(fastest, rel=0.01)
    lines.first.get_by_role("button").click()
    settled(page)
    step = page.locator("#tile-step-time dd").first.inner_text().split()
    assert step == [said[0][3], said[0][4]]
    assert page.locator("#tile-limits").inner_text().count("first remedy") == 0
