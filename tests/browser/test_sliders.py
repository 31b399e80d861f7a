"""Sliders: keyboard and mouse move numbers, figures and the URL, and every axis has its curve."""

from __future__ import annotations

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
