"""Recipes whose end is on the page: the slider of a plan's parameter, a figure."""

from __future__ import annotations

import functools
import http.server
import shutil
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Response, expect

from app.pages import BASIC_BUNDLE
from tests.browser.server import Server
from tests.recipes.following import ROOT, block, with_loss_chunks


@pytest.mark.browser
def test_plan_parameter_on_the_page(tmp_path: Path, browser: BrowserContext):
    with_loss_chunks(tmp_path, "estimator", "runners", "app", "static")
    server = Server(tmp_path / "data", root=tmp_path)
    try:
        page = browser.new_page()
        page.goto(server.url)
        with page.expect_response(lambda answer: _field(answer) == "plan.loss_chunks") as fetched:
            page.locator(".more summary").click()
        points = fetched.value.json()["points"]
        page.get_by_role("slider", name="Loss computed in").focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_function("() => new URLSearchParams(location.search).get('loss_chunks') === '2'")
        expect(page.locator(".more .chosen")).to_contain_text("loss chunks 2")
        page.close()
    finally:
        server.stop()
    assert [point["value"] for point in points] == [1, 2, 4, 8, 16, 32, 64]
    logits = [point["estimate"]["memory"]["by_kind"]["logits"] for point in points]
    assert sorted(logits, reverse=True) == logits
    assert logits[0] > logits[-1]


def _field(answer: Response) -> object:
    """The field whose axis a response is of."""
    return (answer.request.post_data_json or {}).get("field") if answer.request.post_data else None


@pytest.fixture
def page_folder(tmp_path: Path) -> Iterator[str]:
    """URL of a copy of the page's files, which may be added to."""
    copy = tmp_path / "static"
    shutil.copytree(ROOT / "static", copy)
    (copy / "blank.html").write_text(
        f"<!doctype html><title>figure</title><script src='{BASIC_BUNDLE.as_posix()}'></script><div id=at>"
    )
    handler = functools.partial(_Quiet, directory=str(copy))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.mark.browser
def test_figure(page_folder: str, tmp_path: Path, browser: BrowserContext):
    (tmp_path / "static" / "js" / "figures" / "bandwidth.js").write_text(block("js static/js/figures/bandwidth.js"))
    collectives = [
        {"kind": "all_reduce", "bytes": 2**power, "bus_bytes_per_s": 2e11 * 2**power / (2**power + 2**20)}
        for power in range(10, 28, 2)
    ]
    draw = textwrap.dedent("""
        async (collectives) => {
            const { bandwidth } = await import("/js/figures/bandwidth.js");
            const figure = bandwidth({ collectives, colour: (token) => ({ font: "sans-serif" })[token] ?? "#336699" });
            await Plotly.newPlot("at", figure.data, figure.layout);
            const points = document.querySelectorAll("#at .scatterlayer .point");
            return [figure.summary, figure.table.rows.length, points.length];
        }
    """)
    page = browser.new_page()
    page.goto(f"{page_folder}/blank.html")
    summary, rows, points = page.evaluate(draw, collectives)
    page.close()
    assert summary == "Bus bandwidth of 9 collectives, at best 197 GB/s."
    assert rows == points == len(collectives)
