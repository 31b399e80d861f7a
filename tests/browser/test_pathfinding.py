"""Pathfinding: sliders move time, overflow and what binds; the figures, the search, plans and corrections are there."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import LOOKS
from tests.browser.looking import at_last, number, query, settled, turn
from tests.browser.test_layout import _PLOT_TEXTS, _overflow

pytestmark = pytest.mark.browser

PAGE = "/?view=studies&study=deepflow-lstm"
CARDS = ("path-time", "path-memory", "path-roofline", "path-llama", "path-sweep")


def _open(open_page, **options) -> Page:
    page = open_page(PAGE, **options)
    expect(page.locator("#path-tile-time dd").first).to_contain_text("303")
    expect(page.locator("#path-plans tbody tr").first).to_be_attached()
    settled(page)
    assert page.evaluate("document.documentElement.scrollHeight") <= 2 * 900, "no page is longer than two screens"
    for folded in ("Llama layer", "As the reference has it"):
        page.locator("#pathfinding summary", has_text=folded).click()
    page.set_viewport_size({"width": options.get("width", 1440), "height": 6000})
    for card in CARDS:
        expect(page.locator(f"#{card} .plot .plot-container")).to_be_attached()
    settled(page)
    return page


def _traces(page: Page, card: str) -> dict[str, dict]:
    return page.evaluate(
        """(id) => Object.fromEntries(document.querySelector(`#${id} .plot`).data.map(
            ({ name, x, y, orientation }) => [name, { x: [...x], y: [...y], orientation }]))""",
        card,
    )


def _slide(page: Page, name: str, steps: int) -> None:
    """Move a slider as a hand does, and let it go."""
    page.evaluate(
        """([name, steps]) => {
            const range = document.querySelector(`[data-input="${name}"] input`);
            range.value = String(Number(range.value) + steps);
            range.dispatchEvent(new Event("input", { bubbles: true }));
        }""",
        [name, steps],
    )


def _release(page: Page, name: str) -> None:
    page.evaluate(
        """(name) => document.querySelector(`[data-input="${name}"] input`)
            .dispatchEvent(new Event("change", { bubbles: true }))""",
        name,
    )


def _time_s(page: Page) -> float:
    return number(page.locator("#path-tile-time dd").first.inner_text())


def test_the_figures_hold_the_studys_numbers_the_best_plan_is_marked_and_nothing_overflows(open_page):
    page = _open(open_page)
    (bars,) = _traces(page, "path-time").values()
    assert sum(bars["x" if bars["orientation"] == "h" else "y"]) == pytest.approx(302.888, abs=0.001)
    kept = _traces(page, "path-memory")
    assert set(kept) == {"weights", "activations", "pointwise"}
    total = sum(sum(one["x" if one["orientation"] == "h" else "y"]) for one in kept.values())
    assert total == pytest.approx(198.7629 * 1.073741824, abs=0.01)
    expect(page.locator("#path-tile-overflow dd").first).to_contain_text("7.41")
    expect(page.locator("#path-tile-shares dd").first).to_contain_text("109")
    own = _traces(page, "path-roofline")
    assert {"memory", "L2", "at memory", "at L2"} == set(own)
    assert len(own["at memory"]["x"]) == 6
    llama = _traces(page, "path-llama")
    assert {"memory", "L2", "shared memory", "registers"} <= set(llama)
    assert len(llama["at registers"]["x"]) == len(llama["at memory"]["x"]) > 10
    assert min(llama["at memory"]["x"]) > max(llama["at registers"]["x"])
    first = page.locator("#path-plans tbody tr").first
    expect(first.locator("td").first).to_have_text("best")
    assert page.locator("#path-plans tbody td", has_text="best").count() == 1
    expect(page.locator("#path-plans .sub")).to_contain_text("512 chips")
    row = page.locator("#path-corrections tbody tr", has_text="result: Time")
    expect(row.first.locator("td").nth(1)).to_have_text("303")
    expect(row.first.locator("td").nth(2)).to_have_text("111")
    expect(row.first.locator("td").nth(4)).to_have_text("[1]")
    expect(page.locator("#path-corrections ol li")).to_have_count(7)
    for look in LOOKS:
        turn(page, look, height=6000)
        settled(page)
        assert _overflow(page) <= 0
        assert at_last(page, _PLOT_TEXTS, "#pathfinding .plot") == []


def test_a_slider_moves_the_headline_before_it_is_let_go_and_with_it_what_binds(open_page):
    page = _open(open_page)
    expect(page.locator("#path-tile-binds dd").first).to_contain_text("compute")
    _slide(page, "core_power_frac", 60)
    expect(page.locator("#path-tile-time dd").first).not_to_contain_text("303")
    assert _time_s(page) < 303
    assert query(page, "set") is None
    _release(page, "core_power_frac")
    page.wait_for_function("() => new URLSearchParams(location.search).get('set')?.startsWith('core_power_frac=')")
    before = page.locator("#path-tile-overflow dd").first.inner_text()
    _slide(page, "dram_power_frac", 60)
    expect(page.locator("#path-tile-overflow dd").first).not_to_have_text(before)
    time_s = _time_s(page)
    _slide(page, "dram_power_frac", -460)
    _release(page, "dram_power_frac")
    page.wait_for_function(
        "(s) => !document.querySelector('#path-tile-time dd').innerText.startsWith(s)", arg=f"{time_s:g}"
    )
    _slide(page, "dram_j_per_bit", 400)
    expect(page.locator("#path-tile-binds dd").first).to_contain_text("memory")


def test_the_search_shows_its_way(open_page):
    page = _open(open_page)
    page.get_by_role("button", name="Find the best split").click()
    page.wait_for_function("() => document.querySelector('#path-search .plot').data?.length === 6")
    found = _traces(page, "path-search")
    assert found["time"]["y"][0] == pytest.approx(302.888, abs=0.001)
    assert found["time"]["y"][-1] < 110
    assert set(found) == {"compute", "memory", "L2", "shared memory", "time", "best"}


def test_the_layer_follows_chip_and_mode(open_page):
    page = _open(open_page)
    before = _traces(page, "path-llama")
    page.locator("#path-llama select").first.select_option("mi300x")
    page.wait_for_function(
        "() => document.querySelector('#path-llama .plot').data.some((one) => one.name === 'Infinity Cache')"
    )
    assert _traces(page, "path-llama") != before
    page.locator("#path-llama button", has_text="Table").click()
    expect(page.locator("#path-llama tbody tr").first).to_contain_text("q projection")


def test_inputs_that_cannot_be_are_said_and_the_last_figures_stay(open_page):
    page = open_page(f"{PAGE}&set=l2_tile%3D4096", refusals=(422,))
    expect(page.locator("#pathfinding > .problem")).to_contain_text("897")


def test_other_studies_do_not_show_it(open_page):
    page = open_page("/?view=studies&study=ulysses-16")
    expect(page.locator("#study-figures tbody tr").first).to_be_attached()
    expect(page.locator("#pathfinding")).not_to_be_visible()
