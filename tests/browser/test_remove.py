"""Deleting: a run and an uploaded file go when asked twice, with what the page showed of them."""

from __future__ import annotations

import json
import urllib.request

import pytest
from playwright.sync_api import expect

from tests.app.waiting import until
from tests.browser.looking import expect_view, wait_for_figures
from tests.browser.server import ROOT

pytestmark = pytest.mark.browser

LONG = "a grid to delete, named at length"
GRID = ROOT / "tests" / "reference" / "h200" / "recompute-1.json"


def test_an_upload_is_deleted_when_asked_twice_and_is_no_more_open(open_page, drop, tmp_path):
    path = tmp_path / "grid.json"
    path.write_text(json.dumps(json.loads(GRID.read_text()) | {"label": LONG}))
    page = open_page("/?view=measurements&measured=none")
    drop(page, path)
    line = page.locator("#items [data-item]", has_text=LONG)
    expect(line).to_have_count(1)
    expect(page.locator("#details", has_text=LONG)).to_be_visible()
    delete = line.get_by_role("button", name=f"Delete {LONG}", exact=True)
    page.set_viewport_size({"width": 800, "height": 900})
    box, kind = delete.bounding_box(), line.locator("td").nth(2).bounding_box()
    assert box["x"] + box["width"] <= kind["x"], "it lies over no other column"
    page.set_viewport_size({"width": 1440, "height": 900})
    delete.click()
    expect(line).to_have_count(1)
    line.get_by_role("button", name=f"Delete {LONG} for good").click()
    expect(line).to_have_count(0)
    expect(page.locator("#details")).to_be_hidden()
    assert "open=" not in page.url
    page.reload()
    expect(page.locator("#items [data-item]").first).to_be_visible()
    expect(page.locator("#items [data-item]", has_text=LONG)).to_have_count(0)


def test_one_of_several_of_a_file_cannot_be_deleted_alone(open_page, drop, tmp_path):
    grid = json.loads(GRID.read_text())
    path = tmp_path / "two.json"
    path.write_text(json.dumps([grid | {"label": "part one"}, grid | {"label": "part two"}]))
    page = open_page("/?view=measurements&measured=none")
    drop(page, path)
    group = page.locator("#items [data-item]", has_text="part one and 1 more")
    expect(group.get_by_role("button", name="Delete part one and 1 more", exact=True)).to_have_count(1)
    page.get_by_label("Filter measurements").fill("part two")
    expect(page.locator("#items [data-item]", has_text="part two")).to_have_count(1)
    expect(page.locator("#items").get_by_role("button", name="Delete part")).to_have_count(0)


@pytest.fixture
def run_id(server):
    """A small run that has ended, with its measurement."""
    job = json.dumps({"benchmark": "precision", "device": "cpu", "label": "a run to delete"}).encode()
    kind = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{server.url}/api/runs", job, kind)) as answer:
        found = json.load(answer)["id"]
    until(lambda: server.get(f"/api/runs/{found}")["measurement_id"])
    return found


def test_a_run_is_deleted_with_its_result(open_page, run_id):
    page = open_page(f"/?view=runs&measured={run_id}&run={run_id}")
    row = page.locator(f'[data-run="{run_id}"]')
    expect(page.locator("#run-tables")).to_be_visible()
    row.get_by_role("button", name="Delete run", exact=True).click()
    row.get_by_role("button", name="Delete run for good").click()
    expect(row).to_have_count(0)
    expect(page.locator("#run-tables")).to_be_hidden()
    expect(page.locator("#runs h3", has_text="Log")).to_be_hidden()
    assert run_id not in page.url
    page.locator('.tabs [data-view="explore"]').click()
    expect_view(page, "explore")
    wait_for_figures(page)
