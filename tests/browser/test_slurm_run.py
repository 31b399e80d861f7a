"""A run through a real Slurm, from the form to its row beside the prediction."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.looking import expect_view
from tests.browser.server import Server

pytestmark = pytest.mark.browser

RUN_MS = 240_000


@pytest.fixture
def on_slurm(slurm, tmp_path):
    """A server whose Slurm is the tests' own."""
    found = Server(tmp_path / "data")
    try:
        yield found
    finally:
        found.stop()


def test_a_run_through_slurm_lands_beside_its_prediction(open_page, on_slurm):
    page = open_page("/?view=runs", url=on_slurm.url)
    expect_view(page, "runs")
    expect(page.get_by_label("Partition")).to_be_hidden()
    page.get_by_label("Start on").select_option("slurm")
    page.get_by_label("Partition").fill("tests")
    page.get_by_label("Time limit, minutes").fill("5")
    page.get_by_label("Steps", exact=True).fill("2")
    page.get_by_label("Warm-up steps").fill("0")
    page.locator("#runs").get_by_label("Device").select_option("cpu")
    command = page.locator("#run-command")
    for words in ("#SBATCH --partition=tests", "#SBATCH --time=5", "-m runners", "sbatch --parsable"):
        expect(command).to_contain_text(words)
    page.get_by_role("button", name="Launch").click()
    run = page.locator(".run")
    expect(run).to_contain_text("Slurm")
    name = run.locator(".name button").inner_text()
    assert re.fullmatch(r"step small-cpu [0-9a-f]{6}", name), name
    expect(run.locator(".state")).to_have_text("ok", timeout=RUN_MS)
    expect(run).to_contain_text("per step")
    expect(page.locator("#run-result tr.total")).to_contain_text(re.compile(r"%|–"))
    run.get_by_role("button", name="Open in Explore").click()
    expect(page.locator("#ab .side-b")).to_contain_text(name)
