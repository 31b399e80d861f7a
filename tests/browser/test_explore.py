"""Explore: opens filled, sliders move the numbers and the figures, the URL holds the state, refusals say why."""

from __future__ import annotations

import csv
import io
import re

import pytest
from playwright.sync_api import Page, Request, expect

from tests.browser.looking import (
    EIGHT_GPUS,
    bars,
    expect_view,
    headline,
    number,
    points,
    query,
    settled,
    wait_for_axis,
    wait_for_change,
    wait_for_figures,
    wait_for_points,
)

pytestmark = pytest.mark.browser

TP = '[data-field="plan.tp"]'


def test_opens_filled_with_a_measured_run_beside_its_prediction(open_page, server):
    page = open_page()
    wait_for_figures(page)
    sample = server.get("/api/catalog")["sample"]
    assert sample, "no measured run is bundled"
    expect(page.locator(".pins .chip", has_text="measured")).to_be_visible()
    total = page.locator(".errors tr.total td")
    predicted, measured, error = (number(total.nth(at).inner_text()) for at in (1, 2, 3))
    assert error == pytest.approx(100 * (predicted / measured - 1), abs=1.5)
    wait_for_points(page, "predicted")
    assert len(points(page, "predicted")) > 5
    page.locator("#layers").scroll_into_view_if_needed()
    expect(page.locator("#layers tbody tr").nth(3)).to_be_visible()
    assert page.locator("#assumptions li").count() > 0


def test_tensor_parallel_by_keyboard_moves_numbers_figures_and_url(open_page):
    page = open_page(EIGHT_GPUS)
    wait_for_figures(page)
    wait_for_axis(page, "plan.tp")
    wait_for_points(page, "predicted")
    before = headline(page), bars(page), points(page, "predicted")
    slider = page.locator(f"{TP} input[type=range]")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => new URLSearchParams(location.search).get('tp') === '2'")
    settled(page)
    after = headline(page), bars(page), points(page, "predicted")
    assert all(old != new for old, new in zip(before, after, strict=True))
    expect(page.locator(f"{TP} input[type=number]")).to_have_value("2")
    expect(slider).to_have_attribute("aria-valuetext", "Tensor parallel 2 ranks")
    # the number of GPUs stays, dp gives way
    expect(page.locator('[data-field="plan.dp"] input[type=number]')).to_have_value("4")

    page.reload()
    wait_for_figures(page)
    wait_for_axis(page, "plan.tp")
    settled(page)
    assert (headline(page), bars(page)) == after[:2]
    expect(page.locator(f"{TP} input[type=number]")).to_have_value("2")

    page.go_back()
    expect(page.locator(f"{TP} input[type=number]")).to_have_value("1")
    settled(page)
    assert headline(page) == before[0]
    page.go_forward()
    expect(page.locator(f"{TP} input[type=number]")).to_have_value("2")


def test_tensor_parallel_by_mouse_is_drawn_while_it_is_dragged_without_asking_the_server(open_page):
    page = open_page(EIGHT_GPUS)
    wait_for_figures(page)
    wait_for_axis(page, "plan.tp")
    page.wait_for_load_state("networkidle")
    asked: list[str] = []

    def note(request: Request) -> None:
        # The curves of the other sliders may still be coming.
        if "/api/estimate" in request.url and '"field"' not in (request.post_data or ""):
            asked.append(request.url)
        if '"plan.tp"' in (request.post_data or ""):
            asked.append(request.url)

    page.on("request", note)
    slider = page.locator(f"{TP} input[type=range]")
    box = slider.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    seen = []
    page.mouse.move(box["x"] + 8, middle)
    page.mouse.down()
    for part in range(21):
        page.mouse.move(box["x"] + 8 + part / 20 * (box["width"] - 16), middle)
        page.wait_for_timeout(30)
        seen.append((page.locator(f"{TP} input[type=number]").input_value(), headline(page)[0], tuple(bars(page))))
    assert asked == []
    expect(page.locator("#tile-step-time")).to_contain_text("vs before")
    page.mouse.up()
    degrees = list(dict.fromkeys(value for value, _, _ in seen))
    assert degrees[:3] == ["1", "2", "4"]
    assert len({step for _, step, _ in seen}) == len({bar for _, _, bar in seen}) == len(degrees)
    assert query(page, "tp") == degrees[-1]
    expect(page.locator("#tile-step-time")).not_to_contain_text("vs before")


def test_every_axis_has_its_curve_and_marks_what_does_not_fit(open_page):
    page = open_page(EIGHT_GPUS.replace("seq_len=4096", "seq_len=8192"))
    wait_for_figures(page)
    for path in ("plan.dp", "plan.tp", "plan.micro_batch", "training.seq_len", "training.global_batch"):
        wait_for_axis(page, path)
        curve = page.locator(f'[data-field="{path}"] polyline').get_attribute("points") or ""
        assert (
            len(curve.split()) == int(page.locator(f'[data-field="{path}"] input[type=range]').get_attribute("max")) + 1
        )
        expect(page.locator(f'[data-field="{path}"] .knob')).to_be_visible()
    assert page.locator('[data-field="training.seq_len"] .no-fit').count() > 0


def test_a_refused_value_is_shown_with_its_reason_and_changes_nothing(open_page):
    page = open_page(EIGHT_GPUS, refusals=(422,))
    wait_for_figures(page)
    wait_for_axis(page, "plan.tp")
    # The curves of other sliders redraw the panel as they come
    for path in ("plan.dp", "plan.pp", "plan.micro_batch", "training.seq_len", "training.global_batch"):
        wait_for_axis(page, path)
    page.wait_for_load_state("networkidle")
    settled(page)
    before = headline(page)
    box = page.locator(f"{TP} input[type=number]")
    box.fill("3")
    box.press("Enter")
    problem = page.locator(f"{TP} .problem")
    expect(problem).to_contain_text("3")
    expect(problem).to_contain_text("Choose")
    settled(page)
    assert headline(page) == before
    page.get_by_role("radio", name="interleaved").click(force=True)
    expect(page.locator('[data-field="plan.schedule"] .problem')).to_contain_text("not modelled")
    assert query(page, "schedule") != "interleaved"


def test_equal_reasons_of_refused_values_are_listed_once(open_page):
    page = open_page(EIGHT_GPUS)
    wait_for_figures(page)
    wait_for_axis(page, "plan.dp")
    field = page.locator('[data-field="plan.dp"]')
    button = field.get_by_role("button", name=re.compile("values refused"))
    number_of_values = int(number(button.inner_text()))
    button.click()
    texts = field.locator(".refusals > div").all_inner_texts()
    values = [value for text in texts for value in text.split(": ")[0].split(", ")]
    assert len(values) == number_of_values > len(texts)


def test_an_impossible_scenario_names_the_field_and_keeps_the_last_figures(open_page):
    page = open_page(EIGHT_GPUS, refusals=(422,))
    wait_for_figures(page)
    before = headline(page)
    page.evaluate("history.pushState(null, '', location.href.replace('global_batch=64', 'global_batch=3'))")
    page.evaluate("dispatchEvent(new PopStateEvent('popstate'))")
    expect(page.locator('[data-field="training.global_batch"] .problem')).to_contain_text("do not divide")
    expect(page.locator("#explore .notice")).to_contain_text("cannot be estimated")
    expect(page.locator("#explore main")).to_have_class("dim")
    assert headline(page) == before
    page.go_back()
    expect(page.locator("#explore .notice")).to_have_count(0)


def test_choices_model_and_chip_change_the_estimate(open_page):
    page = open_page(EIGHT_GPUS)
    wait_for_figures(page)
    seen = [headline(page)]
    for act in (
        lambda: page.get_by_role("radio", name="full", exact=True).check(force=True),
        lambda: page.select_option("#chip", "h100-sxm"),
        lambda: page.select_option("#model", "qwen3-8b"),
    ):
        act()
        wait_for_change(page, seen[-1][0])
        settled(page)
        seen.append(headline(page))
    assert (query(page, "recompute"), query(page, "chip"), query(page, "model")) == ("full", "h100-sxm", "qwen3-8b")
    expect(page.locator("#explore .panel")).to_contain_text("GQA 32/8")


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


def test_figures_have_table_csv_and_png(open_page):
    page = open_page(EIGHT_GPUS)
    wait_for_figures(page)
    card = page.locator("#memory")
    card.get_by_role("button", name="Table").click()
    expect(card.locator("table")).to_contain_text("activations")
    card.get_by_role("button", name="Table").click()
    with page.expect_download() as waiting:
        card.get_by_role("button", name="Memory: download CSV").click()
    rows = list(csv.reader(io.StringIO(waiting.value.path().read_text())))
    kinds = {row[0]: row[1] for row in rows[1:]}
    parts = sum(float(value) for kind, value in kinds.items() if kind not in ("peak", "reserved", "capacity"))
    assert parts == pytest.approx(float(kinds["peak"]))
    with page.expect_download() as waiting:
        card.get_by_role("button", name="Memory: download PNG").click()
    assert waiting.value.path().read_bytes().startswith(b"\x89PNG")


def test_keyboard_help_theme_and_link(open_page):
    page = open_page(EIGHT_GPUS)
    wait_for_figures(page)
    for key, name in (("2", "runs"), ("3", "compare"), ("1", "explore")):
        page.keyboard.press(key)
        expect_view(page, name)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).not_to_be_visible()
    page.keyboard.press("/")
    expect(page.locator("#model")).to_be_focused()
    page.get_by_role("button", name="Switch between light and dark").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark", "the choice is kept"
    wait_for_figures(page)
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator(".toast")).to_contain_text("copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    page.get_by_role("button", name="Copy JSON").click()
    assert '"model": "llama3-8b"' in page.evaluate("navigator.clipboard.readText()")


def test_skip_link_reaches_the_figures(open_page):
    page: Page = open_page()
    wait_for_figures(page)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the figures")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#content")).to_be_focused()
