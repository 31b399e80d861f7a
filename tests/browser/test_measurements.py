"""Measurements: plans and measurements as one table with a chart, to pick A and B from; what old links open."""

from __future__ import annotations

import csv
import io
import re

import pytest
from playwright.sync_api import expect

from tests.browser.looking import (
    EIGHT_GPUS,
    expect_view,
    number,
    query,
    settled,
    side,
    wait_for_causes,
    wait_for_figures,
)

pytestmark = pytest.mark.browser

ROWS = "#items tbody tr[data-item]"
RUN = "2-llama3.2-1b-bf16-h200"


def test_a_and_b_are_picked_from_a_table_that_is_sorted_grouped_filtered_and_in_the_url(visit):
    page = visit("/?view=measurements&pin=s:tp%3D2%26dp%3D2")
    rows = page.locator(ROWS)
    expect(page.locator('[data-item="plan"] .pick').first).to_have_attribute("aria-pressed", "true")
    plan = page.locator("[data-item^='s:']")
    expect(plan).to_contain_text("dp 2, tp 2")
    expect(plan).to_contain_text("predicted")
    expect(plan.locator(".worse")).to_contain_text("%")
    # of another model a step is shorter, not better
    other = rows.filter(has_text="CS336 xl, bf16")
    expect(other.locator("td").nth(4)).to_contain_text("%")
    expect(other.locator(".better, .worse")).to_have_count(0)
    page.get_by_role("button", name="step time").click()
    settled(page)
    steps = rows.locator("td:nth-child(4)").all_inner_texts()
    found = [number(text) * (1000 if re.search(r"\d\s*s\b", text) else 1) for text in steps if text != "–"]
    assert found == sorted(found)
    assert len(found) >= 5
    page.get_by_label("Group by").select_option("device")
    expect(page.locator("#items tr.group", has_text="NVIDIA H200 ·")).to_contain_text("median step")
    page.get_by_label("Chart: across").select_option("peak_bytes")
    page.wait_for_function("() => document.querySelector('#items-chart .plot').data?.[0].type === 'scatter'")
    assert (query(page, "sort"), query(page, "group"), query(page, "chart")) == (
        "step_s",
        "device",
        "step_s-peak_bytes",
    )
    page.get_by_label("Filter measurements").fill(RUN)
    expect(rows).to_have_count(1)
    with page.expect_download() as waiting:
        page.get_by_label("Plans and measurements: Save").click()
        page.get_by_role("button", name="Plans and measurements: download CSV").click()
    (saved,) = csv.DictReader(io.StringIO(waiting.value.path().read_text()))
    title = rows.locator("td:nth-child(4)").get_attribute("title")
    assert saved["step time (s)"] == title, "with full precision"
    rows.get_by_role("button", name="as B").click()
    expect(rows.get_by_role("button", name="as B")).to_have_attribute("aria-pressed", "true")
    page.reload()
    expect(rows).to_have_count(1)
    page.get_by_label("Filter measurements").fill("no such name")
    expect(page.locator("#items")).to_contain_text("Nothing has that name.")
    page.get_by_role("button", name="Open A | B").click()
    expect_view(page, "explore")
    expect(side(page, "B")).to_contain_text("bf16 on one H200")
    wait_for_causes(page)


def test_columns_are_chosen_and_pins_come_first(visit):
    page = visit("/?view=measurements")
    expect(page.locator(ROWS).first).to_be_visible()
    expect(page.locator("#items thead")).to_contain_text("MFU")
    page.locator(".columns summary").click()
    page.locator(".columns").get_by_label("MFU").uncheck()
    page.locator(".columns").get_by_label("precision").check()
    expect(page.locator("#items thead")).not_to_contain_text("MFU")
    expect(page.locator("#items thead")).to_contain_text("precision")
    page.locator(f'[data-item="m:{RUN}"]').get_by_role("button", name="Pin").click()
    expect(page.locator(ROWS).first).to_have_attribute("data-item", f"m:{RUN}")
    page.reload()
    expect(page.locator("#items thead")).to_contain_text("precision")
    expect(page.locator(ROWS).first).to_have_attribute("data-item", f"m:{RUN}")


def test_links_to_compare_open_the_table_and_its_ways_the_study(open_page):
    page = open_page(EIGHT_GPUS + f"&view=compare&measured=none&pin=m:gone&pin=m:{RUN}&baseline=1&shown=false")
    expect_view(page, "measurements")
    expect(page.locator(f'[data-item="m:{RUN}"]')).to_have_class("pinned")
    expect(page.locator(".toast")).to_have_count(0)
    page.goto(page.url.partition("?")[0] + "?view=compare&ranks=8")
    expect_view(page, "studies")
    expect(page.locator("#ways .sub")).to_contain_text("one of 8 chips")


def test_a_line_that_says_why_nothing_was_imported_unfolds(open_page, drop, tmp_path):
    page = open_page("/?view=measurements&measured=none", refusals=(415, 422), width=390)
    expect_view(page, "measurements")
    file = tmp_path / "nothing.txt"
    file.write_text("no table here")
    drop(page, file)
    line = page.locator(".kept .import.failed")
    expect(line).to_contain_text("Not imported")
    title = line.locator(".title")
    expect(title).to_have_attribute("aria-expanded", "false")
    folded_px = line.bounding_box()["height"]
    title.click()
    expect(title).to_have_attribute("aria-expanded", "true")
    assert line.bounding_box()["height"] >= folded_px
    sentence = line.locator("p")
    assert sentence.evaluate("(p) => p.scrollHeight <= p.clientHeight + 1"), "all of it is read"


def test_another_model_or_chip_leaves_the_bundled_sample_behind(visit):
    page = visit()
    wait_for_figures(page)
    measured = page.locator("#ab .side", has_text="measured")
    expect(measured).to_have_count(1)
    page.select_option("#chip", "h100-sxm")
    # the plan on the chip that was left stays as A
    expect(measured).to_have_count(0)
    expect(side(page, "A")).to_contain_text("H200")
    expect(side(page, "B")).to_contain_text("H100 SXM")
    assert query(page, "measured") == "none"
    # and goes on standing there, whatever the third edit is of; what has no price says so, and how it gets one
    kept = query(page, "a")
    page.get_by_role("radio", name="full", exact=True).check(force=True)
    page.select_option("#chip", "gh200")
    expect(side(page, "B")).to_contain_text("GH200")
    assert query(page, "a") == kept
    expect(page.locator("#tile-price")).to_contain_text("no price")
    expect(page.locator("#tile-price .edit")).to_have_attribute(
        "title", "The catalogue has no price of NVIDIA GH200 96 GB: give what one costs for an hour, in dollars."
    )
    page.select_option("#model", "gpt2")
    expect(side(page, "B")).to_contain_text("GPT-2")
    assert query(page, "a") == kept
    for _ in range(4):
        page.go_back()
    expect(measured).to_have_count(1)
    page.select_option("#model", "gpt2")
    expect(measured).to_have_count(0)
    expect(side(page, "B")).to_contain_text("choose B")
    assert query(page, "measured") == "none", "it does not come back with the next chip"
    page.get_by_role("button", name="Back to the sample").click()
    expect(measured).to_have_count(1)
