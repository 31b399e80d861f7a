"""Studies: chosen, changed, refused; their figures beside the printed ones; wide and narrow, light and dark."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import LOOKS
from tests.browser.looking import at_last, expect_view, query, settled
from tests.browser.test_layout import _PLOT_TEXTS, _overflow

pytestmark = pytest.mark.browser


NARROW_PX = 601


def _ready(page: Page, name: str) -> None:
    expect_view(page, "studies")
    expect(page.locator(".study-list [aria-current] b")).to_have_text(name)
    expect(page.locator("#study-figures tbody tr").first).to_be_attached()
    expect(page.locator("#study-figure-0 .plot .plot-container")).to_be_attached()
    settled(page)


def _value(page: Page, group: str, name: str) -> str:
    """Value of a figure as the table shows it."""
    page.get_by_label("Filter figures").fill(f"{group} {name}")
    row = page.locator("#study-figures tbody tr:not(.group)").first
    expect(row.locator("td").first).to_have_text(name)
    return row.locator("td").nth(1).inner_text().replace("\u202f", "")


def _drawn(page: Page, figure: str) -> list[list[float | None]]:
    """Numbers of every trace of a figure, along the axis that carries values."""
    return page.evaluate(
        """(id) => document.querySelector(`#${id} .plot`).data.map(
            ({ orientation, x, y }) => [...(orientation === "h" ? x : y)])""",
        figure,
    )


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_nothing_overflows_and_all_figures_are_drawn(open_page, server, width, scheme):
    page = open_page("/?view=studies&study=ulysses-16", width=width, scheme=scheme)
    for name in ("ulysses-16", "transformer-tables", "cs336-4d"):
        page.evaluate(
            """(name) => {
                history.pushState(null, "", `/?view=studies&study=${name}`);
                dispatchEvent(new PopStateEvent("popstate"));
            }""",
            name,
        )
        _ready(page, name)
        page.set_viewport_size({"width": width, "height": 5000})
        groups = {one["group"] for one in server.get(f"/api/studies/{name}")["series"]}
        rest = len(groups) - (2 if width < NARROW_PX else 4)
        if rest > 0:  # folded, so that the page is two screens
            folded = page.locator("#studies .study-drawings .more-figures:not([open]) > summary")
            expect(folded).to_have_text(f"{rest} more figure{'s' if rest > 1 else ''}")
            folded.click()
        expect(page.locator("#studies .plot .plot-container")).to_have_count(len(groups))
        settled(page)
        assert _overflow(page) <= 0
        assert at_last(page, _PLOT_TEXTS, "#studies .plot") == []
    tabs = page.locator(".tabs a").evaluate_all("links => links.map((link) => link.getBoundingClientRect().right)")
    assert max(tabs) < width
    page.set_viewport_size({"width": 768, "height": 5000})
    cut = """() => [...document.querySelectorAll("#study-figures .scroll")]
        .filter(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth > 1).map(() => "cut")"""
    assert at_last(page, cut) == [], "what is printed stands beside what is computed"


def test_the_figures_agree_with_what_is_printed(visit):
    page = visit("/?view=studies")
    _ready(page, "ulysses-16")
    expect(page.locator("#study-figures .sub")).to_contain_text("79 of 79 printed ones agree")
    assert _value(page, "5. compute attention", "peak memory allocation") == "60.65"
    page.get_by_role("button", name="transformer-tables").click()
    _ready(page, "transformer-tables")
    expect(page.get_by_label("Filter figures")).to_have_value("")
    expect(page.locator("#study-figures .sub")).to_contain_text("454 of 454 printed ones agree")
    marks = page.locator("#study-figures td:last-child").all_inner_texts()
    assert marks.count("✓") == 454
    assert "≠" not in marks
    assert query(page, "study") == "transformer-tables"


def test_an_input_changes_figures_curves_and_the_address(visit):
    page = visit("/?view=studies&study=ulysses-16")
    _ready(page, "ulysses-16")
    (peaks, *_) = _drawn(page, "study-figure-0")
    assert peaks[-1] == pytest.approx(61.02, abs=0.005)
    box = page.get_by_label("N", exact=True)
    box.fill("30000")
    box.press("Enter")
    expect(page.locator("#study-figures .sub")).not_to_contain_text("agree")
    settled(page)
    assert query(page, "set") == "N=30000"
    assert _value(page, "5. compute attention", "A [h/P, N, N] elements") == "7200000000"
    assert _drawn(page, "study-figure-0")[0][-1] == pytest.approx(17.204, abs=0.001)
    page.reload()
    _ready(page, "ulysses-16")
    expect(page.get_by_label("N", exact=True)).to_have_value("30000")
    page.get_by_role("button", name="Back to the reference").click()
    expect(page.locator("#study-figures .sub")).to_contain_text("79 of 79")
    assert query(page, "set") is None
    page.go_back()
    expect(page.get_by_label("N", exact=True)).to_have_value("30000")


def test_choices_and_several_inputs(visit):
    page = visit("/?view=studies&study=transformer-tables&set=mode=corrected&set=b=64&set=m=64&set=h=64")
    _ready(page, "transformer-tables")
    page.get_by_label("tp kind").select_option("2d")
    expect(page.locator("#studies figure h3").first).to_have_text("Time of each layer, 2d")
    settled(page)
    group = "one layer, corrected, 2d, 64 ranks"
    assert _value(page, group, "volume of the four linears, forward") == "2.86261"
    kinds = page.locator("#study-figure-1 .yaxislayer-above text").all_text_contents()
    assert kinds == ["1d", "2d", "2.5d, depth 4", "3d"]


def test_what_is_refused_stands_at_its_input_and_the_last_answer_stays(visit):
    page = visit("/?view=studies&study=ulysses-16", refusals=(422,))
    _ready(page, "ulysses-16")
    box = page.get_by_label("P", exact=True)
    box.fill("48")
    box.press("Enter")
    expect(page.locator("#study-input-P-problem")).to_be_hidden()
    expect(page.locator("#study-input-h-problem")).to_contain_text("128 is not a multiple of P = 48")
    expect(page.locator("#studies .notice")).to_contain_text("This cannot be reproduced.")
    assert page.locator("#study-figures tbody tr").count() > 80
    box.fill("8")
    box.press("Enter")
    expect(page.locator("#studies .notice")).to_have_count(0)
    expect(page.locator("#study-input-h-problem")).to_be_hidden()


def test_a_study_that_is_not_there(visit):
    page = visit("/?view=studies&study=nothing")
    expect(page.locator("#studies .notice")).to_contain_text("There is no study of the name nothing.")
    page.get_by_role("button", name="cs336-4d").click()
    _ready(page, "cs336-4d")
    expect(page.locator("#studies .notice")).to_have_count(0)
    degrees = _drawn(page, "study-figure-0")[0]
    assert degrees[0] == 38
    assert degrees[-1] is None


def test_narrow_the_inputs_are_a_sheet(visit):
    page = visit("/?view=studies&study=cs336-4d", width=390)
    _ready(page, "cs336-4d")
    panel = page.locator("#studies .panel")
    expect(panel).not_to_be_visible()
    page.locator("#studies .sheet-button").click()
    expect(panel).to_be_visible()
    box = page.get_by_label("tokens per device")
    box.fill("8192")
    box.press("Enter")
    settled(page)
    page.keyboard.press("Escape")
    assert _value(page, "(b) FSDP degree", "smallest degree, 8192 tokens per device") == "156"


def test_the_keyboard_opens_it_and_its_table_can_be_saved(open_page):
    page = open_page("/")
    expect_view(page, "explore")
    page.wait_for_selector("#tile-step-time dd:not(:empty)")
    page.keyboard.press("4")
    _ready(page, "ulysses-16")
    page.get_by_label("Figures: Save").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Figures: download CSV").click()
    lines = download.value.path().read_text().splitlines()
    assert lines[0] == "group,name,value,unit,printed"
    assert "5. compute attention,peak memory allocation,60.6" in "\n".join(lines)


def test_a_link_that_cannot_be_reproduced_shows_no_empty_cards(open_page):
    page = open_page("/?view=studies&study=cs336-4d&set=layers%3D0", refusals=(422,))
    expect(page.locator("#studies .notice")).to_contain_text("layers: 0 is out of range")
    expect(page.locator("#study-title")).to_be_visible()
    expect(page.locator("#study-figures")).to_be_hidden()
    expect(page.locator("#study-notes")).to_be_hidden()
    page = open_page("/?view=studies&study=nonsense")
    expect(page.locator("#studies .notice")).to_contain_text("Choose one of the list")
    expect(page.locator("#study-title")).to_be_hidden()


def test_a_study_is_its_tables_questions_and_a_pair_of_plans(visit) -> None:
    page = visit("/?view=studies&study=cs336-4d")
    _ready(page, "cs336-4d")
    pages = page.locator("#study-pages")
    expect(pages).to_contain_text("gathered for all m micro-batches")
    expect(pages).to_contain_text("82.44")
    visit("/?view=studies&study=transformer-tables")
    _ready(page, "transformer-tables")
    tables = pages.locator("section.card")
    expect(tables).to_have_count(2)
    expect(tables.first.locator("tbody tr").first.locator("td").first).to_have_text("fc1")
    expect(tables.first.locator(".sub")).to_contain_text("printed in this table agree")
    settled(page)
    assert page.evaluate("document.documentElement.scrollHeight") <= 2 * 900, "no page is longer than two screens"
    page.get_by_role("button", name="Open in A | B").click()
    expect_view(page, "explore")
    assert query(page, "tp_kind") == "2d"
    expect(page.locator("#ab .side-a")).to_be_visible()
