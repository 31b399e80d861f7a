"""Ways to split one model: curves, cross-overs and refusals as a study, the group and the metric in the URL."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import LOOKS
from tests.browser.looking import EIGHT_GPUS, bring_into_view, number, query, turn

pytestmark = pytest.mark.browser

WAYS = (
    EIGHT_GPUS.replace("llama3-8b", "llama3-70b").replace("pytorch-eager", "megatron")
    + "&view=studies&study=ways-to-split&measured=none"
)


TENSOR = ["1D", "2.5D", "3D", "cross-over"]


def wait_for_curves(page, card: str, names: list[str]) -> None:
    """Wait until these curves are drawn; what was asked for before may still stand there."""
    bring_into_view(page, card)
    page.wait_for_function(
        """([card, names]) =>
            String(document.querySelector(`${card} .plot`).data?.map(({ name }) => name)) === String(names)""",
        arg=[card, names],
    )


def test_where_every_way_is_refused_the_reasons_stay(visit):
    page = visit("/?view=studies&study=ways-to-split&model=llama3.2-1b&ranks=18")
    refused = page.locator("#ways-tensor tr", has_text="1D")
    expect(refused).to_contain_text("does not divide")
    expect(page.locator("#ways-tensor .plot")).to_be_hidden()


def test_the_usual_group_is_named_by_what_it_is(visit):
    page = visit("/?view=studies&study=ways-to-split")  # the sample has 4 chips of a node and no tensor parallelism
    usual = page.get_by_label("Chips in the group").locator("option").first
    expect(usual).to_have_text("a whole node (8)")
    visit("/?view=studies&study=ways-to-split&dp=2&tp=2")
    expect(usual).to_have_text("tp of Explore (2)")
    expect(page.locator("#ways .sub")).to_contain_text("one of 2 chips")


def test_ways_stand_side_by_side_refusals_say_why_and_nothing_overflows(visit):
    page = visit(WAYS)
    wait_for_curves(page, "#ways-tensor", TENSOR)
    wait_for_curves(page, "#ways-sequence", ["Megatron SP", "Ulysses", "ring", "all-gather", "cross-over"])
    refused = page.locator("#ways-tensor tr", has_text="2D").filter(has_text="not q²")
    expect(refused).to_contain_text("Choose tp 4 or 16")
    sentence = page.locator("#ways-tensor .crossings li").first
    expect(sentence).to_contain_text(re.compile("Fastest: 1D below"))
    for look in LOOKS:
        turn(page, look)
        bring_into_view(page, "#ways-tensor")
        bring_into_view(page, "#ways-sequence")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_cross_overs_are_drawn_where_the_server_found_them(visit, server):
    page = visit(WAYS + "&by=communication_bytes")
    wait_for_curves(page, "#ways-tensor", TENSOR)
    drawn = page.evaluate("document.querySelector('#ways-tensor .plot').data.at(-1).x")
    answer = page.evaluate(
        """async () => {
            const { api } = await import(js("api"));
            const { state } = await import(js("state"));
            return (await api.parallelism(state.scenario, 0)).tensor.crossovers;
        }"""
    )
    leading = [one["at"] for one in answer if one["metric"] == "communication_bytes" and one["leads"]]
    assert drawn == leading
    assert leading
    closed = next(one["at"] for one in answer if one["closed"] and one["then"] == "3d")
    words = page.locator("#ways-tensor .crossings li", has_text="closed form").filter(has_text="3D")
    assert number(words.inner_text().split("from")[1]) == pytest.approx(closed, abs=1)


def test_group_and_metric_are_in_the_url(visit):
    page = visit(WAYS)
    wait_for_curves(page, "#ways-tensor", TENSOR)
    page.get_by_label("Chips in the group").select_option("16")
    page.get_by_role("button", name="volume").click()
    expect(page.locator("#ways-tensor .crossings li").first).to_contain_text("Least volume")
    assert (query(page, "ranks"), query(page, "by")) == ("16", "communication_bytes")
    expect(page.locator("#ways-tensor tr", has_text="3D").filter(has_text="not q³")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Chips in the group")).to_have_value("16")
    expect(page.get_by_role("button", name="volume")).to_have_attribute("aria-pressed", "true")


def test_experts_leave_one_way_of_tensor_parallelism(visit):
    page = visit(WAYS.replace("llama3-70b", "mixtral-8x7b"))
    expect(page.locator("#ways-tensor tr", has_text="experts are not laid out")).to_have_count(3)
    # no longer those of the model before
    wait_for_curves(page, "#ways-tensor", ["1D", "cross-over"])
