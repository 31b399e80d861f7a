"""Campaigns: a grid of runs with its progress, disturbed runs said as such; clone; steps as they come."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage
from tests.browser.looking import settled
from tests.javascript import call_each

JOB = {
    "benchmark": "step",
    "steps": 3,
    "label": "",
    "scenario": {"plan": {"micro_batch": 1}, "training": {"seq_len": 8}},
}


def call(name: str, *given: Any) -> Any:
    return call_each("campaigns", name, [given])[0]


def test_a_grid_becomes_jobs() -> None:
    grid = call("gridIn", "seq_len 8, 16\nmicro_batch: 1 2; steps 5", JOB)
    assert grid["wrong"] == ""
    jobs = call("jobsOf", JOB, grid["grid"], "night")
    assert [one["label"] for one in jobs][::3] == [
        "night: seq_len 8, micro_batch 1, steps 5",
        "night: seq_len 16, micro_batch 2, steps 5",
    ]
    assert jobs[3]["scenario"]["training"]["seq_len"] == 16
    assert jobs[3]["steps"] == 5
    assert JOB["steps"] == 3
    assert "no field" in call("gridIn", "nonsense 1 2", JOB)["wrong"]
    assert "more than 64" in call("gridIn", "seq_len " + " ".join(map(str, range(1, 70))), JOB)["wrong"]


def _run(at: int, state: str, **more: Any) -> dict[str, Any]:
    return {
        "id": str(at),
        "label": f"night: seq_len {at}",
        "state": state,
        "started_s": None,
        "finished_s": None,
        **more,
    }


def test_progress_and_time_left() -> None:
    runs = [_run(3, "queued"), _run(2, "running", started_s=10), _run(1, "ok", started_s=0, finished_s=7)]
    (found,) = call("campaignsOf", [*runs, {**_run(4, "ok"), "label": "alone"}])
    assert (found["name"], found["done"], len(found["runs"])) == ("night", 1, 3)
    assert found["left_s"] == pytest.approx(14)


def test_a_campaign_on_the_page(open_page: OpenPage) -> None:
    page = open_page("/?view=runs")
    whole: list[str] = []
    page.on("request", lambda request: whole.append(request.url))
    page.locator("[data-options=step] details.more > summary").click()
    snapshot = page.locator("#option-step-snapshot")
    snapshot.check()
    page.get_by_label("Steps", exact=True).fill("3")
    page.get_by_label("Label").fill("sizes")
    page.get_by_label("Vary, for a campaign").fill("seq_len 32, 64")
    page.get_by_role("button", name="Launch 2").click()
    card = page.locator("#campaigns figure", has_text="sizes")
    expect(card.locator(".sub")).to_have_text("2 of 2 runs", timeout=400_000)
    card.get_by_role("button", name="Table").click()
    expect(card.locator("tbody tr")).to_have_count(2)
    expect(card.locator("tbody tr").first).to_contain_text(re.compile(r"\d.*\d"))
    snapshot.uncheck()
    run = page.locator(".run", has_text="sizes: seq_len 64")
    opener = run.get_by_role("button", name="sizes: seq_len 64")
    if opener.get_attribute("aria-expanded") != "true":
        opener.click()
    expect(page.locator("#run-steps .plot svg").first).to_be_visible()
    run.get_by_role("button", name="Clone").click()
    expect(page.get_by_label("Label")).to_have_value("sizes: seq_len 64")
    expect(page.locator("#run-scenario")).to_have_value("clone")
    # the options of that run are what the form shows, and what it shows is what the next one has
    expect(snapshot).to_be_checked()
    settled(page)
    fetched = {url for url in whole if re.search(r"/api/measurements/\w", url)}
    assert len(fetched) <= 2, (
        "cards take steps from the list; the page's sample and the run that is open are read whole"
    )
