"""Recipes whose end is on the page: the slider of a plan's parameter, a figure. One server and one page have both."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, Response, expect

from tests.browser.server import Server
from tests.recipes.following import with_bandwidth, with_loss_chunks

TWO_RANKS = "?chips_per_node=2&dp=2&sharding=fsdp"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, browser: BrowserContext) -> Iterator[Page]:
    """A page of a copy of the project in which both recipes were followed, with a plan of two ranks."""
    place = tmp_path_factory.mktemp("followed")
    with_loss_chunks(place, "estimator", "runners", "app", "static")
    with_bandwidth(place)
    server = Server(place / "data", root=place)
    try:
        opened = browser.new_page()
        opened.goto(server.url + TWO_RANKS)
        yield opened
        opened.close()
    finally:
        server.stop()


@pytest.mark.browser
def test_plan_parameter_on_the_page(page: Page):
    with page.expect_response(lambda answer: _field(answer) == "plan.loss_chunks") as fetched:
        page.locator(".more summary").click()
    points = fetched.value.json()["points"]
    page.get_by_role("slider", name="Loss computed in").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => new URLSearchParams(location.search).get('loss_chunks') === '2'")
    expect(page.locator(".more .chosen")).to_contain_text("loss chunks 2")
    assert [point["value"] for point in points] == [1, 2, 4, 8, 16, 32, 64]
    logits = [point["estimate"]["memory"]["by_kind"]["logits"] for point in points]
    assert sorted(logits, reverse=True) == logits
    assert logits[0] > logits[-1]


def _field(answer: Response) -> object:
    """The field whose axis a response is of."""
    return (answer.request.post_data_json or {}).get("field") if answer.request.post_data else None


@pytest.mark.browser
def test_figure(page: Page):
    origin = page.evaluate("() => location.origin")
    scenario = page.request.get(f"{origin}/api/catalog").json()["default_scenario"]
    scenario["cluster"]["chips_per_node"] = 2
    scenario["plan"] |= {"dp": 2, "sharding": "fsdp"}
    estimate = page.request.post(f"{origin}/api/estimate", data=scenario).json()
    sent = [one for one in estimate["collectives"] if one["ranks"] > 1]
    best = max(one["count"] * one["bytes"] / one["seconds"] for one in sent)
    card = page.locator("#bandwidth")
    card.scroll_into_view_if_needed()
    expect(card.locator(".scatterlayer .point")).to_have_count(len(sent))
    said = rf"^Bandwidth of {len(sent)} collectives, at best {best / 1e9:.0f}(\.\d)? GB/s\.$"
    expect(card.locator("figcaption")).to_have_text(re.compile(said))
    above, below = (page.locator(one).bounding_box() for one in ("#timeline", "#bandwidth"))
    assert above
    assert below
    assert above["y"] <= below["y"], "it stands behind the card that it was placed behind"
