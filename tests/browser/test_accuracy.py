"""How right predictions are: figures and tables of all sets, one chosen, taken apart, in the URL."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from estimator.validation.accuracy import accuracy
from tests.browser.conftest import LOOKS
from tests.browser.looking import bring_into_view, number, query

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_sets_are_drawn_chosen_and_taken_apart(open_page, width, scheme):
    page = open_page("/?view=studies&study=accuracy", width=width, scheme=scheme)
    row = page.locator("#accuracy-sets tr", has_text="h200 steps, first day")
    (first,) = (one for one in accuracy().sets if one.name == "h200 steps, first day")
    assert first.time
    shown = number(row.locator("td").nth(3).inner_text())
    assert shown == pytest.approx(first.time.median, abs=0.0501), "a tenth of a percent is shown"
    # words that nobody else has are said beside the table that has them
    expect(page.locator("#accuracy-groups .meanings")).to_contain_text("host binds: The host takes longer")
    expect(page.locator("#accuracy-groups .meanings")).to_contain_text("kernels met: ")
    expect(page.locator("#accuracy-sets th", has_text="bias")).to_have_attribute("title", re.compile("with its sign"))
    bring_into_view(page, "#accuracy-steps")
    page.wait_for_function("() => document.querySelector('#accuracy-steps .plot').data?.length > 3")
    everything = page.evaluate(
        "() => document.querySelector('#accuracy-steps .plot').data.flatMap(({ x }) => x).length"
    )
    # what is not drawn is counted, with its reasons
    sets = [one for one in accuracy().sets if one.time]
    published = sum(one.time.n for one in sets if one.time and not one.points)
    bare = sum(one.time.n - len(one.points) for one in sets if one.time and one.points)
    facts = page.locator("#accuracy .facts").inner_text().replace("\N{NARROW NO-BREAK SPACE}", "")
    assert f"Not drawn: {published} steps of tables that others published" in facts
    assert f"and {bare} steps without an interval" in facts
    bring_into_view(page, "#accuracy-intervals")
    page.wait_for_function("() => document.querySelectorAll('#accuracy-intervals .ytick text').length > 30")
    cut = page.evaluate(
        """() => {
          const left = document.querySelector("#accuracy-intervals .plot").getBoundingClientRect().left;
          const names = [...document.querySelectorAll("#accuracy-intervals .ytick text")];
          return names.filter((one) => one.getBoundingClientRect().left < left).map((one) => one.textContent);
        }"""
    )
    assert cut == [], "each name is read whole"
    row.get_by_role("button").click()
    # what a click changes stands above the table, which would hide it
    expect(page.locator("#accuracy").get_by_label("Set of steps")).to_be_in_viewport()
    page.get_by_role("button", name="Cause").click()
    assert query(page, "set") == "of=h200 steps, first day"
    assert page.url.endswith("set=by%3Dlargest")
    page.wait_for_function(
        "(most) => document.querySelector('#accuracy-steps .plot').data.flatMap(({ x }) => x).length < most",
        arg=everything,
    )
    expect(page.locator("#accuracy-steps .legend")).to_contain_text("matmul")
    expect(page.locator("#accuracy-groups")).to_contain_text("matmul")
    expect(page.locator("#accuracy-groups .meanings")).not_to_contain_text("kernels met")
    page.get_by_label("Set of steps").select_option("vtrain_a100")
    expect(page.locator("#accuracy .facts")).to_contain_text("not part of Headroom")
    expect(page.locator("#accuracy-steps")).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_what_has_no_colour_of_its_own_lies_below_what_has(open_page):
    page = open_page("/?view=studies&study=accuracy")
    bring_into_view(page, "#accuracy-steps")
    page.wait_for_function("() => document.querySelector('#accuracy-steps .plot').data?.length > 3")
    names = page.evaluate("() => document.querySelector('#accuracy-steps .plot').data.map(({ name }) => name)")
    assert names[:2] == ["as measured", "others"]
    expect(page.locator("#accuracy-steps .legend")).to_have_text(re.compile(r"others \(\d+\)\s*$"))
