"""Controls of the scenario: what they change, how they move one another, and when they hide."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from playwright.sync_api import expect

from estimator.scenario.plan import Plan
from tests.browser.looking import (
    EIGHT_GPUS,
    headline,
    query,
    settled,
    unfold,
    wait_for_axis,
    wait_for_change,
    wait_for_figures,
)

pytestmark = pytest.mark.browser

FOUR_AXES = EIGHT_GPUS.replace("nodes=1", "nodes=4").replace("pp=1", "pp=4")


def test_choices_model_and_chip_change_the_estimate(visit):
    page = visit(EIGHT_GPUS)
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
    panel = page.locator("#explore .panel")
    expect(panel).to_contain_text("GQA 32/8")
    expect(panel).not_to_contain_text("as the sample has")
    framework = page.locator("#field-training-framework")
    # beside its name what it would change, once that is known
    expect(framework.locator("option[value=megatron]")).to_have_text(re.compile(r"^Megatron( \(−[\d.]+ % time\))?$"))
    expect(framework.locator("option:checked")).to_contain_text("PyTorch ")
    # another model stands on the sample's hardware until somebody chooses, and that is said
    visit("/?model=qwen3-8b&measured=none")
    expect(panel).to_contain_text("4 in one node · as the sample has")


def test_schedule_and_chunks_move_one_another(visit):
    page = visit(FOUR_AXES)
    wait_for_figures(page)
    wait_for_axis(page, "plan.virtual_stages")
    schedule = page.locator('[data-field="plan.schedule"] select')
    schedule.select_option("interleaved")
    chunks = page.locator('[data-field="plan.virtual_stages"]')
    expect(chunks.locator("input[type=number]")).to_have_value("2")
    assert (query(page, "schedule"), query(page, "virtual_stages")) == ("interleaved", "2")
    wait_for_axis(page, "plan.virtual_stages")
    chunks.locator("input[type=range]").focus()
    page.keyboard.press("ArrowLeft")
    expect(schedule).to_have_value("1f1b")
    page.reload()
    expect(page.locator('[data-field="plan.schedule"] select')).to_have_value("1f1b")


def test_controls_that_a_model_or_plan_has_no_use_for_are_hidden(visit):
    page = visit(EIGHT_GPUS, refusals=(422,))
    wait_for_figures(page)
    experts, schedule = page.locator('[data-field="plan.ep"]'), page.locator('[data-field="plan.schedule"]')
    expect(experts).to_be_hidden()
    expect(schedule).to_be_hidden()
    dense = headline(page)
    page.select_option("#model", "mixtral-8x7b")
    expect(experts).to_be_visible()
    wait_for_change(page, dense[0])
    wait_for_axis(page, "plan.ep")
    settled(page)
    before = headline(page)
    experts.locator("input[type=range]").focus()
    page.keyboard.press("End")
    settled(page)
    assert query(page, "ep") == "8"
    assert headline(page) != before
    page.select_option("#model", "llama3-8b")
    expect(experts).to_be_visible()
    expect(experts.locator(".problem")).to_contain_text("no experts")


def test_folded_controls_say_what_is_set_and_keep_it_in_the_url(visit):
    page = visit(EIGHT_GPUS.replace("tp=1", "tp=8").replace("dp=8", "dp=1"))
    wait_for_figures(page)
    unfold(page)
    wait_for_axis(page, "plan.recompute_every")
    shown = page.locator('[data-field^="plan."]').evaluate_all("all => all.map((one) => one.dataset.field)")
    assert set(shown) == {f"plan.{field.name}" for field in fields(Plan)}, "each has its control"
    page.locator('[data-field="plan.tp_kind"]').get_by_role("radio", name="2.5D").check(force=True)
    expect(page.locator('[data-field="plan.tp_depth"] input[type=number]')).to_have_value("2")
    settled(page)
    before = headline(page)
    every = page.locator('[data-field="plan.recompute_every"] input[type=range]')
    wait_for_axis(page, "plan.recompute_every")
    every.focus()
    page.keyboard.press("ArrowRight")
    wait_for_change(page, before[0])
    expect(page.get_by_role("radio", name="full", exact=True)).to_be_checked()
    kernels = page.locator('[data-field="training.optimizer_kernel"] select')
    kernels.select_option("fused")
    expect(page.locator(".more .chosen")).to_contain_text("optimizer kernel fused")
    assert query(page, "optimizer_kernel") == "fused"
    kernels.select_option("default")
    page.locator('[data-field="plan.offload"]').get_by_role("radio", name="optimizer").check(force=True)
    expect(page.locator(".more .chosen")).to_contain_text("tp kind 2.5D")
    expect(page.locator(".more .chosen")).to_contain_text("offload optimizer")
    assert (query(page, "tp_depth"), query(page, "offload"), query(page, "recompute_every")) == ("2", "optimizer", "2")
    page.reload()
    wait_for_figures(page)
    expect(page.locator(".more .chosen")).to_contain_text("offload optimizer")


def test_placement_offers_only_orders_that_differ(visit):
    page = visit(EIGHT_GPUS.replace("tp=1", "tp=2").replace("dp=8", "dp=4"))
    wait_for_figures(page)
    unfold(page)
    placement = page.locator('[data-field="plan.placement"]')
    placement.hover()
    expect(placement.locator("option")).to_have_count(2)
    placement.locator("select").select_option("dp-tp-cp-pp")
    page.wait_for_function("() => new URLSearchParams(location.search).get('placement') === 'dp-tp-cp-pp'")


def test_the_page_moves_fields_as_the_server_does(visit, server):
    """What a control sets before its axis is there equals the point of the axis."""
    page = visit(FOUR_AXES)
    wait_for_figures(page)
    differing = page.evaluate(
        """async (fields) => {
            const { api } = await import(js("api"));
            const { state } = await import(js("state"));
            const { complete, same, withField } = await import(js("scenario"));
            const found = [];
            for (const field of fields) {
                for (const { value, scenario, estimate } of (await api.axis(state.scenario, field)).points) {
                    if (!estimate) continue;
                    const ours = withField(state.scenario, field, value, 8);
                    const theirs = complete(scenario, state.catalog);
                    for (const part of ["plan", "training"])
                        if (!same(ours[part], theirs[part])) found.push([field, value, ours[part], theirs[part]]);
                }
            }
            return found;
        }""",
        ["plan.dp", "plan.tp", "plan.cp", "plan.pp", "plan.schedule", "plan.virtual_stages", "plan.tp_kind",
         "plan.recompute", "plan.recompute_every", "plan.shard_ranks"],
    )  # fmt: skip
    assert differing == []


def test_a_model_is_found_by_any_of_its_words(visit):
    page = visit(EIGHT_GPUS)
    wait_for_figures(page)
    page.keyboard.press("/")
    dialog = page.get_by_role("dialog", name="Find model")
    dialog.get_by_role("textbox").fill("moe 235")
    expect(dialog.get_by_role("listitem")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(dialog).not_to_be_visible()
    expect(page.locator("#model")).to_have_value("qwen3-235b-a22b")
    page.keyboard.press("/")
    dialog.get_by_role("textbox").fill("gpt2")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#model")).to_have_value(re.compile("gpt2-"))
