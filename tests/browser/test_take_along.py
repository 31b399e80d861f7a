"""What is taken along: panels in four forms, the page as a report that opens offline, both open again; terms, tour."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.looking import query, settled, wait_for_causes, wait_for_figures
from tests.browser.server import ROOT


def _saved(page: Page, folder: Path, what: str, text: str) -> Path:
    page.get_by_label(f"{what}: Save").click()
    with page.expect_download() as download:
        page.get_by_role("button", name=f"{what}: download {text}").click()
    target = folder / download.value.suggested_filename
    download.value.save_as(target)
    return target


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    page = open_page("/?tp=2&dp=2")
    wait_for_figures(page)
    wait_for_causes(page)
    return page


def test_a_panel_in_four_forms(page: Page, tmp_path: Path) -> None:
    assert _saved(page, tmp_path, "Roofline", "PNG").read_bytes().startswith(b"\x89PNG")
    svg = _saved(page, tmp_path, "Roofline", "SVG").read_text()
    assert svg.startswith("<svg")
    assert "Roofline" in svg
    assert "FLOP per byte" in svg, "texts stay texts"
    rows = _saved(page, tmp_path, "Roofline", "CSV").read_text().splitlines()
    document = json.loads(_saved(page, tmp_path, "Roofline", "JSON").read_text())
    (table,) = document["panel"]["tables"]
    assert len(table["rows"]) == len(rows) - 1
    assert {"name": "achieved", "unit": "FLOP/s"} in table["columns"]
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Kernels").click()
    assert json.loads(_saved(page, tmp_path, "Kernels", "JSON").read_text())["panel"]["tables"][0]["rows"]


def test_a_report_opens_offline_and_again_here(page: Page, open_page: OpenPage, tmp_path: Path, drop: Any) -> None:
    report = _saved(page, tmp_path, "Page", "Report (HTML)")
    text = report.read_text()
    assert 'http-equiv="Content-Security-Policy" content="default-src \'none\'' in text, "nothing is fetched"
    asked: list[str] = []
    alone = page.context.new_page()
    alone.on("request", lambda request: asked.append(request.url))
    alone.goto(report.as_uri())
    for shown in ("Step time", "Roofline", "Timeline", "Per layer", "Kernels", "Communication", "Memory", "Assumed"):
        assert alone.get_by_text(shown, exact=True).count() or shown == "Step time", shown
    expect(alone.locator(".plot .main-svg").first).to_be_visible()
    assert alone.locator(".plot:not(:has(.main-svg))").count() == 0, "every figure is drawn"
    assert asked == [report.as_uri()]
    alone.close()
    for file in (report, _saved(page, tmp_path, "Page", "JSON")):
        other = open_page("/?view=runs")
        drop(other, file)
        expect(other.locator("#explore")).to_be_visible()
        assert query(other, "tp") == "2"
        settled(other)


def test_what_the_other_server_lacks_comes_with_the_file(open_page: OpenPage, tmp_path: Path, drop: Any) -> None:
    page = open_page(refusals=(422,))
    wait_for_figures(page)
    result = json.loads((ROOT / "tests" / "reference" / "cpu_step" / "result.json").read_text())
    taken = [{"id": "broken", "kernels": 5}, result | {"id": "not-here", "label": "from elsewhere"}]
    link = "?a=plan&b=m%3Anot-here&measured=not-here"
    file = tmp_path / "page.json"
    file.write_text(json.dumps({"headroom": "page", "version": 1, "link": link, "measurements": taken}))
    drop(page, file)
    expect(page.locator("#ab .side-b")).to_contain_text("from elsewhere")
    expect(page.get_by_text("Opened, with 1 measurement from the file, without broken")).to_be_visible()
    assert query(page, "measured") not in ("not-here", None)


def test_terms_say_what_they_are_and_the_tour_goes_through(page: Page) -> None:
    page.locator("#tile-mfu dt span").first.hover()
    expect(page.get_by_role("tooltip")).to_contain_text("arXiv 2204.02311")
    page.mouse.move(0, 0)
    expect(page.get_by_role("tooltip")).to_be_hidden()
    page.keyboard.press("o")
    tour = page.get_by_role("dialog", name="A and B")
    expect(tour).to_be_visible()
    titles = []
    for _ in range(9):
        titles.append(page.locator(".tour b").inner_text())
        page.keyboard.press("Enter")
        if page.locator(".tour").is_hidden():
            break
    assert len(titles) == len(set(titles)) == 7
