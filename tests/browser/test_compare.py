"""Compare: measurements and pinned scenarios side by side, with a baseline, deltas and what differs."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.looking import EIGHT_GPUS, expect_view, number, query, side, wait_for_figures

pytestmark = pytest.mark.browser


def test_pinned_scenarios_are_compared_against_a_chosen_baseline(open_page):
    page = open_page(EIGHT_GPUS + "&measured=none")
    wait_for_figures(page)
    page.get_by_role("button", name="Pin this plan").click()
    page.get_by_role("radio", name="full", exact=True).check(force=True)
    page.keyboard.press("3")
    expect_view(page, "compare")
    rows = page.locator("#compared tbody tr")
    expect(rows).to_have_count(2)
    expect(page.locator("#differences")).to_contain_text("plan.recompute")
    expect(page.locator("#differences tbody tr")).to_have_count(1)
    shown, pinned = (number(rows.nth(at).locator("td").nth(3).inner_text()) for at in (0, 1))
    change = number(rows.nth(1).locator("td").nth(4).inner_text().split()[-2])
    assert change == pytest.approx(100 * (pinned / shown - 1), abs=0.7)
    page.wait_for_function("() => document.querySelectorAll('#compare-time .barlayer .point').length >= 8")

    page.get_by_role("radio", name="Baseline").nth(1).check()
    expect(rows.nth(0).locator("td").nth(4)).to_contain_text("%")
    assert query(page, "baseline") == "1"
    page.reload()
    expect(page.get_by_role("radio", name="Baseline").nth(1)).to_be_checked()


def test_measurements_are_picked_from_the_list(open_page, server, drop, measured):
    page = open_page("/?view=compare&measured=none")
    expect_view(page, "compare")
    drop(page, measured / "result.json")
    expect(side(page, "B")).to_contain_text("tiny step")
    first = next(one for one in server.get("/api/measurements")["measurements"] if one["label"] == "tiny step")
    page.goto(f"{server.url}/?view=compare&measured=none")
    line = page.locator(f'.library [data-measurement="{first["id"]}"]')
    line.get_by_role("checkbox").check()
    row = page.locator("#compared tbody tr", has_text="measured")
    expect(row).to_contain_text(first["label"])
    expect(page.locator("#details")).to_contain_text("kernels")
    page.get_by_label("Filter measurements").fill("no such name")
    expect(page.locator(".library")).to_contain_text("Nothing has that name.")
    page.get_by_label("Filter measurements").fill("")
    line.get_by_role("checkbox").uncheck()
    expect(row).to_have_count(0)


def test_a_pin_that_is_gone_does_not_hide_the_others(open_page):
    page = open_page("/?view=compare&measured=none&pin=m:gone", refusals=(404, 422))
    expect(page.locator("#compare .notice")).to_contain_text("1 pinned item cannot be compared")
    expect(page.locator("#compared tbody tr")).to_have_count(1)


def test_explore_s_scenario_can_be_taken_out_and_brought_back(open_page):
    page = open_page(EIGHT_GPUS + "&view=compare&measured=none&pin=s:recompute%3Dfull")
    rows = page.locator("#compared tbody tr")
    expect(rows).to_have_count(2)
    rows.nth(0).get_by_role("button", name="Take out").click()
    expect(rows).to_have_count(1)
    assert query(page, "shown") == "false"
    page.reload()
    expect(rows).to_have_count(1)
    rows.nth(0).get_by_role("button", name="Take out").click()
    expect(page.locator("#compared")).to_contain_text("Nothing is compared")
    page.get_by_role("button", name="Add Explore's scenario").click()
    expect(rows).to_have_count(1)


def test_folded_notices_of_imports_can_be_opened(open_page, drop, tmp_path):
    page = open_page("/?view=compare&measured=none", refusals=(415, 422))
    expect_view(page, "compare")
    for index in range(4):
        file = tmp_path / f"nothing{index}.txt"
        file.write_text(f"no table here {index}")
        drop(page, file)
        expect(page.locator(".tray .import.failed")).to_have_count(index + 1)
    folded = page.locator(".tray .import.folded")
    expect(folded).to_have_count(1)
    title = folded.locator(".title")
    expect(title).to_have_attribute("aria-expanded", "false")
    title.click()
    expect(folded).to_have_count(0)
    expect(page.locator(".tray .import", has_text="nothing0.txt")).to_contain_text("Not imported")


def test_both_figures_have_the_legend_of_their_colours(open_page):
    page = open_page(EIGHT_GPUS + "&view=compare")
    for card, kinds in (("#compare-time", ("matmul", "attention")), ("#compare-memory", ("parameters", "activations"))):
        for kind in kinds:
            expect(page.locator(f"{card} .legend")).to_contain_text(kind)


def test_the_bundled_sample_leaves_when_something_is_chosen(open_page, server):
    sample = server.get("/api/catalog")["sample"]["measurement_id"]
    bundled = [one["id"] for one in server.get("/api/measurements")["measurements"] if one["bundled"]]
    other = next(one for one in bundled if one != sample)
    page = open_page("/?view=compare")
    rows = page.locator("#compared tbody tr")
    box = page.locator(f'.library [data-measurement="{sample}"]').get_by_role("checkbox")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("measured")
    page.locator(f'.library [data-measurement="{other}"]').get_by_role("checkbox").check()
    expect(rows).to_have_count(2)
    label = next(one["label"] for one in server.get("/api/measurements")["measurements"] if one["id"] == other)
    expect(rows.nth(1)).to_contain_text(label)
    # who wants it beside the others chooses it
    expect(box).not_to_be_checked()
    box.check()
    expect(rows).to_have_count(3)


def test_another_model_or_chip_leaves_the_bundled_sample_behind(open_page):
    page = open_page()
    wait_for_figures(page)
    measured = page.locator("#ab .side", has_text="measured")
    expect(measured).to_have_count(1)
    page.select_option("#chip", "h100-sxm")
    # the plan on the chip that was left stays as A
    expect(measured).to_have_count(0)
    expect(side(page, "A")).to_contain_text("H200")
    expect(side(page, "B")).to_contain_text("H100 SXM")
    assert query(page, "measured") == "none"
    page.go_back()
    expect(measured).to_have_count(1)
    page.select_option("#model", "gpt2")
    expect(measured).to_have_count(0)
    expect(side(page, "B")).to_contain_text("choose B")
    page.keyboard.press("3")
    expect(page.locator("#compared tbody tr")).to_have_count(1)
    page.keyboard.press("1")
    page.get_by_role("button", name="Back to the sample").click()
    expect(measured).to_have_count(1)
