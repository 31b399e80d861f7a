"""Explore: opens filled, sliders move the numbers and the figures, the URL holds the state, refusals say why."""

from __future__ import annotations

import csv
import io
import re
import struct

import pytest
from playwright.sync_api import Page, Request, expect

from tests.browser.looking import (
    EIGHT_GPUS,
    bars,
    bring_into_view,
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
    bring_into_view(page, "#layers")
    expect(page.locator("#layers tbody tr").nth(3)).to_be_visible()
    assert page.locator("#assumptions li").count() > 0


def test_a_run_of_another_model_is_not_drawn_beside_the_prediction(open_page):
    page = open_page()
    wait_for_figures(page)
    errors = page.locator(".errors tr.total td")
    expect(errors.nth(2)).to_have_text(re.compile(r"\d"))
    model = query(page, "model")
    page.select_option("#model", "gpt2")
    strip = page.locator("#explore .pins")
    expect(strip).to_contain_text("not drawn beside another model")
    expect(page.locator("#step-time .sub")).to_contain_text("another model was measured")
    expect(page.locator("#step-time")).not_to_contain_text(re.compile(r"\d %"))
    strip.get_by_role("button", name="Predict what was measured").click()
    expect(errors.nth(2)).to_have_text(re.compile(r"\d"))
    expect(strip).not_to_contain_text("not drawn")
    assert query(page, "model") == model


def test_a_run_on_another_chip_than_its_scenario_names_is_not_drawn_as_an_error(open_page, drop, measured):
    page = open_page("/?measured=none")
    wait_for_figures(page)
    drop(page, measured / "result.json")
    strip = page.locator("#explore .pins")
    expect(strip).to_contain_text("not drawn beside a prediction for NVIDIA H200", timeout=30_000)
    expect(strip).to_contain_text("measured on ")
    wait_for_figures(page)
    expect(page.locator("#step-time .sub")).to_contain_text("predicted; measured on ")
    expect(page.locator("#step-time")).not_to_contain_text(re.compile(r"\d %"))
    expect(page.locator("#tile-step-time")).not_to_contain_text("vs measured")
    strip.get_by_role("button", name="Predict for This CPU").click()
    expect(page.locator("#tile-step-time")).to_contain_text("vs measured")
    expect(strip).not_to_contain_text("not drawn")
    assert (query(page, "chip"), query(page, "link")) == ("cpu", None)


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


def test_a_refused_choice_is_shown_with_its_reason_and_changes_nothing(open_page):
    page = open_page(EIGHT_GPUS.replace("tp=1", "tp=2").replace("dp=8", "dp=4"))
    wait_for_figures(page)
    page.locator(".more summary").click()
    wait_for_axis(page, "plan.shard_ranks")
    kind = page.locator('[data-field="plan.tp_kind"]')
    grid = kind.get_by_role("radio", name=re.compile("2D, refused"))
    expect(grid).to_have_count(1)
    grid.click(force=True)
    expect(kind.locator(".problem")).to_contain_text("not q²")
    assert query(page, "tp_kind") is None


def test_equal_reasons_of_refused_values_are_listed_once(open_page):
    page = open_page(EIGHT_GPUS.replace("sharding=fsdp", "sharding=ddp"))
    wait_for_figures(page)
    page.locator(".more summary").click()
    field = page.locator('[data-field="plan.shard_ranks"]')
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
    expect(page.locator('[data-field="training.global_batch"] .problem')).to_contain_text("does not divide")
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


def test_a_picture_of_a_figure_stands_alone(open_page):
    page = open_page(scheme="dark")
    wait_for_figures(page)
    # a figure that was resized has no height of its own any more
    page.set_viewport_size({"width": 1300, "height": 900})
    page.evaluate(
        """() => {
            globalThis.written = [];
            const { toImage } = Plotly;
            Plotly.toImage = (figure, ...rest) => {
                const { xaxis, yaxis } = figure.layout;
                globalThis.titles = [xaxis.title?.text, yaxis.title?.text];
                return toImage(figure, ...rest);
            };
            const { fillText, fillRect } = CanvasRenderingContext2D.prototype;
            CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
                if (this.canvas.width > 960) written.push(text);
                return fillText.call(this, text, ...place);
            };
            CanvasRenderingContext2D.prototype.fillRect = function (...place) {
                if (this.canvas.width > 960 && place[0] === 0) globalThis.ground = this.fillStyle;
                return fillRect.call(this, ...place);
            };
        }"""
    )
    for card, unit in (("Step time", "step time, ms"), ("Memory", "memory of one chip, GB"), ("Roofline", "GFLOP/s")):
        bring_into_view(page, f"#{card.lower().replace(' ', '-')}")
        page.evaluate("written.length = 0")
        with page.expect_download() as waiting:
            page.get_by_role("button", name=f"{card}: download PNG").click()
        picture = waiting.value.path().read_bytes()
        assert picture.startswith(b"\x89PNG")
        width, height = struct.unpack(">II", picture[16:24])
        assert width >= 960
        assert height > 400
        written = page.evaluate("written")
        assert written[0] == card
        said = " ".join(written)
        for words in ("Llama 3.2 1B · 4 × H200", "16 sequences of 2\u202f048 tokens", "predicted"):
            assert words in said, said
        assert "activations" in said if card == "Memory" else "matmul" in said
        assert page.evaluate("ground") == "#171b22"
        assert unit in page.evaluate("titles")


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
    page.keyboard.press("s")
    expect_view(page, "search")
    page.keyboard.press("1")
    page.keyboard.press("/")
    expect(page.get_by_role("textbox", name="Find model")).to_be_focused()
    page.keyboard.press("Escape")
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


FOUR_AXES = EIGHT_GPUS.replace("nodes=1", "nodes=4").replace("dp=8", "dp=8").replace("pp=1", "pp=4")


def test_schedule_and_chunks_move_one_another(open_page):
    page = open_page(FOUR_AXES)
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


def test_controls_that_a_model_or_plan_has_no_use_for_are_hidden(open_page):
    page = open_page(EIGHT_GPUS, refusals=(422,))
    wait_for_figures(page)
    experts, schedule = page.locator('[data-field="plan.ep"]'), page.locator('[data-field="plan.schedule"]')
    expect(experts).to_be_hidden()
    expect(schedule).to_be_hidden()
    page.select_option("#model", "mixtral-8x7b")
    expect(experts).to_be_visible()
    wait_for_axis(page, "plan.ep")
    experts.locator("input[type=range]").focus()
    before = headline(page)
    page.keyboard.press("End")
    settled(page)
    assert query(page, "ep") == "8"
    assert headline(page) != before
    page.select_option("#model", "llama3-8b")
    expect(experts).to_be_visible()
    expect(experts.locator(".problem")).to_contain_text("no experts")


def test_folded_controls_say_what_is_set_and_keep_it_in_the_url(open_page):
    page = open_page(EIGHT_GPUS.replace("tp=1", "tp=8").replace("dp=8", "dp=1"))
    wait_for_figures(page)
    page.locator(".more summary").click()
    wait_for_axis(page, "plan.recompute_every")
    page.locator('[data-field="plan.tp_kind"]').get_by_role("radio", name="2.5D").check(force=True)
    expect(page.locator('[data-field="plan.tp_depth"] input[type=number]')).to_have_value("2")
    before = headline(page)
    every = page.locator('[data-field="plan.recompute_every"] input[type=range]')
    wait_for_axis(page, "plan.recompute_every")
    every.focus()
    page.keyboard.press("ArrowRight")
    wait_for_change(page, before[0])
    expect(page.get_by_role("radio", name="full", exact=True)).to_be_checked()
    page.locator('[data-field="plan.offload"]').get_by_role("radio", name="optimizer").check(force=True)
    expect(page.locator(".more .chosen")).to_contain_text("tp kind 2.5D")
    expect(page.locator(".more .chosen")).to_contain_text("offload optimizer")
    assert (query(page, "tp_depth"), query(page, "offload"), query(page, "recompute_every")) == ("2", "optimizer", "2")
    page.reload()
    wait_for_figures(page)
    expect(page.locator(".more .chosen")).to_contain_text("offload optimizer")


def test_placement_offers_only_orders_that_differ(open_page):
    page = open_page(EIGHT_GPUS.replace("tp=1", "tp=2").replace("dp=8", "dp=4"))
    wait_for_figures(page)
    page.locator(".more summary").click()
    placement = page.locator('[data-field="plan.placement"]')
    placement.hover()
    expect(placement.locator("option")).to_have_count(2)
    placement.locator("select").select_option("dp-tp-cp-pp")
    page.wait_for_function("() => new URLSearchParams(location.search).get('placement') === 'dp-tp-cp-pp'")


def test_the_page_moves_fields_as_the_server_does(open_page, server):
    """What a control sets before its axis is there equals the point of the axis."""
    page = open_page(FOUR_AXES)
    wait_for_figures(page)
    differing = page.evaluate(
        """async (fields) => {
            const { api } = await import("/js/api.js");
            const { state } = await import("/js/state.js");
            const { complete, same, withField } = await import("/js/scenario.js");
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


def test_every_column_of_the_layer_table_and_its_csv(open_page):
    page = open_page(EIGHT_GPUS.replace("tp=1", "tp=8").replace("dp=8", "dp=1"))
    wait_for_figures(page)
    card = page.locator("#layers")
    bring_into_view(page, "#layers")
    card.get_by_role("button", name="every column").click()
    table = card.locator(".every table")
    expect(table).to_contain_text("output projection")
    expect(table).to_contain_text("tp all-reduce")
    with page.expect_download() as waiting:
        card.get_by_role("button", name="Per layer: download CSV").click()
    rows = list(csv.DictReader(io.StringIO(waiting.value.path().read_text())))
    assert table.locator("tbody tr").count() == len(rows)
    row = next(row for row in rows if row["op"] == "output projection")
    assert float(row["communication_forward_bytes"]) == 4096 * 4096 * 2
    assert float(row["flops_forward"]) == 2 * 4096 * 4096 * 4096 / 8


def test_kinds_of_layers_stand_apart(open_page):
    page = open_page(EIGHT_GPUS.replace("llama3-8b", "deepseek-v2") + "&precision=bf16")
    wait_for_figures(page)
    bring_into_view(page, "#layers")
    groups = page.locator("#layers tr.group")
    expect(groups.nth(0)).to_contain_text("Dense layer")
    expect(groups.nth(1)).to_contain_text("Expert layer")
    expect(groups.last).to_contain_text("Optimizer")


def test_a_model_is_found_by_any_of_its_words(open_page):
    page = open_page(EIGHT_GPUS)
    wait_for_figures(page)
    page.get_by_role("button", name="Find model").click()
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


def test_what_a_link_says_that_nobody_knows_is_said_once(open_page):
    page = open_page(EIGHT_GPUS + "&colour=blue&pp=two", refusals=(422,))
    wait_for_figures(page)
    said = page.locator(".tray .import", has_text="colour")
    expect(said).to_contain_text("pp=two")
    said.get_by_role("button", name="Dismiss").click()
    page.keyboard.press("3")
    page.go_back()
    expect(page.locator(".tray .import")).to_have_count(0)


def test_what_of_a_link_is_not_known_is_said(open_page):
    page = open_page("/?foo=bar&tp=abc")
    wait_for_figures(page)
    expect(page.locator("#tray")).to_contain_text("This link says foo, tp=abc, which this page does not know")
    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator("#tray")).not_to_contain_text("This link")


def test_a_capacity_is_told_in_both_units_with_its_source(open_page):
    page = open_page()
    wait_for_figures(page)
    expect(page.locator("#explore .panel .hint", has_text="TFLOP/s")).to_contain_text("151 GB (140 GiB) at 4.80 TB/s")
    expect(page.locator("#tile-peak-memory dd small").first).to_have_attribute("title", re.compile("nvidia-smi"))
