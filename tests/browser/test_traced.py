"""A config.json without closed form: traced in turn, shown by its own ops, and asked what would be otherwise."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.looking import query, settled, side, wait_for_causes, wait_for_figures
from tests.browser.server import ROOT

pytestmark = pytest.mark.browser


def _give(what: Locator, label: str, number: str) -> None:
    what.get_by_label(label).fill(number)
    what.get_by_label(label).press("Enter")


def test_a_config_without_closed_form_is_traced_and_opens_with_what_its_list_does_not_know(open_page, drop, tmp_path):
    """The trace itself is answered by a list that was traced before: tests/app/api/test_traces.py makes one."""
    page = open_page("/?measured=none", refusals=(422,))
    wait_for_figures(page)
    found = json.loads((ROOT / "tests" / "reference" / "ops" / "gpt2.json").read_text())
    found_calls = found["calls"]
    found["problems"] = [{"field": "aten::nonzero", "message": "where a mask holds is not known", "remedy": "Pad it"}]
    found["arguments"] = ["--batch-size", "4", "--compile"]
    asked, held = [], []

    def answer(route):
        if route.request.method == "PUT":
            held.append(route)
        else:
            route.continue_()

    def traced(route):
        asked.append(route.request.url)
        route.continue_(
            url=re.sub(r"/api/traces.*", "/api/uploads?filename=ops.json", route.request.url),
            post_data=json.dumps(found),
        )

    page.route("**/api/traces?*", answer)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "vit", "architectures": ["ViTForImageClassification"]}))
    drop(page, path)
    expect(page.locator("#tray .import", has_text="vit.json")).to_have_count(1)
    # one is traced at a time: another waits, and says so
    second = tmp_path / "second.json"
    second.write_text(path.read_text())
    drop(page, second)
    waiting = page.locator("#tray .import", has_text="second.json")
    expect(waiting).to_contain_text("in the queue: vit.json is traced first")
    expect(page.locator("#tray .import", has_text="no closed form of it: tracing a step")).to_have_count(1)
    waiting.get_by_role("button", name="Cancel second.json").click()
    (route,) = held
    traced(route)
    # nothing ran: what stands there is its own ops' prediction, and nothing is called measured
    expect(side(page, "A")).to_contain_text("traced")
    expect(side(page, "A")).to_contain_text("predicted from its own ops")
    expect(side(page, "B")).to_contain_text("choose B")
    page.get_by_text("choose B").first.click()
    offered = page.locator("dialog[open] li", has_text="traced, ")
    expect(offered.first).to_contain_text(re.compile(r"traced, .* predicted from its own ops for [\d\s]+ tokens"))
    page.keyboard.press("Escape")
    expect(page.locator("#step-time .sub")).to_contain_text("nothing ran")
    # what its storages hold stands below its lanes
    page.wait_for_function("() => document.querySelector('#timeline .plot').layout?.yaxis2?.title.text === 'GB'")
    expect(page.locator("#own-problems")).to_have_text("aten::nonzero where a mask holds is not known. Pad it.")
    page.get_by_role("tab", name="Configuration").click()
    expect(page.locator("#configuration tr", has_text="batch")).to_contain_text("4")
    expect(page.locator("#configuration tr", has_text="compile")).to_contain_text("yes")
    (url,) = asked
    assert re.search(r"chip=.*&batch=\d+&seq=\d+&precision=", url)
    # a list of one rank is laid out by a plan
    what = page.locator("#what-if")
    expect(what).to_contain_text("As it is")
    _give(what, "Data parallel ranks", "6")
    expect(what).to_contain_text("Each of 6 ranks")
    answered = what.locator("p[aria-live]")
    by_own_link = answered.inner_text()
    what.get_by_label("Link inside a node").select_option("pcie4-x16")
    expect(answered).not_to_have_text(by_own_link)
    what.get_by_label("Link inside a node").select_option("the chip's own link")
    expect(answered).to_have_text(by_own_link)
    # so is hardware that is in no catalogue, of its own ops: no slider of the panel is needed for that
    what.locator("summary", has_text="Hardware").click()
    what.get_by_label("its own ops: link", exact=True).press("Home")
    expect(answered).not_to_have_text(by_own_link)
    expect(what.locator("summary", has_text="Hardware")).to_contain_text("link ×0.125")
    expect(side(page, "B")).to_contain_text("choose B")
    what.get_by_label("its own ops: link", exact=True).dblclick()
    expect(answered).to_have_text(by_own_link)
    what.locator("summary", has_text="Hardware").click()
    what.get_by_label("Sharding of states").select_option("fsdp")
    _give(what, "Tensor parallel ranks", "2")
    expect(what).to_contain_text("Each of 12 ranks")
    expect(what).to_contain_text("h.*.c_attn by columns")
    _give(what, "Pipeline stages", "2")
    _give(what, "Micro-batches of a step", "4")
    expect(what).to_contain_text("Each of 24 ranks")
    expect(what.get_by_label("Pipeline schedule")).to_have_value("1f1b")
    expect(what.locator("tr", has_text="bubble")).to_have_count(1)
    # a plan that is tried before that is no prediction of its own ops, and not called one
    field = page.locator('[data-field="training.global_batch"] input[type=range]')
    field.focus()
    page.keyboard.press("ArrowRight")
    relation = page.locator("#step-time .sub")
    expect(relation).to_contain_text("A is the catalogue's form of the traced program, not confirmed yet")
    page.get_by_role("button", name="Back to its own ops").click()
    expect(side(page, "A")).to_contain_text("predicted from its own ops")
    expect(relation).to_contain_text("nothing ran")
    # once its scenario is known its own prediction stays, and the catalogue's form stands beside it
    step = page.locator("#tile-step-time dd")
    own = step.locator("> b").inner_text()
    proposal = page.locator("#proposal")
    proposal.get_by_role("button", name="Confirm").click()
    expect(side(page, "B")).to_contain_text("predicted")
    settled(page)
    expect(side(page, "A")).to_contain_text("traced")
    expect(step.locator("> i")).to_have_text(own)
    form = step.locator("> b").inner_text()
    assert form != own
    wait_for_causes(page)
    expect(page.locator("#step-time .sub")).to_contain_text(
        "B is the catalogue's form of the program; where they differ believe A, its own ops"
    )
    expect(side(page, "B")).to_contain_text("the catalogue's form of it")
    expect(proposal).to_contain_text(f"Its own ops should take {own} ms")
    expect(proposal).to_contain_text(f"the catalogue's form of it {form} ms")
    expect(proposal).to_contain_text("believe the first, whose kernels are those that run")
    whose = page.locator(".panel .whose")
    expect(whose).to_contain_text(
        f"the catalogue's form of it: {form} ms, its own ops {own} ms, which are to be believed"
    )
    expect(page.locator("#explore .details > [role=note]")).to_contain_text("are of A, the program's own ops")
    # a slider moves that form, from the plan that was traced, and says so
    page.locator('[data-field="training.global_batch"] input[type=range]').focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#step-time .sub")).to_contain_text("A is the catalogue's form of the traced program")
    expect(side(page, "A")).to_contain_text("predicted")
    expect(whose).to_contain_text("its own ops")
    whose.get_by_role("button", name="Its own ops as A").click()
    expect(step.locator("> i")).to_have_text(own)
    # and so it is called wherever it stands
    page.keyboard.press("Control+k")
    found = page.locator("dialog[open]")
    found.get_by_role("textbox").fill("open gpt2.py")
    expect(found.locator("li").first).to_contain_text("traced program")
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Measured").click()
    line = page.locator('#items tr[data-item^="m:"]', has_text="gpt2.py")
    expect(line).to_contain_text("traced, predicted")
    expect(line).to_contain_text(f"{own} ms")
    expect(line).not_to_contain_text("measured")
    # the page as JSON has the op list, so that a server that lacks it shows the same
    page.get_by_role("link", name="Explore", exact=True).click()
    with page.expect_download() as download:
        page.keyboard.press("j")
    saved = json.loads(download.value.path().read_text())
    (known,) = saved["op_lists"]
    assert saved["op_lists"][known]["calls"] == found_calls
    saved["measurements"][0]["id"], saved["op_lists"] = "elsewhere", {"elsewhere": saved["op_lists"][known]}
    (tmp_path / "page.json").write_text(json.dumps(saved).replace(known, "elsewhere"))
    drop(page, tmp_path / "page.json")
    expect(page.get_by_text("Opened, with 1 measurement from the file")).to_be_visible()
    expect(page.locator("#own-ops tbody tr").first).to_be_attached()
    assert query(page, "measured") not in (known, "elsewhere", None)
