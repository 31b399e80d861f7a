"""Figures leave the page: as a table, as CSV, and as a picture that stands alone."""

from __future__ import annotations

import csv
import io
import re
import struct

import plotly.graph_objects
import pytest
from playwright.sync_api import Page, expect
from plotly.basedatatypes import BaseTraceType

from tests.browser.looking import EIGHT_GPUS, bring_into_view, wait_for_figures
from tests.browser.server import ROOT

pytestmark = pytest.mark.browser


def test_figures_have_table_csv_and_png(open_page):
    page = open_page(EIGHT_GPUS)
    wait_for_figures(page)
    _plotly_draws_every_type_of_trace_that_the_figures_name(page)
    page.get_by_role("tab", name="Memory").click()
    card = page.locator("#memory")
    card.get_by_role("button", name="Table").click()
    expect(card.locator("table")).to_contain_text("activations")
    card.get_by_role("button", name="Table").click()
    card.get_by_label("Memory: Save").click()
    with page.expect_download() as waiting:
        card.get_by_role("button", name="Memory: download CSV").click()
    rows = list(csv.reader(io.StringIO(waiting.value.path().read_text())))
    kinds = {row[0]: row[1] for row in rows[1:]}
    parts = sum(float(value) for kind, value in kinds.items() if kind not in ("peak", "reserved", "capacity"))
    assert parts == pytest.approx(float(kinds["peak"]))


def _plotly_draws_every_type_of_trace_that_the_figures_name(page: Page) -> None:
    drawn = set(page.evaluate("Object.keys(Plotly.PlotSchema.get().traces)"))
    kinds = [getattr(plotly.graph_objects, name) for name in dir(plotly.graph_objects)]
    traces = {one.__name__.lower() for one in kinds if isinstance(one, type) and issubclass(one, BaseTraceType)}
    figures = (ROOT / "static" / "js" / "figures").glob("*.js")
    named = {kind for figure in figures for kind in re.findall(r'\btype: "(\w+)"', figure.read_text())} & traces
    assert {"bar", "scatter"} <= named
    assert named <= drawn


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
                const names = (figure.layout.annotations ?? []).map(({ text }) => text);
                globalThis.titles = [xaxis.title?.text, yaxis.title?.text, ...names].filter(Boolean);
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
    page.get_by_role("tab", name="Memory").click()
    for card, words in (("Step time", "faster kernels"), ("Memory", "memory of one chip, GB"), ("Roofline", "TFLOP/s")):
        bring_into_view(page, f"#{card.lower().replace(' ', '-')}")
        page.evaluate("written.length = 0")
        page.get_by_label(f"{card}: Save").first.click()
        with page.expect_download() as waiting:
            page.get_by_role("button", name=f"{card}: download PNG").first.click()
        picture = waiting.value.path().read_bytes()
        assert picture.startswith(b"\x89PNG")
        width, height = struct.unpack(">II", picture[16:24])
        assert width >= 960
        assert height > 400
        written = page.evaluate("written")
        assert written[0].startswith("A → B" if card == "Step time" else card)
        said = " ".join(written)
        for text in ("A: predicted Llama 3.2 1B 4 × H200", "B: measured Llama 3.2 1B, DDP on 4 H200"):
            assert text in said, said
        assert "activations" in said if card == "Memory" else "matmul" in said
        assert page.evaluate("ground") == "#171b22"
        assert words in " ".join(page.evaluate("titles"))
