"""Sliders: keyboard and mouse move numbers, figures and the URL, and every axis has its curve."""

from __future__ import annotations

import csv
import io
import re

import pytest
from playwright.sync_api import Request, expect

from tests.browser.looking import (
    EIGHT_GPUS,
    bars,
    headline,
    points,
    query,
    settled,
    side,
    wait_for_axis,
    wait_for_change,
    wait_for_figures,
    wait_for_other_bars,
    wait_for_points,
)

pytestmark = pytest.mark.browser

TP = '[data-field="plan.tp"]'


def test_tensor_parallel_by_keyboard_moves_numbers_figures_and_url(visit):
    page = visit(EIGHT_GPUS)
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
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    seen = []
    page.mouse.move(box["x"] + 8, middle)
    page.mouse.down()
    for part in range(21):
        page.mouse.move(box["x"] + 8 + part / 20 * (box["width"] - 16), middle)
        page.wait_for_timeout(30)
        degree = page.locator(f"{TP} input[type=number]").input_value()
        if seen and degree != seen[-1][0]:
            wait_for_change(page, seen[-1][1])
            wait_for_other_bars(page, seen[-1][2])
        seen.append((degree, headline(page)[0], tuple(bars(page))))
    assert asked == []
    # the plan where the slider was grabbed stays as A
    expect(page.locator("#tile-step-time dd > i")).to_have_text(seen[0][1].split()[0])
    page.mouse.up()
    degrees = list(dict.fromkeys(value for value, _, _ in seen))
    assert degrees[:3] == ["1", "2", "4"]
    # where the hand rests, the bars are drawn once more: as the causes of the difference
    assert len({step for _, step, _ in seen}) == len(degrees) <= len({bar for _, _, bar in seen})
    assert query(page, "tp") == degrees[-1]
    expect(side(page, "B")).to_contain_text(f"tp {degrees[-1]}")


def test_every_axis_has_its_curve_and_marks_what_does_not_fit(visit):
    page = visit(EIGHT_GPUS.replace("seq_len=4096", "seq_len=8192"))
    wait_for_figures(page)
    for path in ("plan.dp", "plan.tp", "plan.micro_batch", "training.seq_len", "training.global_batch"):
        wait_for_axis(page, path)
        curve = page.locator(f'[data-field="{path}"] polyline').get_attribute("points") or ""
        assert (
            len(curve.split()) == int(page.locator(f'[data-field="{path}"] input[type=range]').get_attribute("max")) + 1
        )
        expect(page.locator(f'[data-field="{path}"] .knob')).to_be_visible()
    assert page.locator('[data-field="training.seq_len"] .no-fit').count() > 0


SWEPT = "#sweep tbody tr"


def test_a_slider_is_swept_as_table_and_csv_of_which_rows_become_a_and_b(visit, server):
    page = visit(f"{EIGHT_GPUS}&measured=none")
    wait_for_figures(page)
    card = page.locator("#sweep")
    expect(card).to_be_hidden()
    page.get_by_role("button", name="Sweep Global batch").click()
    expect(card.get_by_role("heading")).to_have_text("Sweep: Global batch")
    expect(page.locator(f"{SWEPT}[aria-current]")).to_contain_text("64")
    assert query(page, "sweep") == "training.global_batch"
    # the micro-batch: what is refused says why, and what does not fit what it needs
    card.get_by_label("Field of the sweep").select_option("plan.micro_batch")
    expect(page.locator(f"{SWEPT}[aria-current]")).to_contain_text("now")
    scenario = page.evaluate("async () => (await import(js('state'))).state.scenario")
    wanted = page.evaluate(
        "async (scenario) => (await import(js('api'))).api.axis(scenario, 'plan.micro_batch')", scenario
    )["points"]
    expect(page.locator(SWEPT)).to_have_count(len(wanted))
    with page.expect_download() as waiting:
        card.get_by_label("Sweep: Save").click()
        card.get_by_role("button", name="Sweep: download CSV").click()
    rows = list(csv.DictReader(io.StringIO(waiting.value.path().read_text())))
    assert [int(row["Micro-batch"]) for row in rows] == [point["value"] for point in wanted]
    for row, point in zip(rows, wanted, strict=True):
        found = point["estimate"]
        assert float(row["step time (s)"]) == found["step_time_s"]
        assert float(row["tokens/s"]) == found["tokens_per_s"]
        assert row["fits"] == ("yes" if found["memory"]["fits"] else "no")
        assert ("needs" in row["why not"]) == (not found["memory"]["fits"])
    assert {row["fits"] for row in rows} == {"yes", "no"}
    card.get_by_role("button", name="Copy CSV").click()
    assert page.evaluate("navigator.clipboard.readText()") == waiting.value.path().read_bytes().decode()
    # a row becomes A beside the plan of the panel, or B in it
    page.locator(SWEPT, has=page.get_by_role("rowheader", name="2", exact=True)).get_by_role("rowheader").click()
    expect(side(page, "A")).to_have_attribute("title", re.compile("micro batch 2"))
    assert query(page, "b") == "plan"
    expect(page.get_by_role("button", name="2 as A")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="4 as B").click()
    expect(page.locator(f"{SWEPT}[aria-current] th")).to_contain_text("4")
    expect(page.locator('[data-field="plan.micro_batch"] input[type=number]')).to_have_value("4")
    expect(side(page, "A")).to_have_attribute("title", re.compile("micro batch 2"))
    card.get_by_role("button", name="Close the sweep").click()
    expect(card).to_be_hidden()
    assert query(page, "sweep") is None
    # the sweep of a micro-batch, which the panel shows now, by keyboard; closed, the button has the focus again
    opener = page.get_by_role("button", name="Sweep Micro-batch")
    opener.press("Enter")
    expect(card).to_be_visible()
    card.get_by_role("button", name="Copy CSV").press("Escape")
    expect(card).to_be_hidden()
    expect(opener).to_be_focused()


def test_a_bandwidth_is_swept_and_a_link_opens_the_sweep(visit):
    page = visit(EIGHT_GPUS + "&measured=none&sweep=hardware.memory")
    wait_for_figures(page)
    card = page.locator("#sweep")
    expect(card.get_by_role("heading")).to_have_text("Sweep: Memory bandwidth")
    expect(page.locator(f"{SWEPT}[aria-current]")).to_contain_text("×1")
    steps = page.locator(f"{SWEPT} td:nth-child(3)").evaluate_all("all => all.map((one) => Number(one.title))")
    assert len(steps) == 10
    assert steps == sorted(steps, reverse=True), "no step is longer with more bandwidth"
    assert steps[0] > 1.1 * steps[-1]
    settled(page)
    drawn = page.evaluate("document.querySelector('#sweep .plot').data.map(({ y }) => y.length)")
    assert drawn == [10, 10, 10]
    # a step of more tokens is longer, and not worse for it; the sweep is of what the panel has now
    first = page.locator(f"{SWEPT} td:nth-child(3)").first.inner_text()
    wait_for_axis(page, "training.global_batch")
    undo = page.get_by_role("button", name="Undo")
    expect(undo).to_be_disabled()
    page.locator('[data-field="training.global_batch"] input[type=range]').press("ArrowRight")
    expect(page.locator("#step-time .sub")).to_contain_text("a step of B has 2 × the tokens of A's")
    for name in ("step-time", "tokens", "price"):
        expect(page.locator(f"#tile-{name} dt b")).to_have_text(re.compile("%"))
        expect(page.locator(f"#tile-{name} dt b")).not_to_have_class(re.compile("worse|better"))
    expect(page.locator(f"{SWEPT} td:nth-child(3)").first).not_to_have_text(first)
    # what was decided here is taken back, and nothing before it
    undo.click()
    expect(undo).to_be_disabled()
    expect(page.locator('[data-field="training.global_batch"] input[type=number]')).to_have_value("64")
    page.keyboard.press("Control+z")
    expect(card.get_by_role("heading")).to_have_text("Sweep: Memory bandwidth")
    # no label lies over the buttons of the multiples
    if page.get_by_role("button", name="Sweep link").is_hidden():
        page.get_by_text("What if", exact=False).first.click()
    page.get_by_role("button", name="Sweep link").click()
    expect(card.get_by_role("heading")).to_have_text(re.compile("Link"))
    tokens = page.locator("#run-tokens")
    tokens.fill("lots")
    tokens.press("Enter")
    expect(page.locator("#explore .problem", has_text="A number of tokens is needed")).to_be_visible()
    expect(tokens).to_have_value("")
    # more than the peak cannot be
    page.evaluate(
        """async () => {
            const { set, state } = await import(js("state"));
            set({ pair: { ...state.pair, a: { ...state.pair.a, mfu: 2.21 } } });
        }"""
    )
    expect(page.locator("#tile-mfu dt b")).to_have_text("above the peak")
    expect(page.locator("#tile-mfu")).to_have_attribute("title", re.compile("cannot be"))


def test_what_a_value_refuses_stands_in_its_row(visit):
    page = visit(
        EIGHT_GPUS.replace("llama3-8b", "gpt2-xl").replace("seq_len=4096", "seq_len=1024")
        + "&sweep=plan.tp&measured=none"
    )
    wait_for_figures(page)
    refused = page.locator(SWEPT, has=page.locator(".reason"))
    expect(refused.first).to_contain_text("does not divide")
    expect(page.locator(SWEPT, has=page.locator(".pick")).first).to_be_visible()
    expect(refused.locator(".pick")).to_have_count(0)
