"""The table of layers: every column and its CSV, and kinds of layers apart."""

from __future__ import annotations

import csv
import io

import pytest
from playwright.sync_api import expect

from tests.browser.looking import EIGHT_GPUS, bring_into_view, number, wait_for_figures

pytestmark = pytest.mark.browser


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
        card.get_by_label("Per layer: Save").click()
        card.get_by_role("button", name="Per layer: download CSV").click()
    rows = list(csv.DictReader(io.StringIO(waiting.value.path().read_text())))
    assert table.locator("tbody tr").count() == len(rows)
    # what of the step no layer has stands last, and all shares add to the step
    expect(table).to_contain_text("optimizer")
    assert sum(float(row["share_frac"]) for row in rows) == pytest.approx(1)
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
    expect(groups.nth(-2)).to_contain_text("Optimizer")
    expect(groups.last).to_contain_text("Beside the ops")
    box = page.locator("#layers .scroll:not(.every)")
    assert box.evaluate("box => box.scrollWidth - box.clientWidth") <= 0, "shapes of experts break their lines"
    page.get_by_role("button", name="whole step").click()
    shares = page.locator("#layers .scroll:not(.every) tbody td:last-child").all_inner_texts()
    assert sum(number(text) for text in shares if text.strip()) == pytest.approx(100, abs=1)
