"""Search: runs by itself, tells how far it is, can be cancelled, and opens what it found in Explore."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import LOOKS
from tests.browser.looking import EIGHT_GPUS, expect_view, headline, number, query, settled, turn, wait_for_figures

pytestmark = pytest.mark.browser

SEARCH = EIGHT_GPUS + "&view=search&measured=none"
WIDE = SEARCH.replace("nodes=1", "nodes=128").replace("dp=8", "dp=1024").replace("global_batch=64", "global_batch=2048")
LARGE = SEARCH
for then, now in {"llama3-8b": "llama3-70b", "nodes=1": "nodes=4", "dp=8": "dp=32", "fsdp": "ddp"}.items():
    LARGE = LARGE.replace(then, now)
COUNTS = "#search-status .counts"


def test_the_best_plan_opens_in_explore_with_the_same_step_time(open_page):
    page = open_page(SEARCH)
    expect(page.locator(COUNTS)).to_contain_text("per second")
    rows = page.locator("#best-plans tbody tr")
    expect(rows).to_have_count(10)
    found = rows.nth(0).locator("td").nth(1).inner_text()
    rows.nth(0).get_by_role("button").click()
    expect_view(page, "explore")
    wait_for_figures(page)
    assert headline(page)[0].split() == found.split()
    assert query(page, "model") == "llama3-8b"
    page.go_back()
    expect_view(page, "search")
    expect(rows).to_have_count(10)


def test_gpu_hours_are_those_of_a_billion_tokens_and_no_objective_of_their_own_and_nothing_overflows(open_page):
    page = open_page(SEARCH)
    row = page.locator("#best-plans tbody tr").first
    expect(row).to_be_visible()
    expect(page.locator("#best-plans th").last).to_have_text("GPU-hours per 10⁹ tokens")
    tokens_per_s, hours = (row.locator("td").nth(at).inner_text() for at in (2, 5))
    assert tokens_per_s.endswith("k")
    assert number(hours) == pytest.approx(8 * 1e9 / (1e3 * number(tokens_per_s)) / 3600, rel=0.01)
    # the number of chips is given: they sort as the step time does
    expect(page.locator("#search fieldset").get_by_role("radio")).to_have_count(2)
    for look in LOOKS:
        turn(page, look)
        settled(page)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page = open_page(SEARCH + "&objective=cost")
    expect(page.get_by_role("radio", name="step time")).to_be_checked()


def test_plans_that_tie_are_one_row_with_the_number_of_the_others(open_page):
    page = open_page("/?view=search")
    rows = page.locator("#best-plans tbody tr")
    expect(rows).to_have_count(10)
    found = page.evaluate(
        """async () => {
            const { api } = await import(js("api"));
            const { specification } = await import(js("sweeping"));
            const { state } = await import(js("state"));
            let last = null;
            const asked = specification(state.scenario, state.wanted, state.catalog.fields);
            await api.sweep(asked, (line) => (last = line), new AbortController().signal);
            return last.result.best.map((one) => [one.step_time_s, one.peak_bytes, one.ties]);
        }"""
    )
    assert len({(seconds, peak) for seconds, peak, _ in found}) == len(found)
    assert any(ties for _, _, ties in found)
    for at, (_, _, ties) in enumerate(found):
        text = f"+ {ties} other{'s that tie' if ties > 1 else ' that ties'}"
        expect(rows.nth(at).locator(".ties")).to_have_text([text] if ties else [])


def test_a_point_of_the_front_opens_its_plan(open_page):
    page = open_page(SEARCH)
    page.wait_for_selector("#front .scatterlayer .point", state="attached")
    settled(page)
    last = page.locator("#front-plans tbody tr").last
    wanted = last.locator("td").nth(4).inner_text()
    fraction = page.evaluate(
        """() => {
            const plot = document.querySelector("#front .plot");
            plot.scrollIntoView({ block: "center" });
            const { xaxis, yaxis } = plot._fullLayout;
            const { x, y } = plot.data[0];
            const box = plot.getBoundingClientRect();
            const at = x.length - 1;
            return [box.left + xaxis._offset + xaxis.d2p(x[at]), box.top + yaxis._offset + yaxis.d2p(y[at])];
        }"""
    )
    page.mouse.move(*fraction)
    expect(page.locator("#front .hoverlayer .hovertext")).to_be_visible()
    page.mouse.click(*fraction)
    expect_view(page, "explore")
    wait_for_figures(page)
    assert number(headline(page)[3]) == pytest.approx(number(wanted), rel=0.01)


def test_a_present_plan_that_needs_many_times_the_memory_stands_at_the_edge_with_its_value(open_page):
    page = open_page(LARGE)
    expect(page.locator(COUNTS)).to_contain_text("per second")
    page.locator("#front").scroll_into_view_if_needed()
    page.wait_for_selector("#front .scatterlayer .point", state="attached")
    settled(page)
    present_bytes, [low, high], shown, capacity, tallest = page.evaluate(
        """async () => {
            const { state } = await import(js("state"));
            const { data, _fullLayout: { yaxis } } = document.querySelector("#front .plot");
            const { peak_bytes, capacity_bytes } = state.estimate.memory;
            return [peak_bytes, yaxis.range, data[2].y[0] * 1e9, capacity_bytes, Math.max(...data[0].y) * 1e9];
        }"""
    )
    assert present_bytes > 5 * capacity
    assert (low, high * 1e9) == (0, pytest.approx(1.08 * max(capacity, tallest)))
    assert shown == pytest.approx(high * 1e9)
    expect(page.locator("#front .annotation", has_text="present plan")).to_contain_text(
        f"{present_bytes / 1e12:.2f} TB"
    )


def test_objective_limits_and_locked_fields_are_in_the_url(open_page):
    page = open_page(SEARCH)
    expect(page.locator("#best-plans tbody tr")).to_have_count(10)
    page.get_by_role("radio", name="memory").check(force=True)
    page.get_by_label("Lock a field of the plan").select_option("tp")
    page.get_by_label("Value of tp").fill("2")
    page.get_by_role("button", name="Lock", exact=True).click()
    page.get_by_label("Slowest step, s").fill("30")
    page.get_by_label("Slowest step, s").press("Enter")
    expect(page.locator("#best-plans")).to_contain_text("by memory")
    assert (query(page, "objective"), query(page, "lock"), query(page, "slowest_s")) == ("memory", "tp=2", "30")
    settled(page)
    expect(page.locator("#best-plans tbody tr").first.get_by_role("button")).to_contain_text("tp 2")
    page.reload()
    expect(page.locator(".locked .chip")).to_contain_text("tp")
    expect(page.get_by_role("radio", name="memory")).to_be_checked()
    page.get_by_role("button", name="Unlock tp 2").click()
    assert query(page, "lock") is None


def test_what_cannot_be_locked_or_fit_is_said(open_page):
    page = open_page(SEARCH + "&lock=tp%3D0", refusals=(422,))
    expect(page.locator("#search .notice")).to_contain_text("cannot be searched")
    expect(page.locator("#search .panel .problem")).to_contain_text("tp")
    page.get_by_role("button", name="Unlock tp 0").click()
    page.get_by_label("Memory per chip, GB").fill("1")
    page.get_by_label("Memory per chip, GB").press("Enter")
    expect(page.locator("#search .notice")).to_contain_text("No plan fits")


def test_plans_of_an_older_search_are_dimmed_behind_a_refusal(open_page):
    page = open_page(SEARCH, refusals=(422,))
    expect(page.locator("#best-plans tbody tr")).to_have_count(10)
    page.get_by_label("Value of dp").fill("0")
    page.get_by_role("button", name="Lock", exact=True).click()
    expect(page.locator("#search .notice")).to_contain_text("cannot be searched")
    expect(page.locator("#search main")).to_have_class("dim")
    page.get_by_role("button", name="Unlock dp 0").click()
    expect(page.locator(COUNTS)).to_contain_text("per second")
    expect(page.locator("#search main")).not_to_have_class("dim")


def test_a_long_search_tells_how_far_it_is_and_can_be_cancelled(open_page):
    page = open_page(WIDE)
    expect(page.locator(COUNTS)).to_contain_text("plans tried")
    expect(page.locator("#search .progress")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(COUNTS)).to_have_text("Cancelled.")
    expect(page.locator("#search .progress")).to_be_hidden()
    # The server stopped too: the next search does not wait for it.
    page.get_by_label("Chips", exact=True).fill("8")
    page.get_by_label("Chips", exact=True).press("Enter")
    expect(page.locator(COUNTS)).to_contain_text("per second")
