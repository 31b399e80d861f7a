"""The panel beyond the catalogue: own models and chips, links, nodes; what followed is said where the eye is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import OpenPage
from tests.browser.looking import (
    expect_view,
    headline,
    number,
    query,
    settled,
    side,
    wait_for_axis,
    wait_for_change,
    wait_for_figures,
)
from tests.browser.server import ROOT

Drop = Callable[[Page, Path], None]

EXPERTS = (
    "/?model=mixtral-8x7b&chip=h100-sxm&chips_per_node=8&nodes=2&dp=4&tp=4&ep=4&sequence_parallel=true&sharding=fsdp"
    "&global_batch=32&seq_len=2048&measured=none"
)


def test_a_model_and_a_chip_of_ones_own(open_page: OpenPage) -> None:
    page = open_page(EXPERTS)
    wait_for_figures(page)
    before = headline(page)[0]
    page.locator("details.ownpart summary").first.click()
    expect(page.get_by_label("Gated feed-forward")).to_be_checked()
    page.get_by_label("Experts", exact=True).fill("16")
    page.keyboard.press("Tab")
    kept = query(page, "a")
    expect(side(page, "A")).to_contain_text("Mixtral 8x7B")
    page.get_by_label("Save this model in this browser").click()
    assert json.loads(query(page, "model") or "")["experts"] == 16
    page.locator("details.ownpart summary").last.click()
    # what cannot be is refused by its name, with its range and unit, and the one before stays
    ownchip = page.locator("details.ownpart").last
    for label, typed, why in (
        ("bf16 dense", "1e30", "bf16 dense takes a number from 0 to 1 000 000 TFLOP/s."),
        ("Memory", "0", "Memory takes a number above 0 and up to 1 000 000 GB."),
        ("Multiprocessors", "1.5", "Multiprocessors takes a whole number from 1 to 10 000 000."),
        ("Price", "-1", "Price takes a number from 0 to 10 000 $/h."),
    ):
        box = ownchip.get_by_label(label, exact=True)
        was = box.input_value()
        box.fill(typed)
        page.keyboard.press("Tab")
        expect(ownchip.locator(".problem:visible")).to_have_text(f"Refused: {typed}. {why}")
        box.fill(was)
        page.keyboard.press("Tab")
        expect(ownchip.locator(".problem:visible")).to_have_count(0)
    # a name that is typed while the answer is on its way stays
    held: list[Route] = []
    page.route("**/api/estimate**", lambda route: held.append(route))
    page.get_by_label("Bandwidth").fill("6.7")
    page.keyboard.press("Tab")
    page.get_by_label("Name of the chip").fill("twice as fast")
    page.keyboard.press("Tab")
    for route in held:
        route.continue_()
    page.unroute("**/api/estimate**")
    wait_for_change(page, before)
    expect(page.get_by_label("Name of the chip")).to_have_value("twice as fast")
    page.get_by_label("Save this chip in this browser").click()
    assert json.loads(query(page, "chip") or "")["memory_bytes_per_s"] == 6.7e12
    # a name makes no other plan: what was changed still stands beside what it was made of
    assert kept
    assert (query(page, "a"), query(page, "b")) == (kept, "plan")
    page.reload()
    wait_for_figures(page)
    expect(page.locator("#chip")).to_have_value("own:twice as fast")
    expect(page.locator("#model option", has_text="my mixtral-8x7b")).to_have_count(1)


def test_a_calibration_made_of_probes_is_what_predictions_are_under(open_page: OpenPage, drop: Drop) -> None:
    page = open_page("/?model=gpt2&chips_per_node=1&dp=1&global_batch=1&micro_batch=1&seq_len=128&measured=none")
    wait_for_figures(page)
    drop(page, ROOT / "tests" / "reference" / "h200_programs" / "launches.json")
    expect(page.locator(".import")).to_contain_text("1 measurement")
    expect_view(page, "measurements")
    page.locator(".brand").click()
    wait_for_figures(page)
    before = number(headline(page)[0])
    page.locator("details.calibration summary").click()
    page.get_by_role("button", name="Calibrate").click()
    expect(page.locator(".calibration .problem")).to_contain_text("Tick the measurements")
    # whose they are is seen before they are ticked
    expect(page.locator(".probes label", has_text="launches").first).to_contain_text("NVIDIA H200 · ")
    page.locator(".probes label", has_text="launches").first.click()
    page.get_by_label("Name of the calibration").fill("our host")
    with page.expect_event("load"):
        page.get_by_role("button", name="Calibrate").click()
    wait_for_figures(page)
    # the section stays open, and what was made is said where the button is
    result = page.locator(".calibration .made")
    expect(result).to_be_in_viewport()
    expect(result).to_contain_text("Made: predictions are under our host")
    expect(result).to_contain_text("For NVIDIA H200")
    # its host needs longer for each launch
    assert number(headline(page)[0]) > 1.05 * before
    expect(page.locator("details.calibration .chosen")).to_contain_text("our host")
    page.get_by_role("tab", name="Assumed").click()
    expect(page.locator("#assumptions li").first).to_contain_text("our host")
    # of another chip it is not used, and panel and search say so
    page.locator("#chip").select_option("a100-80gb-sxm")
    expect(page.locator("details.calibration .chosen")).to_contain_text("not used, of another chip: our host")
    page.locator(".tabs").get_by_text("Search", exact=True).click()
    expect(page.locator("#search-status .counts")).to_contain_text("No calibration is used: “our host” is of h200-sxm")
    page.go_back()
    page.go_back()
    expect(page.locator("details.calibration .chosen")).to_have_text(re.compile("^our host"))
    expect(result).to_contain_text("constants as shipped")
    with page.expect_event("load"):
        page.get_by_label("Calibration", exact=True).select_option("")
    wait_for_figures(page)
    assert number(headline(page)[0]) == before
    expect(page.get_by_label("Calibration", exact=True)).to_be_focused()
    expect(result).to_be_hidden()
    page.reload()
    wait_for_figures(page)
    expect(page.get_by_label("Calibration", exact=True)).to_be_hidden()
    # on a narrow page the sheet stays open, too
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_role("button", name="Scenario").click()
    page.locator("details.calibration summary").click()
    page.locator(".probes label", has_text="launches").first.click()
    with page.expect_event("load"):
        page.get_by_role("button", name="Calibrate").click()
    expect(page.get_by_label("Scenario", exact=True)).to_have_class(re.compile("open"))
    expect(result).to_be_in_viewport()
    expect(result).to_contain_text(re.compile("Made: predictions are under .*launches.* · "))


def test_probes_of_the_chip_that_is_shown_are_offered_first(open_page: OpenPage, drop: Drop) -> None:
    page = open_page("/?model=gpt2&chip=h100-sxm&chips_per_node=1&dp=1&global_batch=1&micro_batch=1&seq_len=128")
    wait_for_figures(page)
    reference = ROOT / "tests" / "reference"
    of_h100 = reference / "h100_drawn" / "probes-one-a0.json"
    for path in (of_h100, reference / "h200_programs" / "launches.json"):
        drop(page, path)
        expect(page.locator(".import", has_text=path.name)).to_contain_text("1 measurement")
    page.locator(".brand").click()
    wait_for_figures(page)
    page.locator("#chip").select_option("h100-sxm")
    page.locator("details.calibration summary").click()
    expect(page.locator(".calibration > .hint").first).to_contain_text("a few minutes of probes measure")
    probes = page.locator(".probes label")
    expect(probes.first).to_contain_text("NVIDIA H100")
    page.locator("#chip").select_option("h200-sxm")
    expect(probes.first).to_contain_text("NVIDIA H200")


def test_fields_of_experts_links_and_nodes(visit: OpenPage) -> None:
    page = visit(EXPERTS)
    wait_for_figures(page)
    before = headline(page)[0]
    page.get_by_label("Network between nodes").select_option("ethernet-25g")
    wait_for_change(page, before)
    assert query(page, "network") == "ethernet-25g"
    page.locator("details.more summary").click()
    for label in ("Tensor parallel overlap", "Expert exchange overlap", "Experts run"):
        expect(page.get_by_text(label, exact=True)).to_be_visible()
    wait_for_axis(page, "cluster.nodes")
    page.locator('[data-field="cluster.nodes"] input[type=number]').fill("4")
    page.keyboard.press("Enter")
    settled(page)
    assert (query(page, "nodes"), query(page, "dp")) == ("4", "8")
    # a change that another field follows is said at the field that was moved
    wait_for_axis(page, "plan.dp")
    page.locator('[data-field="plan.dp"] input[type=number]').fill("64")
    page.keyboard.press("Enter")
    expect(page.locator('[data-field="plan.dp"] .problem')).to_contain_text("Also changed: global batch")


def test_the_roofline_has_levels(visit: OpenPage) -> None:
    page = visit(EXPERTS)
    wait_for_figures(page)
    title = page.locator("#roofline .xtitle")
    expect(title).to_have_text("FLOP per byte of device memory")
    page.get_by_role("button", name="Roofline: bytes of L2").click()
    expect(title).to_have_text("FLOP per byte of L2")
    page.get_by_role("button", name="Roofline: bytes of device memory").click()
    expect(title).to_have_text("FLOP per byte of device memory")
