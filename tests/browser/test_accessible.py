"""Every page for everybody: axe-core finds nothing, at four widths and in both schemes, menus and tabs too."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.looking import settled, turn, wait_for_causes, wait_for_figures
from tests.browser.server import ROOT

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
LOOKS = ((390, "light"), (768, "dark"), (1440, "light"), (1920, "dark"))
FEW = LOOKS[:2]
"""What widths and schemes change is the same on every page but the first."""
FOUND = """async ([view, within]) => {
    const { violations } = await axe.run(within || document, { resultTypes: ["violations"] });
    const places = (nodes) => nodes.map(({ html }) => html.slice(0, 120)).join(" | ");
    return violations.map(({ id, nodes }) => `${view}: ${id}: ${places(nodes)}`);
}"""


def _looked_at(page: Page, view: str, looks: tuple[tuple[int, str], ...]) -> list[str]:
    found: list[str] = []
    for look in looks:
        turn(page, look)
        settled(page)
        found += page.evaluate(FOUND, [f"{view} {look}", ""])
    return found


def test_axe_finds_nothing_on_any_page(open_page: OpenPage) -> None:
    page = open_page()
    page.evaluate(AXE.read_text())
    wait_for_figures(page)
    wait_for_causes(page)
    # what a colour stands for stays where the system chooses the others
    page.emulate_media(forced_colors="active")
    hues = "all => new Set(all.map((one) => getComputedStyle(one).backgroundColor)).size"
    assert page.locator("#step-time .causes .swatch").evaluate_all(hues) > 3
    page.emulate_media(forced_colors="none")
    found = _looked_at(page, "explore", LOOKS)
    for tab in ("Kernels", "Communication", "Memory", "Assumed", "Configuration"):
        page.get_by_role("tab", name=tab).click()
        settled(page)
        found += page.evaluate(FOUND, [tab, f"#panel-{tab.lower()}"])
    page.get_by_role("button", name="Sweep Global batch").click()
    expect(page.locator("#sweep tbody tr").first).to_be_visible()
    settled(page)
    found += page.evaluate(FOUND, ["sweep", "#sweep"])
    page.get_by_label("Roofline: Save").click()
    found += page.evaluate(FOUND, ["menu", "#roofline"])
    for view in page.evaluate("async () => (await import(js('url'))).VIEWS"):
        if view == "explore":
            continue
        page.evaluate("async (view) => (await import(js('actions'))).show(view)", view)
        page.wait_for_selector(f"#{view}:not([hidden]) main", state="attached")
        expect(page.locator(f"#{view} h1")).to_have_count(1)
        found += _looked_at(page, view, FEW)
    assert found == []
