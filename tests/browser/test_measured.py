"""A measured run stands beside the prediction of its own model and chip; what was disturbed is no error."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.browser.looking import bars, query, settled, side, wait_for_causes, wait_for_figures
from tests.browser.server import ROOT

pytestmark = pytest.mark.browser

_ANEW = """async (clock_hz) => {
    const { set, state } = await import(js("state"));
    const { catalog, scenario } = state;
    const before = (one) => ({ ...one, value: { ...one.value, clock_hz } });
    const chips = catalog.chips.map((one) => (one.key === scenario.cluster.chip ? before(one) : one));
    if (clock_hz === 2e9) document.activeElement.blur();
    set({ catalog: { ...catalog, chips, measuring: true } });
}"""

DELTA = "#tile-step-time dt b"


def test_a_run_on_another_chip_than_its_scenario_names_is_predicted_for_the_one_it_ran_on(open_page, drop):
    page = open_page("/?measured=none")
    wait_for_figures(page)
    drop(page, ROOT / "tests" / "reference" / "cpu_step" / "result.json")
    expect(side(page, "B")).to_contain_text("tiny step")
    expect(side(page, "A")).to_contain_text("predicted")
    assert (query(page, "chip"), query(page, "link")) == ("cpu", None)
    # a link that names the measurement alone opens it beside the plan that ran
    name = query(page, "measured")
    for link in ("/?measured=none", f"/?measured={name}"):
        page.evaluate(
            "(link) => (history.pushState(null, '', link), dispatchEvent(new PopStateEvent('popstate')))", link
        )
        settled(page)
    expect(side(page, "B")).to_contain_text("tiny step")
    assert (query(page, "chip"), query(page, "measured")) == ("cpu", name)
    page.select_option("#chip", "h200-sxm")
    # beside a prediction for another chip it is not drawn
    expect(page.locator("#ab .side", has_text="measured")).to_have_count(0)


def test_a_disturbed_measurement_shows_its_fastest_step_and_no_error(open_page, drop, tmp_path):
    sample = json.loads((ROOT / "app" / "samples" / "1-llama3.2-1b-ddp-4xh200.json").read_text())
    disturbed = {**sample, "id": "", "label": "disturbed", "steps_s": [0.53, 0.17, 0.35]}
    (tmp_path / "disturbed.json").write_text(json.dumps(disturbed))
    page = open_page()
    wait_for_figures(page)
    wait_for_causes(page)
    expect(page.locator(DELTA)).to_contain_text("%")

    # nor is a prediction for a chip whose peaks are doubted an error
    page.evaluate(
        """async () => {
            const { set, state } = await import(js("state"));
            const doubts = { [state.scenario.cluster.chip]: "Measured while other programs left 11 % of it." };
            set({ catalog: { ...state.catalog, doubts }, theme: state.theme + 1 });
        }"""
    )
    expect(page.locator(DELTA)).to_have_text("chip was busy")
    expect(page.locator("#step-time .hint")).to_contain_text("left 11 % of it")
    expect(page.locator("#step-time .causes li")).to_have_count(0)
    expect(page.locator(".remedies")).to_be_hidden()
    # what is said of a pair goes with it, and comes with the next
    button, hint = page.get_by_role("button", name="Measure this CPU again"), page.locator("#step-time .hint")
    page.evaluate(
        """async () => {
            const { set, state } = await import(js("state"));
            globalThis.pairBefore = state.pair;
            const [a, b] = ["a", "b"].map((side) => ({ ...state.pair[side], step_s: null }));
            set({ pair: { ...state.pair, a, b } });
        }"""
    )
    expect(hint).to_be_hidden()
    expect(button).to_have_count(0)
    # where it could not be measured, the panel says why and has the button
    page.evaluate(
        """async () => {
            const { set, state } = await import(js("state"));
            const failed = { key: "cpu", label: "This CPU", state: "failed", message: "the probe ended with 1" };
            set({ pair: globalThis.pairBefore, catalog: { ...state.catalog, pending: [failed] } });
        }"""
    )
    panel = page.locator("section", has=page.locator("#chip"))
    expect(panel.get_by_text("the probe ended with 1")).to_be_visible()
    expect(panel.get_by_role("button", name="Measure this CPU again")).to_be_visible()
    page.evaluate(
        """async () => {
            const { set, state } = await import(js("state"));
            set({ catalog: { ...state.catalog, pending: [] } });
        }"""
    )
    expect(panel.get_by_role("button", name="Measure this CPU again")).to_have_count(0)
    measuring = page.get_by_role("button", name="Measuring this CPU again")
    for _ in range(300):  # it is not begun beside a run of this machine, and other tests run some
        with page.expect_response("**/api/this-cpu") as answered:
            button.click()
        if answered.value.json()["measuring"]:
            break
        page.wait_for_timeout(200)
    expect(measuring).to_be_disabled()
    # what was predicted for another chip than the server has by now is said to be of before where somebody is typing,
    # and shown anew at once where this page asked for it
    page.locator("#chips").focus()
    page.evaluate(_ANEW, 1e9)
    expect(page.locator("#kept")).to_contain_text("This CPU was measured anew")
    expect(page.get_by_role("button", name="Show it anew")).to_be_visible()
    with page.expect_navigation():
        page.evaluate(_ANEW, 2e9)

    drop(page, tmp_path / "disturbed.json")
    expect(page.locator("#step-time .hint")).to_have_text("Disturbed: 3 steps differ by 3.1×; the fastest is shown.")
    settled(page)
    expect(page.locator("#tile-step-time dd > b")).to_have_text("170")
    expect(page.locator(DELTA)).to_have_text("disturbed")
    expect(page.locator("#step-time .sub")).to_contain_text("disturbed, repeat")
    expect(page.locator("#step-time .causes li")).to_have_count(0)
    assert bars(page)
    page.goto(page.url + ("&" if "?" in page.url else "?") + "view=measurements")
    # whatever was measured on this machine may have been disturbed as much
    line = page.locator("#items tr", has=page.get_by_role("button", name="disturbed", exact=True))
    expect(line).to_contain_text("disturbed 3.1×")
    assert line.locator(".better, .worse").count() == 0
