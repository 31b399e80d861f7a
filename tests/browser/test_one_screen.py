"""One screen about A and B: the palette, hardware at multiples, where one came from, what does not fit, prices."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.browser.looking import (
    EIGHT_GPUS,
    bring_into_view,
    expect_view,
    headline,
    marked,
    query,
    settled,
    side,
    turn,
    wait_for_axis,
    wait_for_causes,
    wait_for_change,
    wait_for_figures,
    wait_until,
)

pytestmark = pytest.mark.browser

PLANS = EIGHT_GPUS + "&measured=none"
FULL = "s:" + EIGHT_GPUS.removeprefix("/?").replace("recompute=none", "recompute=full")


def test_one_dialog_finds_models_chips_plans_measurements_and_actions(visit):
    page = visit(f"{PLANS}&pin={quote(FULL)}")
    wait_for_figures(page)
    dialog = page.get_by_role("dialog", name="Commands")

    def take(words: str) -> None:
        page.keyboard.press("Control+k")
        expect(dialog).to_be_visible()
        page.keyboard.type(words)
        page.keyboard.press("Enter")
        expect(dialog).to_be_hidden()

    take("pinned full")
    wait_for_causes(page)
    expect(side(page, "B")).to_contain_text("full recompute")
    take("model qwen3 8b")
    page.wait_for_function("() => new URLSearchParams(location.search).get('model') === 'qwen3-8b'")
    take("h100 pcie")
    page.wait_for_function("() => new URLSearchParams(location.search).get('chip') === 'h100-pcie'")
    take("runs")
    expect_view(page, "runs")
    take("b is llama ddp")
    expect_view(page, "explore")
    expect(side(page, "B")).to_contain_text("Llama 3.2 1B, DDP on 4 H200")
    # what people look for under these words is there, and a setting is brought into sight
    for words, title in (
        ("sweep", "Sweep "), ("global batch", "Global batch"), ("bandwidth", "Sweep Memory bandwidth"),
        ("offload", "Offload to host memory"), ("compare", "A and B as CSV"), ("csv", "A and B as CSV"),
        ("export", "save this page as a report"), ("nvlink", "What if Link bandwidth"),
        ("what if", "What if Memory bandwidth"), ("undo", "undo"), ("cheapest", "search the cheapest plan"),
        ("half", "What if Link bandwidth"), ("calibrated", "Calibrate"),
    ):  # fmt: skip
        page.keyboard.press("Control+k")
        dialog.get_by_role("textbox").fill(words)
        expect(dialog.get_by_role("listitem").filter(has_text=title).first).to_be_visible()
        page.keyboard.press("Escape")
    take("offload to host")
    expect(page.locator('[data-field="plan.offload"] input:checked')).to_be_focused()
    page.evaluate("document.activeElement.blur()")
    take("sweep global batch")
    expect(page.get_by_role("heading", name="Sweep: Global batch")).to_be_visible()
    with page.expect_download() as waiting:
        take("and b as csv")
    assert re.search(
        r"^step time,s,[\d.]+,[\d.]+,-?[\d.]+\r$", waiting.value.path().read_bytes().decode(), re.MULTILINE
    )
    # arrow keys go through what was found, and what is not there is said
    page.keyboard.press("Control+k")
    page.keyboard.type("llama")
    page.keyboard.press("ArrowDown")
    expect(dialog.get_by_role("listitem").first.get_by_role("button")).to_be_focused()
    dialog.get_by_role("textbox").fill("no such thing")
    expect(dialog).to_contain_text("Nothing of that name.")
    page.keyboard.press("Escape")


def test_hardware_at_multiples_moves_the_step_and_the_catalogue_is_the_middle(visit):
    page = visit(PLANS.replace("dp=8", "dp=1").replace("tp=1", "tp=8").replace("pytorch-eager", "megatron"))
    wait_for_figures(page)
    before = headline(page)
    page.locator("details.multiples summary").click()
    link = page.locator("#multiple-link")
    expect(link).to_have_value("0")
    expect(page.locator("#multiple-network")).to_be_hidden()
    for _ in range(4):  # a quarter of a power of two each
        link.press("ArrowLeft")
    wait_for_causes(page)
    settled(page)
    expect(link).to_have_attribute("aria-valuetext", "link ×0.5")
    expect(page.locator("details.multiples")).to_contain_text("link ×0.5")
    expect(side(page, "B")).to_contain_text("link ×0.5")
    # what the slower link costs is said by cause
    expect(page.locator("#step-time .causes li", has_text="communication").first).to_contain_text("slower link")
    assert headline(page) != before
    # beyond the slider's end a number is typed; what is none is taken back
    exact = page.get_by_label("link, exact multiple", exact=True)
    for typed, wanted in (("25", "25"), ("0", "25")):
        exact.fill(typed)
        exact.press("Enter")
        expect(exact).to_have_value(wanted)
        expect(page.locator("details.multiples .problem")).to_be_visible(visible=typed == "0")
    expect(page.locator("details.multiples")).to_contain_text("link ×25")
    expect(link).to_have_value("3")
    link.dblclick()
    page.wait_for_function("() => !location.search.includes('%C3%9725')")
    settled(page)
    assert headline(page) == before


def test_the_plan_one_came_from_is_a_ghost_on_every_curve_that_moved(visit):
    page = visit(PLANS)
    wait_for_figures(page)
    wait_for_axis(page, "plan.tp")
    expect(page.locator(".track .was:visible")).to_have_count(0)
    before = headline(page)[0]
    page.locator('[data-field="plan.tp"] input[type=range]').press("ArrowRight")
    wait_for_change(page, before)
    wait_for_axis(page, "plan.dp")
    for field, was in (("tp", 1), ("dp", 8)):
        ghost = page.locator(f'[data-field="plan.{field}"] .was')
        expect(ghost).to_be_visible()
        expect(ghost).to_have_attribute("title", f"A: {was}")
    expect(page.locator('[data-field="training.seq_len"] .was')).to_be_hidden()


def test_what_is_sent_and_held_has_its_table_and_figures(visit):
    page = visit(PLANS.replace("dp=8", "dp=2").replace("tp=1", "tp=2").replace("pp=1", "pp=2"))
    wait_for_figures(page)
    page.get_by_role("tab", name="Communication").click()
    expect(page.locator("#communication tbody tr").first).to_contain_text("tp 2")
    wait_until(page, "() => document.querySelector('#rank-matrix .plot').data?.length === 3")
    sent = page.evaluate(
        """() => Object.fromEntries(document.querySelector("#rank-matrix .plot").data.map(
            ({ name, x, y }) => [name, [...x].map((to, at) => `${y[at]}-${to}`).sort()]))"""
    )
    assert sent["tp"] == ["0-1", "1-0", "2-3", "3-2", "4-5", "5-4", "6-7", "7-6"]
    assert sent["dp"] == ["0-2", "1-3", "2-0", "3-1", "4-6", "5-7", "6-4", "7-5"]
    assert sent["pp"] == ["0-4", "1-5", "2-6", "3-7", "4-0", "5-1", "6-2", "7-3"]
    for axis in "xy":
        ticks = page.locator(f"#rank-matrix .{axis}tick text").all_text_contents()
        assert ticks == [str(rank) for rank in range(8)], "ranks, and no halves of them"
    page.get_by_role("tab", name="Memory").click()
    for figure in ("memory", "stages", "memory-time"):
        bring_into_view(page, f"#{figure}")
        page.wait_for_selector(f"#{figure} .plot .plot-container", state="attached")
    assert page.evaluate("document.querySelector('#stages .plot').data[0].x.length") == 2
    page.get_by_role("tab", name="Layers").click()


def test_what_does_not_fit_is_muted_and_told_what_makes_it_fit(visit):
    page = visit(f"{PLANS.replace('sharding=fsdp', 'sharding=ddp')}&a={quote(FULL)}&b=plan")
    wait_for_figures(page)
    wait_for_causes(page)
    expect(side(page, "B")).to_contain_text("does not fit")
    expect(page.locator("#tile-step-time dd > b")).to_have_class(re.compile("muted"))
    expect(page.locator("#tile-peak-memory")).to_contain_text("over")
    expect(page.locator("#tile-peak-memory .r")).to_contain_text(re.compile("OOM risk|does not fit"))
    expect(page.locator("#step-time .sub")).to_have_text("if B fitted")
    remedies = page.get_by_role("region", name="Remedies")
    expect(remedies).to_contain_text("Makes it fit")
    # what has to fit is what the allocator reserves: here, in the banner and beside the peak
    expect(remedies.locator("li p").first).to_contain_text("reserved")
    expect(page.locator("#tile-peak-memory .r")).to_contain_text("needs")
    expect(page.locator("#tile-peak-memory")).to_have_attribute(
        "title", re.compile("at the peak; the allocator reserves")
    )
    remedies.get_by_role("button", name=re.compile("^Try")).first.click()
    expect(side(page, "B")).not_to_contain_text("does not fit")
    expect(page.locator("#tile-peak-memory .r")).to_contain_text("OOM risk")
    says = re.compile("of steps predicted like this one, about .* run out of memory")
    expect(page.locator("#tile-peak-memory")).to_have_attribute("title", says)
    # every change stands in the title, whatever the name has room for
    expect(side(page, "B")).to_have_attribute("title", re.compile("against A: "))


def test_each_side_has_the_price_of_its_own_chip(visit):
    other = "s:" + EIGHT_GPUS.removeprefix("/?").replace("chip=h200-sxm", "chip=h100-sxm")
    page = visit(f"{PLANS}&a={quote(other)}&b=plan")
    wait_for_figures(page)
    wait_for_causes(page)
    prices = page.evaluate(
        """async () => (await import(js("state"))).state.catalog.chips
            .filter(({ key }) => ["h100-sxm", "h200-sxm"].includes(key)).map(({ value }) => value.usd_per_hour)"""
    )
    expect(page.locator("#tile-price .edit")).to_have_text(
        f"${prices[0]:.2f} → ${prices[1]:.2f}/h".replace("→ $", "→ ")
    )
    per_token = page.evaluate(
        """async () => {
            const { a, b } = (await import(js("state"))).state.pair;
            return [a, b].map(({ step_s, chips, tokens }) => (step_s * chips) / tokens / 36e-6);
        }"""
    )
    shown = [page.locator(f"#tile-price dd > {one}").inner_text() for one in ("i", "b")]
    for text, rate, usd in zip(shown, per_token, prices, strict=True):
        assert float(text) == pytest.approx(100 * rate * usd / 100, rel=0.01)
    assert query(page, "usd_per_hour") is None


_BOUNDARIES = """() => {
    const light = (colour) => {
        const canvas = document.createElement("canvas").getContext("2d");
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((one) => {
            const frac = one / 255;
            return frac <= 0.04045 ? frac / 12.92 : ((frac + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const [{ y, x, marker }] = document.querySelector("#step-time .plot").data;
    const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
    const shown = y.map((side, at) => at).filter((at) => x[at] > 0);
    return shown.slice(1).flatMap((at, before) => {
        const left = shown[before];
        if (y[left] !== y[at]) return [];
        const beside = [marker.color[left], marker.color[at]];
        return [[marker.line.width, Math.max(...beside.map((hue) => contrast(hue, marker.line.color)))]];
    });
}"""


def test_touching_segments_are_told_apart_without_colour(visit):
    page = visit(f"{PLANS}&a={quote(FULL)}&b=plan")
    for scheme in ("light", "dark"):
        turn(page, (1440, scheme))
        wait_for_figures(page)
        wait_for_causes(page)
        settled(page)
        boundaries = page.evaluate(_BOUNDARIES)
        assert len(boundaries) > 8
        # a gap in the colour of the card, from which one side at least stands out as graphics must
        assert min(width for width, _ in boundaries) >= 1
        assert min(contrast for _, contrast in boundaries) >= 3
    # a cause of two plans is marked in the other figures, as one of a measurement is
    page.locator("#step-time .causes button", has_text="matmul").first.click()
    for figure in ("#roofline", "#timeline"):
        bring_into_view(page, figure)
        assert marked(page, figure) == {"bright", "faint"}
    page.keyboard.press("Escape")
