"""Units of a table's columns: what belongs together is written in the same one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.server import Server

pytestmark = pytest.mark.browser

UNITS = """async (columns) => {
  const { columnOf, scalesOf } = await import(js("views/common/table"));
  const values = Object.values(columns).map((some) => [some].flat());
  const rows = values[0].map((_, at) => values.map((some) => some[at]));
  const scales = scalesOf({ columns: Object.keys(columns).map(columnOf), rows });
  return scales.map((scale) => scale && scale.unit);
}"""


@pytest.fixture(scope="module")
def units_of(browser: Browser, server: Server) -> Iterator[Callable[[dict[str, Any]], list[str | None]]]:
    page = browser.new_page()
    page.goto(server.url + "/api/health")
    yield lambda columns: page.evaluate(UNITS, columns)
    page.close()


@pytest.mark.parametrize(
    ("row", "units"),
    [
        ({"model": "small", "forward_s": 0.0213, "forward_std_s": 2e-4, "backward_s": 0.0419, "backward_std_s": 5e-6},
         [None, "ms", "ms", "ms", "ms"]),
        ({"step_s": 1.3, "forward_s": 0.0213, "forward_std_s": 2e-4}, ["s", "ms", "ms"]),
        ({"step_s": 1.3, "forward_s": 0.213}, ["s", "s"]),
        ({"median_s": 4e-3, "interquartile_range_s": 2e-7, "wait_s": 3e-6}, ["ms", "ms", "µs"]),
        ({"minimum_s": 4e-4, "median_s": 4e-3, "mean_s": 5e-3, "maximum_s": 2e-1}, ["ms", "ms", "ms", "ms"]),
        ({"step_s": 1.3, "minimum_s": 0.09, "forward_s": 0.02, "maximum_s": 2}, ["s", "s", "ms", "s"]),
        ({"mean_s": 4e-3, "wait_s": 5e-6}, ["ms", "µs"]),
        ({"forward_median_s": 4e-3, "forward_interquartile_range_s": 2e-7}, ["ms", "ms"]),
        ({"step_s": 0.11, "predicted_step_s": 0.09, "total_s": 3.0}, ["s", "s", "s"]),
        ({"median_s": 4e-3, "wait_std_s": 2e-7}, ["ms", "ns"]),
        ({"peak_bytes": 4e9, "left_over_bytes": 5e7, "sent_bytes": 4e3}, ["GB", "GB", "kB"]),
    ],
)  # fmt: skip
def test_spread_and_prediction_have_the_unit_of_their_value(units_of, row, units):
    assert units_of(row) == units


def test_one_outlier_does_not_choose_the_unit_of_a_column(units_of):
    rows = {"median_s": [7e-4, 4e-4, 1.49], "flops_per_s": [3e9, 136e9, 1e6], "steps_s": [0.2, 0.3, 1.4]}
    assert units_of(rows) == ["ms", "GFLOP/s", "s"]


def test_layers_are_in_the_unit_of_most_of_them(visit):
    page = visit(
        "/?model=llama3-70b&chip=h100-sxm&chips_per_node=8&nodes=2&dp=16&sharding=ddp&global_batch=64&micro_batch=1&measured=none"
    )
    # the optimizer takes seconds, an op of a layer a thousandth of one
    expect(page.locator("#layers thead")).to_contain_text(re.compile("forward, [mµ]s"))


LISTED = """async (rows) => {
  const { tablesOf, tableView } = await import(js("views/common/table"));
  const [{ table }] = tablesOf(rows);
  const view = tableView(table);
  return [...view.querySelectorAll("th, tbody td")].map((cell) => cell.textContent);
}"""


def test_a_list_of_times_is_written_in_the_unit_of_its_column(browser: Browser, server: Server):
    page = browser.new_page()
    page.goto(server.url + "/api/health")
    rows = [{"world_size": 2, "mean_s": 1.15e-4, "rank_mean_s": [1.13e-4, 1.17e-4], "weights": [0.5, 2]}]
    assert page.evaluate(LISTED, rows) == [
        "world size", "mean, µs", "rank mean, µs", "weights", "2", "115", "113, 117", "0.500, 2",
    ]  # fmt: skip
    page.close()
