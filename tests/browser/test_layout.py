"""Layout: wide and narrow, light and dark, nothing overflows, overlaps or is cut, and the console stays empty."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import LOOKS, SCHEMES, WIDTHS
from tests.browser.looking import (
    EIGHT_GPUS,
    at_last,
    expect_view,
    headline,
    settled,
    turn,
    unfold,
    wait_for_axis,
    wait_for_causes,
    wait_for_figures,
    wait_until,
)
from tests.browser.server import ROOT

pytestmark = pytest.mark.browser

_OVERLAPS = """(selector) => {
    const found = [];
    for (const box of document.querySelectorAll(selector)) {
        const outer = box.getBoundingClientRect();
        const texts = [];
        const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) {
            if (!walker.currentNode.data.trim() || !walker.currentNode.parentElement.checkVisibility()) continue;
            const range = document.createRange();
            range.selectNodeContents(walker.currentNode);
            for (const part of range.getClientRects()) texts.push([walker.currentNode.data, part]);
        }
        for (const [text, part] of texts) {
            const cut = part.left < outer.left - 1 || part.right > outer.right + 1 || part.bottom > outer.bottom + 1;
            if (cut) found.push(`${text} leaves ${box.id || box.className}`);
        }
        texts.forEach(([a, one], at) => texts.slice(at + 1).forEach(([b, two]) => {
            const wide = Math.min(one.right, two.right) - Math.max(one.left, two.left);
            const high = Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top);
            if (wide > 1 && high > 3) found.push(`${a} over ${b}`);
        }));
    }
    return found;
}"""

_PLOT_TEXTS = """(selector) => {
    const found = [];
    for (const plot of document.querySelectorAll(selector)) {
        const outer = plot.getBoundingClientRect();
        for (const text of plot.querySelectorAll("text")) {
            const part = text.getBoundingClientRect();
            const cut = part.left < outer.left - 1 || part.right > outer.right + 1;
            if (part.width && cut) found.push(text.textContent);
        }
    }
    return found;
}"""


_CUT = """(view) => {
    const found = [];
    for (const table of document.querySelectorAll(`#${view} table`)) {
        if (!table.checkVisibility()) continue;
        const box = table.closest(".scroll");
        if (!box) {
            found.push(["no box to scroll in", table.textContent.slice(0, 40)]);
            continue;
        }
        const label = box.getAttribute("aria-label");
        const across = box.scrollWidth - box.clientWidth > 1;
        const down = box.scrollHeight - box.clientHeight > 1;
        const reached = box.getAttribute("role") === "region" && box.tabIndex === 0;
        if (reached !== (across || down)) found.push(["keyboard", label]);
        const fade = getComputedStyle(box.parentElement, "::after").backgroundSize;
        if (fade.includes("36px 100%") !== across) found.push(["no fade at the right", label, fade]);
        if (fade.includes("100% 28px") !== down) found.push(["no fade below", label, fade]);
        for (const cell of table.querySelectorAll("th, td")) {
            const { overflowX } = getComputedStyle(cell);
            if (cell.clientWidth && overflowX === "visible" && cell.scrollWidth > cell.clientWidth + 1)
                found.push(["text leaves its cell", label, cell.textContent.slice(0, 40)]);
        }
    }
    return found;
}"""

_OUT_OF_CARD = """() => [...document.querySelectorAll(".card > header > *")]
    .filter((one) => one.checkVisibility())
    .filter((one) => one.getBoundingClientRect().right > one.closest(".card").getBoundingClientRect().right)
    .map((one) => one.textContent)"""

_SIDEWAYS = """(view) => [...document.querySelectorAll(`#${view} .scroll`)]
    .filter((box) => box.checkVisibility() && box.scrollWidth - box.clientWidth > 1)
    .map((box) => box.getAttribute("aria-label"))"""

_HEAD_IN_FRONT = """(box) => {
    box.scrollIntoView({ block: "center" });
    const head = box.querySelector("thead th");
    const { left, bottom } = head.getBoundingClientRect();
    return document.elementFromPoint(left + 4, bottom - 4) === head;
}"""

RUNS_READY = "#run-command:has-text('-m runners')"
"""The page of runs knows what it would start, which it asks the server for last."""
TABLES = [
    ("explore", f"{EIGHT_GPUS}&sweep=training.seq_len", []),
    ("search", "/?view=search", []),
    ("runs", "/?view=runs", []),
    (
        "measurements",
        "/?view=measurements&measured=none&pin=s:recompute%3Dfull&pin=m:1-llama3.2-1b-ddp-4xh200",
        None,
    ),
    ("studies", "/?view=studies&study=transformer-tables", ["MLP", "Self-attention"]),
    (
        "studies",
        "/?view=studies&study=deepflow-lstm",
        ["Plans on many chips"],
    ),
]
"""Pages with tables, and those of their tables that are too wide for 390 px."""


def _overflow(page: Page) -> int:
    wider = "() => [document.documentElement.scrollWidth - innerWidth].filter((wider) => wider > 0)"
    return len(at_last(page, wider))


_FIRST_SCREEN = """() => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const words = [];
    while (texts.nextNode()) {
        const { parentElement: own, textContent } = texts.currentNode;
        if (own.closest("script, .sr, select, noscript") || !own.checkVisibility()) continue;
        const range = document.createRange();
        range.selectNodeContents(texts.currentNode);
        const { top, bottom, width } = range.getBoundingClientRect();
        if (width && top < innerHeight && bottom > 0) words.push(...(textContent.match(/\\p{L}{2,}/gu) ?? []));
    }
    const parts = ["#tile-step-time", "#tile-peak-memory", "#step-time", "#roofline .plot", "#timeline .plot"];
    const below = parts.filter((one) => document.querySelector(one).getBoundingClientRect().bottom > innerHeight);
    return { words: words.length, below };
}"""


def test_the_first_screen_says_all_in_few_words(open_page):
    page = open_page()
    wait_for_figures(page)
    settled(page)
    found = page.evaluate(_FIRST_SCREEN)
    assert found["words"] <= 250
    assert found["below"] == []
    # neither name of A and B is pressed out of the bar
    assert page.locator("#ab .names").evaluate_all("all => all.filter((one) => one.clientWidth < 40).length") == 0
    # what nothing stands beside has the whole row, as the timeline of a profile whose chip is not known
    row = page.locator("#step-time").bounding_box()
    page.evaluate("document.querySelector('#roofline').hidden = true")
    alone = page.locator("#timeline").bounding_box()
    assert row
    assert alone
    assert alone["width"] == pytest.approx(row["width"])


_WIDEST = """(box) => {
    const labels = [...box.querySelectorAll("label")];
    const chosen = labels.find((one) => one.classList.contains("on"));
    const wide = labels.map((one) => {
        labels.forEach((other) => other.classList.toggle("on", other === one));
        const ends = labels.map((other) => other.getBoundingClientRect().right + other.scrollWidth - other.clientWidth);
        return Math.max(...ends) - box.closest("section").getBoundingClientRect().right;
    });
    labels.forEach((one) => one.classList.toggle("on", one === chosen));
    return Math.max(...wide);
}"""


def test_no_choice_is_wider_than_the_panel_whatever_is_chosen(visit):
    page = visit(EIGHT_GPUS)
    wait_for_figures(page)
    unfold(page)
    boxes = page.locator("#explore .panel .segments:visible").all()
    assert len(boxes) > 8
    assert [box.inner_text() for box in boxes if box.evaluate(_WIDEST) > 0] == []
    assert page.locator("#explore .panel").evaluate("(box) => box.scrollWidth - box.clientWidth") == 0


_LEAVING = """() => [...document.querySelectorAll("#explore .card :is(select, input, button)")].filter((one) =>
    one.checkVisibility() && !one.closest(".scroll")
    && one.getBoundingClientRect().right > one.closest(".card").getBoundingClientRect().right
).map((one) => one.outerHTML.slice(0, 60))"""

_ROOFS = """() => {
    const names = ["bf16", "tf32", "fp32"];
    const boxes = [...document.querySelectorAll("#roofline .annotation-text")]
        .filter((one) => names.includes(one.textContent)).map((one) => one.getBoundingClientRect());
    boxes.sort((one, other) => one.top - other.top);
    return boxes.slice(1).map(({ top }, at) => top - boxes[at].top);
}"""


def test_narrow_a_profile_has_its_numbers_and_menus_within_their_cards(open_page, drop):
    page = open_page("/?measured=none", width=390)
    wait_for_figures(page)
    drop(page, ROOT / "tests" / "reference" / "kineto" / "h200_ddp_amp.json.gz")
    expect(page.locator("#explore .whose")).to_contain_text("not confirmed")
    wait_for_causes(page)
    turn(page, (390, "light"), height=5000)  # draws every figure
    page.wait_for_selector("#roofline .annotation-text", state="attached")
    settled(page)
    assert at_last(page, _LEAVING) == []
    assert at_last(page, _PLOT_TEXTS, "#explore .plot") == []
    band = page.locator("#explore .remedies").bounding_box()
    assert band
    assert band["height"] < 160, "a sentence of what binds has no room for three remedies below it"
    gaps = page.evaluate(_ROOFS)
    assert len(gaps) == 2
    assert min(gaps) > 12


_WIDER = """(box) =>
    Math.max(...[box, ...box.children].map(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth))"""


def test_narrow_a_dialog_shows_all_of_itself(visit):
    page = visit("/", width=390)
    wait_for_figures(page)
    for key in ("u", "?", "Control+k"):
        page.keyboard.press(key)
        dialog = page.locator("dialog[open]")
        expect(dialog).to_be_visible()
        for folded in dialog.locator("summary").all():
            folded.click()
        if key == "u":  # an empty box says what it wants
            dialog.get_by_role("button", name="Import text").click()
            expect(dialog.get_by_role("alert")).to_contain_text("Paste a table or a log")
        assert dialog.evaluate(_WIDER) <= 0, key
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()


def test_the_only_figure_of_a_study_takes_the_whole_width_of_a_tablet(visit):
    page = visit("/?view=studies&study=ulysses-16", width=768)
    expect(page.locator("#studies .study-drawings .plot .plot-container")).to_have_count(1)
    settled(page)
    figure, whole = (page.locator(one).bounding_box() for one in ("#study-figure-0", "#study-title"))
    assert figure is not None
    assert whole is not None
    assert figure["width"] == pytest.approx(whole["width"], abs=1)


@pytest.mark.parametrize("width", WIDTHS)
def test_explore(visit, width):
    page = visit(EIGHT_GPUS, width=width)
    wait_for_figures(page)
    for scheme in SCHEMES:
        turn(page, (width, scheme), height=4000)  # draws every figure
        expect(page.locator(f'html[data-theme="{scheme}"]')).to_be_attached()
        page.wait_for_selector("#roofline .plot .scatterlayer .point", state="attached")
        page.wait_for_selector("#timeline .plot .scatterlayer path", state="attached")
        settled(page)
        drawn = page.evaluate("document.querySelectorAll('#timeline .plot *').length")
        assert drawn < 500, "of thousands of blocks, none is an element of its own"
        assert _overflow(page) <= 0
        assert at_last(page, _OVERLAPS, ".tile") == []
        assert at_last(page, _PLOT_TEXTS, "#explore .plot") == []
    # what a figure says beside its title stays in its card, however long it is
    longest = (
        "ms; B: a typical step of 788 ms, not 909 ms; in pieces of 2 ms; 8 of 64 stages, and of each the first blocks"
    )
    page.locator("#timeline header .sub").evaluate("(sub, words) => { sub.textContent = words; }", longest)
    assert page.evaluate(_OUT_OF_CARD) == []
    tile = page.locator("#tile-step-time").bounding_box()
    figure = page.locator("#step-time").bounding_box()
    assert tile is not None
    assert figure is not None
    assert tile["y"] < 200, "the headline comes first"
    assert figure["y"] < (900 if width > 600 else 844), "the step time begins on the first screen"


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_other_pages(visit, width, scheme):
    page = visit("/?view=runs&pin=s:recompute%3Dfull", width=width, scheme=scheme)
    for key, view, content in (("2", "runs", RUNS_READY), ("3", "measurements", "#items [data-item]")):
        page.keyboard.press(key)
        expect_view(page, view)
        page.wait_for_selector(content, state="attached")
        settled(page)
        assert _overflow(page) <= 0
        assert at_last(page, _PLOT_TEXTS, f"#{view} .plot") == []


@pytest.mark.parametrize(("view", "path", "sideways"), TABLES)
def test_narrow_tables_fit_or_show_that_they_go_on(visit, view, path, sideways):
    page = visit(path, width=390)
    expect_view(page, view)
    if view == "runs":
        page.wait_for_selector(RUNS_READY, state="attached")
    else:
        page.wait_for_selector(f"#{view} tbody tr:visible")
    settled(page)
    if sideways is not None:  # what other tests imported is in the table of measurements, too
        # the study of the test before stays until this one has come
        same = f"([view, wanted]) => JSON.stringify(({_SIDEWAYS})(view)) === JSON.stringify(wanted)"
        wait_until(page, same, [view, sideways])
        settled(page)
        assert page.evaluate(_SIDEWAYS, view) == sideways
    assert _overflow(page) <= 0
    assert page.evaluate(_CUT, view) == []
    toggles = page.locator(f"#{view} main .acts button[aria-label$=': Table']").all()
    toggled = [toggle for toggle in toggles if toggle.is_visible()]
    for toggle in toggled:
        toggle.click()
    settled(page)
    assert _overflow(page) <= 0
    assert page.evaluate(_CUT, view) == []
    for toggle in toggled:  # the next test finds figures
        toggle.click()


def test_narrow_a_table_scrolled_to_its_end_keeps_the_names_of_its_rows(visit):
    page = visit(EIGHT_GPUS, width=390)
    wait_for_figures(page)
    page.get_by_role("button", name="every column").click()
    box = page.get_by_role("region", name="Every column of every op")
    around = page.locator(".scroller", has=box)
    expect(around).to_have_class("scroller more-right more-down")
    box.focus()
    page.keyboard.press("ArrowRight")
    expect(around).to_have_class(re.compile("more-left"))
    assert box.evaluate(_HEAD_IN_FRONT), "names pass behind the headings"
    box.evaluate("box => box.scrollTo(box.scrollWidth, box.scrollHeight)")
    assert box.evaluate(_HEAD_IN_FRONT), "names pass behind the headings"
    expect(around).to_have_class("scroller more-left")
    name, last = box.locator("tbody tr").last.locator("td").first, box.locator("tbody tr").last.locator("td").last
    edges = box.bounding_box()
    first_cell, last_cell = name.bounding_box(), last.bounding_box()
    assert edges is not None
    assert first_cell is not None
    assert last_cell is not None
    assert abs(first_cell["x"] - edges["x"]) <= 1
    assert last_cell["x"] + last_cell["width"] <= edges["x"] + edges["width"] + 1
    assert first_cell["x"] + first_cell["width"] < last_cell["x"]


_CLIPPED = "all => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"
_LABELS = """() => [...document.querySelectorAll("#items-chart .xtick text")].map((one) => {
    const { left, right } = one.getBoundingClientRect();
    return [left, right, one.textContent];
}).filter(([left, , text], at, all) => at && left < all[at - 1][1]).map(([, , text]) => text)"""


_TICKS = """async (count) => {
    const items = [...Array(count).keys()].map((at) => ({ label: `a measurement ${at}`, values: { s: 1 + at } }));
    const up = { key: "s", title: "s", write: String };
    const given = { groups: [{ name: "", items }], up, across: null, colour: () => "#000", narrow: false, width: 1200 };
    const { layout } = (await import(js("figures/items"))).itemsFigure(given);
    return [layout.xaxis, layout.yaxis].map(({ ticktext = [] }) => ticktext.length);
}"""


_SIDES = """async (width) => {
    const row = { cause: "", name: "", token: "blue", words: "", first: true, a_s: null, b_s: null, title: "" };
    const rows = [[1, 1], [1.45, -0.05]].map(([from_s, seconds]) => ({ ...row, from_s, seconds }));
    const given = { a: null, b: null, rows, names: [], selected: "", colour: () => "#000000", muted: false, width };
    const { waterfall } = await import(js("figures/waterfall"));
    return waterfall({ ...given, narrow: true, tight: true }).data.at(-1).textposition.at(-1);
}"""


def test_names_below_bars_have_room_and_what_is_cut_tells_the_whole(visit):
    page = visit("/?view=measurements&measured=none", width=640)
    page.wait_for_selector("#items-chart .xtick text")
    settled(page)
    assert at_last(page, _LABELS) == []
    widths = page.locator("#items .name").evaluate_all("all => all.map((one) => one.clientWidth)")
    assert widths
    assert min(widths) > 150, "beside the other columns names keep room to be told apart"
    turn(page, (1440, "light"))
    cut = page.locator("#items-chart .sub")
    cut.evaluate("(one) => { one.style.maxWidth = '40px'; one.style.overflow = 'hidden'; }")
    cut.hover()
    expect(cut).to_have_attribute("title", "click: B · hatched: predicted")
    assert page.evaluate(_TICKS, 12) == [12, 0]
    assert page.evaluate(_TICKS, 13) == [0, 13], "more bars than have room below lie, so that each is named"
    assert page.evaluate(_TICKS, 31)[0] == 0
    assert page.evaluate(_SIDES, 300) == "middle left", "beside the end of its bar"
    assert page.evaluate(_SIDES, 120) == "middle right", "on the other side, where the page has not the room for it"


def test_narrow_the_scenario_is_a_sheet_over_live_figures(visit):
    page = visit(EIGHT_GPUS, width=390)
    wait_for_figures(page)
    panel = page.locator("#explore .panel")
    expect(panel).not_to_be_visible()
    assert page.locator(".strip dt span").evaluate_all(_CLIPPED) == []
    edge = page.locator("#explore .sheet-button").bounding_box()
    assert edge is not None
    assert (edge["x"], edge["width"], edge["y"] + edge["height"]) == (0, 390, 844), "it stands along the whole edge"
    page.locator("#explore .sheet-button").click()
    expect(panel).to_be_visible()
    wait_for_axis(page, "plan.tp")
    before = headline(page)
    page.locator('[data-field="plan.tp"] input[type=range]').focus()
    page.keyboard.press("ArrowRight")
    settled(page)
    assert headline(page) != before
    box = page.locator("#tile-step-time").bounding_box()
    sheet = panel.bounding_box()
    assert box is not None
    assert sheet is not None
    assert box["y"] + box["height"] <= sheet["y"] + 1, "the step time stays in sight"
    page.keyboard.press("Escape")
    expect(panel).not_to_be_visible()
