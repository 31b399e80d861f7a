"""The list of runs: those that others start, why one waits, and a result that a click brings into sight."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from tests.app.examples import HEADROOM, MEASUREMENT, scenario, write_run
from tests.app.waiting import until
from tests.browser.conftest import OpenPage
from tests.browser.looking import query
from tests.browser.server import ROOT, Server

pytestmark = pytest.mark.browser

RUN_MS = 240_000
SEEN_MS = 120_000
"""A page looks every 3 s; the rest is for a busy machine."""

QUICK = {"benchmark": "precision", "device": "cpu"}
ENDLESS = {"scenario": scenario(), "device": "cpu", "steps": 100_000}

_TABS_CUT = """() => {
    const tabs = document.querySelector(".tabs");
    const { right } = tabs.getBoundingClientRect();
    const outside = [...tabs.querySelectorAll("a")].filter((tab) => tab.getBoundingClientRect().right > right + 1);
    return [...outside.map((tab) => tab.textContent), document.documentElement.scrollWidth - innerWidth];
}"""

_SCROLLS = """() => {
    globalThis.asked = [];
    const scroll = globalThis.scrollBy.bind(globalThis);
    globalThis.scrollBy = (to) => { asked.push(to.behavior); scroll({ ...to, behavior: "instant" }); };
}"""


def _post(server: Server, path: str, body: object) -> dict:
    kind = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(server.url + path, json.dumps(body).encode(), kind)) as answer:
        return json.load(answer)


def test_runs_of_another_tab_and_of_the_command_line_appear_by_themselves(open_page: OpenPage, server, tmp_path):
    page = open_page("/?view=runs")
    expect(page.locator("#run-list > *").first).to_be_visible()
    _post(server, "/api/runs", QUICK | {"label": "from another tab"})
    tab = page.locator(".run", has_text="from another tab")
    expect(tab).to_have_count(1, timeout=SEEN_MS)
    expect(tab.locator(".state")).to_have_text("ok", timeout=RUN_MS)

    job = tmp_path / "job.json"
    job.write_text(json.dumps(QUICK | {"label": "from the command line"}))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADROOM_")}
    command = [*HEADROOM, "run", str(job), "--data", str(server.data)]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        line = page.locator(".run", has_text="from the command line")
        expect(line).to_have_count(1, timeout=RUN_MS)
        expect(line.locator(".state")).to_have_text("ok", timeout=RUN_MS)
        process.communicate(timeout=60)
        assert process.returncode == 0
    line.locator(".name button").click()
    expect(page.locator("#run-tables h3").first).to_have_text("from the command line")


def test_a_long_queue_says_what_it_waits_for_and_leaves_the_page_its_connections(open_page: OpenPage, server):
    ids = [_post(server, "/api/runs", ENDLESS | {"label": f"endless {at}"})["id"] for at in range(8)]
    try:
        until(lambda: server.get(f"/api/runs/{ids[0]}")["state"] == "running")
        page = open_page("/?view=runs")
        meta = page.locator(".run .meta")
        expect(page.locator(f'[data-run="{ids[1]}"] .meta')).to_contain_text(
            "waits for endless 0; one runs at a time here"
        )
        expect(page.locator(f'[data-run="{ids[7]}"] .meta')).to_contain_text("7 before it; one runs at a time here")
        expect(meta.filter(has_text="one runs at a time here")).to_have_count(7)
        expect(page.locator(".tabs .count")).to_have_text("8")
        expect(page.locator("#runs section h3 + .sub").first).to_contain_text("1 at work, 7 queued")
        step = page.locator(f'[data-run="{ids[0]}"] .meta')
        before = step.inner_text()
        expect(step).not_to_have_text(before, timeout=SEEN_MS)
        assert page.evaluate("async () => (await fetch('/api/health', { signal: AbortSignal.timeout(5000) })).ok")
        for width in (700, 641, 390, 360, 320):
            page.set_viewport_size({"width": width, "height": 844})
            for view in ("studies", "runs"):
                page.evaluate("(view) => document.querySelector(`.tabs [data-view=${view}]`).click()", view)
                expect(page.locator(f'.tabs [aria-current][data-view="{view}"]')).to_be_visible()
                assert page.evaluate(_TABS_CUT) == [0], (width, view)
    finally:
        for run_id in reversed(ids):
            _post(server, f"/api/runs/{run_id}/cancel", {})
    expect(page.locator(".tabs .count")).to_have_count(0, timeout=SEEN_MS)


SPECIAL = {
    0: {"state": "failed", "measurement": None},
    1: {"measurement": replace(MEASUREMENT, device={"kind": "cpu", "name": "EPYC"})},
}


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A server with more runs than a screen holds, the last of which has no result."""
    data = tmp_path_factory.mktemp("many")
    for at in range(30):
        folder = write_run(data / "runs", f"r{at:02}", **SPECIAL.get(at, {}))
    (folder.parent / "r00" / "log").write_text("the last words\n")
    found = Server(data)
    yield found
    found.stop()


def _opened(page: Page, run_id: str) -> None:
    expect(page.locator(f'[data-run="{run_id}"] .name button')).to_have_attribute("aria-expanded", "true")
    expect(page.locator(f'[data-run="{run_id}"] + #run-opened')).to_be_visible()


@pytest.mark.parametrize("width", [1440, 390])
def test_a_click_brings_a_run_and_its_result_into_sight_and_a_reload_stays_where_it_was(open_page, many, width):
    page = open_page("/?view=runs", url=many.url, width=width)
    page.emulate_media(reduced_motion="no-preference")
    names = page.locator(".run .name button")
    expect(names).to_have_count(30)
    _whole_command_is_in_sight(page)
    page.evaluate(_SCROLLS)
    names.nth(26).evaluate("name => { name.scrollIntoView({ block: 'end' }); name.click(); }")
    _opened(page, "r03")
    result = page.locator("#run-result")
    expect(result.locator("tr.total")).to_be_in_viewport(ratio=1)
    expect(names.nth(26)).to_be_in_viewport(ratio=1)
    assert page.evaluate("asked") == ["smooth"]
    names.nth(4).evaluate("name => name.click()")  # far above what is open
    _opened(page, "r25")
    expect(result.locator("tr.total")).to_be_in_viewport(ratio=1)
    expect(names.nth(4)).to_be_in_viewport(ratio=1)
    names.nth(4).click()
    expect(page.locator("#run-opened")).to_be_hidden()
    assert query(page, "run") is None

    page.goto(f"{many.url}/?view=runs&run=r03")
    _opened(page, "r03")
    expect(result).not_to_be_in_viewport()
    assert page.evaluate("scrollY") == 0


def test_the_keyboard_opens_a_run_s_log_and_goes_on_into_it_without_motion_where_none_is_wanted(open_page, many):
    page = open_page("/?view=runs", url=many.url)
    page.emulate_media(reduced_motion="reduce")
    name = page.locator('[data-run="r00"] .name button')
    expect(name).to_be_visible()
    page.evaluate(_SCROLLS)
    name.focus()
    page.keyboard.press("Enter")
    _opened(page, "r00")
    log = page.get_by_label("Log", exact=True)
    expect(log).to_have_text("the last words\n")
    expect(log).to_be_in_viewport(ratio=1)
    expect(name).to_be_focused()
    assert page.evaluate("asked") == ["instant"]
    for _ in range(4):  # retry, clone, delete
        page.keyboard.press("Tab")
    expect(log).to_be_focused()


def test_a_run_on_another_chip_than_its_scenario_s_is_no_error_of_the_prediction(open_page, many):
    page = open_page("/?view=runs&run=r01", url=many.url)
    result = page.locator("#run-result")
    expect(result.locator("thead")).to_contain_text("difference")
    expect(result.locator(".hint")).to_contain_text("which the scenario names; this ran on EPYC.")
    expect(result.locator(".worse")).to_have_count(0)
    page.goto(f"{many.url}/?view=runs&run=r02")
    expect(result.locator("thead")).to_contain_text("error")
    expect(result.locator(".hint")).not_to_contain_text("this ran on")


def _whole_command_is_in_sight(page: Page) -> None:
    command = page.locator("#run-command")
    expect(command).to_contain_text("-m runners step")
    hidden = "box => [box.scrollHeight - box.clientHeight, box.scrollWidth - box.clientWidth]"
    assert command.evaluate(hidden) == [0, 0]
