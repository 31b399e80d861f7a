"""What is not on the screen has its place: a jump shows what is there, and nothing moves under the reader."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route

from tests.browser.looking import EIGHT_GPUS, settled, wait_for_figures, wait_until

pytestmark = pytest.mark.browser

DEEP = (
    "/?model=deepseek-v3&chip=h100-sxm&nodes=256&chips_per_node=8&dp=128&pp=16&tp=1&ep=64&schedule=1f1b&seq_len=4096"
    "&global_batch=15360&precision=fp8&framework=megatron&sharding=zero1&micro_batch=1&measured=none"
)


_LAID_OUT = """async () => {
    const [{ timelineOf }, { state }] = await Promise.all([import(js("pair")), import(js("state"))]);
    return Boolean(timelineOf(state.pair.a.scenario));
}"""


def _places(page: Page, view: str) -> list[float]:
    """Top of every card that is drawn, from the top of the page."""
    return page.locator(f"#{view} main .card").evaluate_all(
        """cards => cards.filter((card) => card.getClientRects().length)
          .map((card) => Math.round(card.getBoundingClientRect().top + scrollY))"""
    )


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("path", [EIGHT_GPUS, DEEP], ids=["llama", "deepseek"])
def test_neither_a_late_answer_nor_a_jump_to_the_last_table_moves_anything(open_page, server, path, width):
    page = open_page("/api/health", width=width)
    held: list[Route] = []
    late = [True]
    page.route("**/api/timeline*", lambda route: held.append(route) if late else route.continue_())
    page.goto(server.url + path)
    wait_for_figures(page)
    settled(page)
    before = _places(page, "explore")
    # what a busy machine answers late finds its place kept
    while not held:
        page.wait_for_timeout(40)
    late.clear()
    for route in held:
        route.continue_()
    wait_until(page, _LAID_OUT)
    settled(page)
    assert _places(page, "explore") == before
    # remedies come when all else stands, and have their place before
    wait_until(page, "async () => Boolean((await import(js('state'))).state.remedies)")
    assert page.locator("#layers tbody tr").count() > 10, "drawn before anyone looks"
    page.evaluate("document.querySelector('#layers').scrollIntoView()")
    settled(page)
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight / 2)")
    settled(page)
    assert _places(page, "explore") == before


def test_a_jump_over_figures_of_a_study_moves_nothing(open_page):
    page = open_page("/?view=studies&study=deepflow-lstm")
    page.wait_for_selector("#path-plans tbody tr", state="attached")
    page.wait_for_selector("#study-figures tbody tr", state="attached")
    page.wait_for_function("() => document.querySelector('#path-llama .legend').children.length > 1")
    settled(page)
    before = _places(page, "studies")
    page.evaluate("document.querySelector('#study-figures').scrollIntoView()")
    settled(page)
    page.evaluate("scrollTo(0, 900)")
    settled(page)
    assert _places(page, "studies") == before


def test_words_in_the_tray_do_not_pile_up(open_page):
    page = open_page("/?view=studies")
    said = page.evaluate(
        """async () => {
          const { toast } = await import(js("views/common/toast"));
          for (const text of ["a", "b", "a", "c", "d", "d", "e"]) toast(text);
          return [...document.querySelectorAll(".toast")].map((one) => one.textContent);
        }"""
    )
    assert said == ["e", "d", "c"]
    # and what lies under them can be pressed
    under = page.locator(".toast").first.evaluate(
        """(toast) => {
            const { left, top, width, height } = toast.getBoundingClientRect();
            return document.elementFromPoint(left + width / 2, top + height / 2).className;
        }"""
    )
    assert under != "toast"
