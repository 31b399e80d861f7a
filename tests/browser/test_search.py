"""Search: runs by itself, tells how far it is, can be cancelled, and opens what it found in Explore."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from estimator.search.specification import OBJECTIVES
from tests.browser.conftest import LOOKS
from tests.browser.looking import (
    EIGHT_GPUS,
    expect_view,
    headline,
    number,
    query,
    settled,
    side,
    turn,
    wait_for_figures,
)

pytestmark = pytest.mark.browser

SEARCH = EIGHT_GPUS + "&view=search&measured=none"
WIDE = SEARCH.replace("nodes=1", "nodes=128").replace("dp=8", "dp=1024").replace("global_batch=64", "global_batch=2048")
LARGE = SEARCH
for then, now in {"llama3-8b": "llama3-70b", "nodes=1": "nodes=4", "dp=8": "dp=32", "fsdp": "ddp"}.items():
    LARGE = LARGE.replace(then, now)
COUNTS = "#search-status .counts"
ROWS = "#best-plans tr.opens"
_GROUPS = """() => [...document.querySelectorAll("#best-plans tr")].reduce((found, row) => {
  if (row.classList.contains("group")) found.push([row.textContent.trim(), 0]);
  else if (found.length && row.classList.contains("opens")) found.at(-1)[1] += 1;
  return found;
}, [])"""


def test_the_best_plan_opens_in_explore_with_the_same_step_time(visit):
    page = visit(SEARCH)
    expect(page.locator(COUNTS)).to_contain_text("per second")
    expect(page.locator(COUNTS)).to_contain_text("All with bf16 amp, SDPA attention, PyTorch eager.")
    expect(page.locator(".search-form")).to_contain_text("Every plan: bf16 amp, SDPA attention, PyTorch eager.")
    rows = page.locator(ROWS)
    expect(rows.first).to_be_visible()
    settled(page)  # what a search still finds replaces the rows, and a click between two of them is none
    # a group has as many rows as its head says; what is behind it is not of it
    groups = page.evaluate(_GROUPS)
    assert groups
    assert all(int(head.split()[0]) == count for head, count in groups if head[0].isdigit()), groups
    found = rows.nth(0).locator("td").nth(2).inner_text()
    risk = re.search(r"OOM risk \d+ %", page.locator("#search-status .answer").inner_text())
    assert risk, "the quickest plan here nearly fills its chips"
    rows.nth(0).get_by_role("button").click()
    expect_view(page, "explore")
    wait_for_figures(page)
    assert headline(page)[0].split() == found.split()
    expect(page.locator("#tile-peak-memory")).to_contain_text(risk[0])
    assert query(page, "model") == "llama3-8b"
    page.go_back()
    expect_view(page, "search")
    expect(rows.first).to_be_visible()


def test_the_cheapest_plan_within_days_on_a_range_of_chips_is_told_and_what_would_do_where_none_is(visit):
    page = visit(SEARCH)
    expect(page.locator(COUNTS)).to_contain_text("per second")
    for days, said in (("20", True), ("", False)):
        page.get_by_label("Within, days").fill(days)
        page.get_by_label("Within, days").press("Enter")
        asked = "Days were not asked for: they need the tokens of the run."
        (expect(page.locator(COUNTS)).to_contain_text if said else expect(page.locator(COUNTS)).not_to_contain_text)(
            asked
        )
    page.locator("#search-tokens").fill("10 B")
    page.locator("#search-tokens").press("Enter")
    page.get_by_label("Chip-hour, $").fill("2")
    page.get_by_label("Chip-hour, $").press("Enter")
    page.get_by_role("radio", name="price").check(force=True)
    expect(page.locator(COUNTS)).to_contain_text("tried on 8, 4, 2 and 1 chips, no other number,")
    page.get_by_label("Chips, at least").fill("4")
    page.get_by_label("Chips, at least").press("Enter")
    expect(page.locator(COUNTS)).to_contain_text("tried on 8 and 4 chips, no other number,")
    # a range that holds no number is refused at its field, until one of its ends is another
    page.get_by_label("Chips, at least").fill("64")
    page.get_by_label("Chips, at least").press("Enter")
    refused = "At least 64 and at most 8 chips leave no number of them: raise the most or lower the least."
    expect(page.locator("#search .search-form .problem")).to_have_text(f"Refused: 64. {refused}")
    expect(page.locator("#search .notice")).to_contain_text(refused)
    page.get_by_label("Chips, at least").fill("4")
    page.get_by_label("Chips, at least").press("Enter")
    expect(page.locator("#search .search-form .problem")).to_have_count(0)
    expect(page.locator("#search .notice")).to_have_count(0)
    page.get_by_label("Within, days").fill("20")
    page.get_by_label("Within, days").press("Enter")
    expect(page.locator("#search-status h3")).to_have_text("Cheapest")
    settled(page)
    told = dict(
        page.locator("#search-status .answer > div").evaluate_all(
            "all => all.map((one) => [...one.children].slice(0, 2).map((part) => part.textContent))"
        )
    )
    hours = number(told["GPU-hours"])
    assert hours == pytest.approx(24 * number(told["time"]) * number(told["chips"]), rel=0.02)
    assert number(told["price"]) == pytest.approx(2 * hours, rel=0.02)
    best = page.locator(ROWS).first.locator("td").all_inner_texts()
    assert number(best[5]) == hours
    assert len(page.evaluate("document.querySelector('#front .plot').data.map(({ name }) => name)")) == 4
    assert query(page, "least_chips") == "4"
    for look in LOOKS:
        turn(page, look)
        settled(page)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.get_by_role("button", name="What to search").click()
    page.get_by_label("Within, days").fill("0.5")
    page.get_by_label("Within, days").press("Enter")
    expect(page.locator("#search .notice")).to_contain_text("No plan takes 0.5 days or less")
    expect(page.locator("#search .notice")).to_contain_text("more chips would have little to divide")
    expect(page.locator("#search .notice button")).to_have_text([re.compile(r"Take [\d\s]+ sequences")])
    expect(page.locator("#search-status h3")).to_have_text("Quickest, yet too slow")
    # what was said of fewer days is not said of any number of them
    page.get_by_label("Within, days").fill("")
    page.get_by_label("Within, days").press("Enter")
    expect(page.locator("#search-status h3")).not_to_have_text("Quickest, yet too slow")
    expect(page.locator("#search .notice")).to_have_count(0)


def test_the_whole_of_a_row_is_lit_under_the_mouse(visit):
    page = visit(SEARCH)
    settled(page)
    page.locator(ROWS).nth(1).hover()
    # a search that goes on puts other rows in its place: any that is under the mouse is lit
    page.wait_for_function(
        """(rows) => {
            const row = document.querySelector(`${rows}:hover`);
            if (!row) return false;
            const colour = (element) => getComputedStyle(element).backgroundColor;
            const colours = new Set([...row.children].map(colour));
            return colours.size === 1 && !colours.has(colour(document.querySelector(".card")));
        }""",
        arg=ROWS,
    )


def test_a_cell_of_the_heatmap_opens_its_plan_as_b(open_page):
    page = open_page(SEARCH + "&cells=tp-recompute")
    page.wait_for_selector("#cells .barlayer .point path", state="attached")
    settled(page)
    box = page.locator("#cells .barlayer .point path").last.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    words = page.locator("#cells .hoverlayer .hovertext")
    expect(words).to_be_visible()
    recompute = re.search(r"Recompute (none|selective|full)", words.text_content())[1]
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect_view(page, "explore")
    wait_for_figures(page)
    found = page.evaluate("async () => (await import(js('state'))).state.scenario.plan.recompute")
    assert found == recompute
    expect(side(page, "B")).to_contain_text("predicted")


def test_a_point_of_the_front_opens_its_plan(visit):
    page = visit(SEARCH)
    page.wait_for_selector("#front .scatterlayer .point", state="attached")
    settled(page)
    *fraction, wanted = page.evaluate(
        """() => {
            const plot = document.querySelector("#front .plot");
            plot.scrollIntoView({ block: "center" });
            const { xaxis, yaxis } = plot._fullLayout;
            const { x, y } = plot.data[0];
            const box = plot.getBoundingClientRect();
            const at = x.length - 1;
            return [box.left + xaxis._offset + xaxis.d2p(x[at]), box.top + yaxis._offset + yaxis.d2p(y[at]), y[at]];
        }"""
    )
    page.mouse.move(*fraction)
    expect(page.locator("#front .hoverlayer .hovertext")).to_be_visible()
    page.mouse.click(*fraction)
    expect_view(page, "explore")
    wait_for_figures(page)
    assert number(headline(page)[3]) == pytest.approx(wanted, rel=0.01)


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
            return [peak_bytes, yaxis.range, data.at(-1).y[0] * 1e9, capacity_bytes, Math.max(...data[0].y) * 1e9];
        }"""
    )
    assert present_bytes > 5 * capacity
    assert (low, high * 1e9) == (0, pytest.approx(1.08 * max(capacity, tallest), rel=0.05))
    assert shown <= high * 1e9
    expect(page.locator("#front .annotation", has_text="present plan")).to_contain_text(
        f"{present_bytes / 1e12:.2f} TB"
    )


def test_objective_limits_and_locked_fields_are_in_the_url(visit):
    page = visit(SEARCH)
    expect(page.locator(ROWS).first).to_be_visible()
    offered = page.locator("#search input[name=objective]").evaluate_all("all => all.map((one) => one.value)")
    assert tuple(offered) == OBJECTIVES, "chip time is ordered as time is on one number of chips"
    page.get_by_role("radio", name="memory").check(force=True)
    page.get_by_label("Lock a field of the plan").select_option("tp")
    page.get_by_label("Value of tp").fill("2")
    page.get_by_role("button", name="Lock", exact=True).click()
    page.get_by_label("Slowest step, s").fill("30")
    page.get_by_label("Slowest step, s").press("Enter")
    expect(page.locator("#search-status h3")).to_have_text("Least memory")
    assert (query(page, "objective"), query(page, "lock"), query(page, "slowest_s")) == ("memory", "tp=2", "30")
    settled(page)
    expect(page.locator(ROWS).first.get_by_role("button")).to_contain_text("tp 2")
    page.reload()
    expect(page.locator(".locked .chip")).to_contain_text("tp")
    expect(page.get_by_role("radio", name="memory")).to_be_checked()
    page.get_by_role("button", name="Unlock tp 2").click()
    assert query(page, "lock") is None


def test_what_cannot_be_locked_or_fit_is_said(visit):
    page = visit(SEARCH + "&lock=tp%3D0", refusals=(422,))
    expect(page.locator("#search .notice")).to_contain_text("cannot be searched")
    problem = page.locator("#search .panel .problem:visible")
    expect(problem).to_contain_text("tp")
    page.get_by_role("button", name="Unlock tp 0").click()
    page.get_by_label("Memory per chip, GB").fill("1")
    page.get_by_label("Memory per chip, GB").press("Enter")
    expect(page.locator("#search .notice")).to_contain_text("No plan fits")
    # nothing was tried in the host's memory unless it is asked for, which the answer says
    page.get_by_role("button", name="Offload the optimizer").click()
    expect(page.get_by_role("button", name="Unlock Offload to host memory optimizer")).to_be_visible()
    expect(page.locator("#search .notice")).not_to_contain_text("host's memory")
    # a number that cannot be is refused where it was typed, and the one before stays
    for name, typed, why in (
        ("chips", "-3", "A whole number of at least 1 is needed."),
        ("least", "1.5", "A whole number of at least 1 is needed."),
        ("batch", "0", "A whole number of at least 1 is needed."),
        ("days", "-1", "A number above 0 is needed, or none."),
        ("usd", "1e30", "A chip-hour costs from 0 to 10 000 dollars."),
        ("tokens", "many", "A number of tokens is needed, as in 300 B or 1 T."),
    ):
        box = page.locator(f"#search-{name}")
        before = box.input_value()
        box.fill(typed)
        box.blur()
        expect(problem).to_have_text(f"Refused: {typed}. {why}")
        box.fill(before)
        box.press("Enter")
        expect(problem).to_have_count(0)


CUT = """() => [...document.querySelectorAll("#search main select")].filter((one) => {
    const [style, on] = [getComputedStyle(one), document.createElement("canvas").getContext("2d")];
    on.font = `${style.fontSize} ${style.fontFamily}`;
    const room = one.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - ARROW_PX;
    return one.clientWidth && on.measureText(one.selectedOptions[0].text).width > room;
}).map((one) => one.getAttribute("aria-label"))""".replace("ARROW_PX", "18")


def test_the_batch_is_said_to_be_explore_s_and_one_press_takes_a_usual_one(visit):
    page = visit("/?view=search&model=llama3.2-1b&chip=h200-sxm&chips_per_node=4&dp=4&seq_len=2048&global_batch=16")
    expect(page.locator(ROWS).first).to_be_visible()
    expect(page.locator("#cells .sub")).to_have_text("step time; click opens as B")
    words = page.locator("#search .search-form .hint").first
    expect(words).to_have_text("32.8 k tokens a step, the batch of the sample: take 256 sequences")
    page.set_viewport_size({"width": 390, "height": 844})
    settled(page)
    assert page.evaluate(CUT) == []
    page.set_viewport_size({"width": 1440, "height": 900})
    words.get_by_role("button").click()
    assert query(page, "global_batch") == "256"
    expect(words).to_have_text("524 k tokens a step, the batch of Explore", use_inner_text=True)


def test_plans_of_an_older_search_are_dimmed_behind_a_refusal(visit):
    page = visit(SEARCH, refusals=(422,))
    expect(page.locator(ROWS).first).to_be_visible()
    page.get_by_label("Value of dp").fill("0")
    page.get_by_role("button", name="Lock", exact=True).click()
    expect(page.locator("#search .notice")).to_contain_text("cannot be searched")
    expect(page.locator("#search main")).to_have_class("dim")
    expect(page.locator("#search-status .older")).to_have_text("of the search before")
    page.get_by_role("button", name="Unlock dp 0").click()
    expect(page.locator(COUNTS)).to_contain_text("per second")
    expect(page.locator("#search main")).not_to_have_class("dim")
    expect(page.locator("#search-status .older")).to_be_hidden()


def test_a_long_search_tells_how_far_it_is_and_can_be_cancelled(visit):
    page = visit(WIDE)
    expect(page.locator(COUNTS)).to_contain_text("plans tried")
    expect(page.locator("#search .progress")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(COUNTS)).to_have_text("Cancelled.")
    expect(page.locator("#search .progress")).to_be_hidden()
    # The server stopped too: the next search does not wait for it.
    page.get_by_label("Chips, at most").fill("8")
    page.get_by_label("Chips, at most").press("Enter")
    expect(page.locator(COUNTS)).to_contain_text("per second")
