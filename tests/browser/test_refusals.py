"""What is refused says why and changes nothing."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.looking import EIGHT_GPUS, headline, number, query, settled, unfold, wait_for_axis, wait_for_figures

pytestmark = pytest.mark.browser

TP = '[data-field="plan.tp"]'


def test_a_refused_value_is_shown_with_its_reason_and_changes_nothing(visit):
    page = visit(EIGHT_GPUS, refusals=(422,))
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
    gpus = page.locator("#chips")
    for typed in ("0", "-3", "1.5"):
        gpus.fill(typed)
        gpus.press("Enter")
        expect(page.locator("#explore .problem", has_text="A whole number of at least 1 is needed.")).to_be_visible()
        gpus.fill("8")
        gpus.press("Enter")
        expect(page.locator("#explore .problem:visible", has_text="A whole number")).to_have_count(0)
    assert headline(page) == before


def test_a_refused_choice_is_shown_with_its_reason_and_changes_nothing(visit):
    page = visit(EIGHT_GPUS.replace("tp=1", "tp=2").replace("dp=8", "dp=4"))
    wait_for_figures(page)
    unfold(page)
    wait_for_axis(page, "plan.shard_ranks")
    kind = page.locator('[data-field="plan.tp_kind"]')
    grid = kind.get_by_role("radio", name=re.compile("2D, refused"))
    expect(grid).to_have_count(1)
    grid.click(force=True)
    expect(kind.locator(".problem")).to_contain_text("not q²")
    assert query(page, "tp_kind") is None


def test_equal_reasons_of_refused_values_are_listed_once(visit):
    page = visit(EIGHT_GPUS.replace("sharding=fsdp", "sharding=ddp"))
    wait_for_figures(page)
    unfold(page)
    field = page.locator('[data-field="plan.shard_ranks"]')
    button = field.get_by_role("button", name=re.compile("values refused"))
    number_of_values = int(number(button.inner_text()))
    button.click()
    texts = field.locator(".refusals > div").all_inner_texts()
    values = [value for text in texts for value in text.split(": ")[0].split(", ")]
    assert len(values) == number_of_values > len(texts)


def test_an_impossible_degree_says_what_to_change_in_words_of_the_panel(visit):
    page = visit(EIGHT_GPUS.replace("dp=8", "dp=16"), refusals=(422,))
    for problem in (page.locator('[data-field="plan.dp"] .problem'), page.locator("#explore .notice")):
        expect(problem).to_contain_text("change Nodes or GPUs of a node")
        expect(problem).not_to_contain_text("cluster.")


def test_an_impossible_scenario_names_the_field_and_keeps_the_last_figures(visit):
    page = visit(EIGHT_GPUS, refusals=(422,))
    wait_for_figures(page)
    before = headline(page)
    page.evaluate("history.pushState(null, '', location.href.replace('global_batch=64', 'global_batch=3'))")
    page.evaluate("dispatchEvent(new PopStateEvent('popstate'))")
    expect(page.locator('[data-field="training.global_batch"] .problem')).to_contain_text("does not divide")
    expect(page.locator("#explore .notice")).to_contain_text("cannot be estimated")
    expect(page.locator("#explore main")).to_have_class("dim")
    assert headline(page) == before
    page.go_back()
    expect(page.locator("#explore .notice")).to_have_count(0)
