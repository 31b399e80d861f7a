"""Imports: a trace's kernels enter the roofline, a pasted or dropped table shows its rows, a bad file says why."""

from __future__ import annotations

import gzip
import json
import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import WIDTHS
from tests.browser.looking import (
    expect_view,
    points,
    settled,
    side,
    wait_for_figures,
    wait_for_measured_points,
)
from tests.browser.server import ROOT

pytestmark = pytest.mark.browser
CPU_STEP = ROOT / "tests" / "reference" / "cpu_step"
REPORT = ROOT / "tests" / "reference" / "cs336_steps" / "report.txt"
STEP_TIMES = """\
Model      Params       Forward (s)     Backward (s)
------------------------------------------------------------
small_seq128 128,625,408 0.024990±0.003563 0.038322±0.002954
medium_seq128 423,183,360 0.050908±0.005962 0.087088±0.002770
large_seq256 969,411,840 0.142913±0.001806 0.295382±0.001223
"""


def test_a_dropped_trace_shows_its_kernels_in_the_roofline(open_page, drop):
    page = open_page("/?measured=none")
    wait_for_figures(page)
    settled(page)
    assert points(page, "measured") == []
    drop(page, CPU_STEP / "trace.json.gz")
    expect(page.locator(".import")).to_contain_text("1 measurement")
    expect_view(page, "explore")
    # of which scenario it is, nobody knows yet: its ops stand beside their own predictions, and beside no other
    expect(side(page, "A")).to_contain_text("its own ops")
    own = page.locator("#roofline")
    own.scroll_into_view_if_needed()
    expect(own.locator(".points path").first).to_be_attached()
    own.get_by_role("button", name="Table").click()
    measured = own.locator("tbody tr", has_text="measured")
    expect(measured.filter(has_text=re.compile("mm")).first).to_be_visible()
    expect(own.locator("tbody tr", has_text="predicted").filter(has_text=re.compile("mm")).first).to_be_visible()
    expect(page.locator("#step-time .sub")).to_contain_text("measured on a CPU that it does not name")
    expect(page.locator("#step-time .sub")).to_contain_text("until its own is confirmed")
    expect(page.locator("#own-ops")).to_contain_text("priced for the only one known here, This CPU")
    # the step over time is as it was recorded
    time = page.locator("#timeline")
    # which step that is, and how coarse, is read whole at its longest
    expect(time.locator("header .unit")).to_have_text("ms")
    longest = "B: a typical step of 412 ms, not 398 ms; in pieces of 0.35 ms"
    fits = "(sub, words) => { sub.textContent = words; return sub.scrollWidth <= sub.clientWidth; }"
    assert time.locator("header .sub").evaluate(fits, longest)
    time.get_by_role("button", name="Table").click()
    expect(time.locator("tbody tr").first).to_be_visible()
    for button in time.get_by_role("button", name=re.compile("Show all")).all():
        button.click()
    expect(time.locator("tbody tr", has_text="compute").filter(has_text=re.compile("B.*mm")).first).to_be_visible()
    expect(time.locator("tbody tr", has_text="host").filter(has_text=re.compile("^B")).first).to_be_visible()
    # once its scenario is confirmed its points stay, though names of kernels say neither FLOPs nor bytes
    before = len(points(page, "measured"))
    page.locator("#proposal").get_by_role("button", name="Confirm").click()
    expect(side(page, "A")).not_to_contain_text("its own ops")
    settled(page)
    assert len(points(page, "measured")) == before > 50


def test_a_trace_cut_off_shows_its_kernels_and_no_step(visit, drop, tmp_path):
    whole = gzip.decompress((ROOT / "tests" / "reference" / "kineto" / "h200_ddp_amp.json.gz").read_bytes())
    path = tmp_path / "cut.json"
    path.write_bytes(whole[: len(whole) * 4 // 5])
    page = visit("/?measured=none")
    wait_for_figures(page)
    drop(page, path)
    expect(page.locator(".import")).to_contain_text("gives no step time and no breakdown")
    settled(page)
    expect(page.locator("#explore")).not_to_contain_text("undefined")
    expect(page.locator("#explore")).not_to_contain_text("NaN")


def test_a_dropped_report_shows_every_table_with_units_and_warnings(visit, drop):
    page = visit()
    wait_for_figures(page)
    drop(page, REPORT)
    expect(page.locator(".import")).to_contain_text(re.compile(r"\d+ measurements, \d+ warnings"))
    expect_view(page, "measurements")
    card = page.locator("#details")
    expect(card).to_contain_text("128\u202f625\u202f408")
    expect(card.locator("thead")).to_contain_text(re.compile(r"forward, m?s"))
    tabs = card.get_by_role("group", name="Tables").get_by_role("button")
    expect(tabs.nth(9)).to_be_attached()
    expect(card.locator(".warned").first).to_be_attached()
    # figures come first, and a table scrolls in its place: the page stays within two screens
    settled(page)
    tops = [card.locator(one).bounding_box()["y"] for one in ("#details-scatter", "#details-chart", ".rows")]
    assert tops[0] == tops[1] < tops[2]
    assert page.evaluate("document.documentElement.scrollHeight") < 2 * 900
    tabs.filter(has_text="nsys_profile (b)").first.click()
    page.wait_for_function("() => document.querySelector('#details-chart .plot').data?.[0].type === 'bar'")
    tabs.filter(has_text="pytorch_attention").first.click()
    page.wait_for_function("() => document.querySelector('#details-chart .plot').data?.length > 1")
    # lines that come after bars have ranges of their own
    page.wait_for_function("() => document.querySelector('#details-chart .plot')._fullLayout.xaxis.autorange")
    page.reload()
    expect(card.locator("h3").first).to_contain_text("pytorch_attention")
    tabs.first.click()
    expect(card).to_contain_text("128\u202f625\u202f408")


def test_a_grid_of_steps_stands_beside_its_predictions(visit, drop):
    page = visit()
    wait_for_figures(page)
    drop(page, ROOT / "tests" / "reference" / "h200" / "recompute-1.json")
    expect_view(page, "measurements")
    card = page.locator("#details").filter(has_text="recompute, 1 rank")
    expect(card).to_contain_text("Predicted on NVIDIA H200 SXM 141 GB: ")
    expect(card).to_contain_text(re.compile(r"; of step within \d\.\d %, on average \d\.\d % too high"))
    expect(card).to_contain_text(re.compile(r"All rows: model tinyllama-1\.1b, layers 22, .*precision bf16"))
    heads = card.locator("thead th").all_inner_texts()
    at = heads.index("step, ms")
    assert heads[at : at + 3] == ["step, ms", "predicted step, ms", "step error"]
    assert "model" not in heads
    within = re.match(r"(\d+) of (\d+) inside", card.locator("#details-scatter .sub").inner_text())
    assert int(within[1]) <= int(within[2])
    # The plot of a measurement before may stand until this one is drawn.
    page.wait_for_function(
        "(rows) => document.querySelector('#details-scatter .plot').data?.slice(3).flatMap((d) => d.x).length === rows",
        arg=int(within[2]),
    )
    for row in card.locator("tbody tr").all():
        measured, predicted, error = row.locator("td").all_inner_texts()[at : at + 3]
        found = float(error.rstrip(" %").replace("−", "-").lstrip("±"))
        assert found == pytest.approx(100 * (float(predicted) / float(measured) - 1), abs=0.6)


def test_columns_and_units_are_corrected_before_a_table_is_kept(visit, drop, tmp_path):
    page = visit("/?view=measurements")
    page.get_by_role("button", name="Import", exact=True).first.click()
    page.get_by_label("Or paste a table").fill("len took what\n128 12.5 a\n256 25.0 b\n512 50.0 c\n".replace(" ", "\t"))
    page.get_by_role("button", name="Preview").click()
    dialog = page.get_by_role("dialog", name="What was read")
    expect(dialog).to_contain_text("Line 1: table, 3 rows")
    dialog.get_by_label("Line 1, column 1: name").fill("seq_len")
    dialog.get_by_label("Line 1, column 2: name").fill("forward")
    dialog.get_by_label("Line 1, column 2: unit").select_option("ms")
    dialog.get_by_label("Line 1, column 3: name").fill("model")
    expect(dialog).to_contain_text("step times, 3 rows")
    expect(dialog.get_by_role("columnheader", name="forward, ms")).to_be_visible()
    dialog.get_by_role("button", name="Import").click()
    expect(page.locator("#details .questions")).to_contain_text("What was it? step times")
    # what was kept as of no kind is corrected afterwards, and replaced
    table = tmp_path / "of-no-kind.txt"
    table.write_text("size\ttook\twhat\n128\t12.5\ta\n256\t25.0\tb\n")
    drop(page, table)
    page.get_by_role("button", name="Correct its columns").click()
    expect(dialog).to_contain_text("Line 1: table, 2 rows")
    dialog.get_by_label("Line 1, column 2: unit").select_option("ms")
    expect(dialog.get_by_role("columnheader", name="took, ms")).to_be_visible()
    dialog.get_by_role("button", name="Import").click()
    expect(page.locator("#details thead")).to_contain_text("took, ms")
    expect(page.locator("#items tbody")).to_contain_text("of-no-kind.txt")
    expect(page.locator("#items").get_by_text("of-no-kind.txt")).to_have_count(1)
    # and once more: what was said stands
    page.get_by_role("button", name="Correct its columns").click()
    expect(dialog.get_by_label("Line 1, column 2: unit")).to_have_value("ms")
    dialog.get_by_label("Line 1, column 3: name").fill("which")
    expect(dialog.get_by_role("columnheader", name="which")).to_be_visible()
    dialog.get_by_role("button", name="Import").click()
    expect(page.locator("#details thead")).to_contain_text("which")
    expect(page.locator("#details thead")).to_contain_text("took, ms")
    # a preview is sent no more than it needs: whole lines of a long text, a packed file as it is
    sent = page.evaluate("""async () => {
        const { beginningOf } = await import(js("upload"));
        const sizes = ["a,b\\n1,2\\n3,4\\n", "a,b\\n1", "PK\\u0003\\u0004aaaaaaaaaa"].map((text) => new Blob([text]));
        return Promise.all(sizes.map(async (blob) => (await (await beginningOf(blob, 9)).text()).length));
    }""")
    assert sent == [8, 5, 14]


def test_a_table_that_names_no_device_asks_for_it(visit, drop):
    page = visit()
    wait_for_figures(page)
    drop(page, REPORT)
    expect_view(page, "measurements")
    card = page.locator("#details")
    # answered already by the likeliest, and the scores follow the answer until somebody says that it is right
    expect(card.locator(".questions")).to_contain_text("What was it? step times")
    expect(card.locator(".questions")).to_contain_text("kernels are named ampere_")
    expect(card).to_contain_text("If that is right: Predicted on ")
    card.get_by_label("measured on").select_option("a100-80gb-sxm")
    expect(card).to_contain_text("If that is right: Predicted on NVIDIA A100 SXM 80 GB: ")
    card.get_by_role("button", name="Confirm").click()
    expect(card.get_by_role("button", name="Confirm")).to_be_hidden()
    expect(card.locator(".questions")).to_contain_text("On what? NVIDIA A100 SXM 80 GB")
    said = card.locator(".hint", has_text="Predicted on NVIDIA A100 SXM 80 GB: ")
    expect(said).not_to_contain_text("If that is right")
    expect(card).to_contain_text("Assumed: attention eager, as the table states none.")
    # a mistake is no fate
    card.get_by_role("button", name="measured on another chip").click()
    expect(card.locator(".questions select:visible")).to_have_value("a100-80gb-sxm")
    card.locator(".questions select:visible").select_option("h100-sxm")
    expect(card).to_contain_text("If that is right: Predicted on NVIDIA H100 SXM 80 GB: ")
    card.get_by_role("button", name="Confirm").click()
    expect(card.locator(".questions")).to_contain_text("On what? NVIDIA H100 SXM 80 GB")


NCCL = """\
#  Rank  0 Group  0 Pid      7 on       node device  0 [0000:1b:00] NVIDIA GB10
#  Rank  1 Group  0 Pid      7 on       node device  1 [0000:43:00] NVIDIA GB10
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     8388608       2097152     float     sum      -1    108.2   77.53   77.53      0    105.5   79.51   79.51      0
    16777216       4194304     float     sum      -1    158.5  105.85  105.85      0    156.2  107.41  107.41      0
"""
NAMED = "model,GPU,batch,seq len,step (ms)\ngpt2,H100,8,1024,50\ngpt2,B9,8,1024,90\n"


def test_what_a_table_calls_its_gpus_is_corrected_by_chips_of_the_catalogue_or_one_s_own(visit, drop, tmp_path):
    page = visit("/?chip=a100-80gb-sxm")
    wait_for_figures(page)
    own = """async () => {
        const [{ savePart }, { state }] = [await import(js("ownParts")), await import(js("state"))];
        const { value } = state.catalog.chips.find(({ key }) => key === "h100-sxm");
        savePart("chip", "Lab card", { ...value, name: "Lab card", label: "Lab card" });
    }"""
    page.evaluate(own)
    path = tmp_path / "step_times_of_every_machine_in_the_laboratory_in_october_2026.csv"
    path.write_text(NAMED)
    drop(page, path)
    expect_view(page, "measurements")
    questions = page.locator("#details .questions")
    expect(questions).to_contain_text("In its rows H100 is NVIDIA H100 SXM 80 GB; B9 is unknown")
    questions.get_by_role("button", name="change the chips of its rows").click()
    expect(questions.get_by_label("name in its rows")).to_have_value("B9")
    questions.get_by_label("chip of that name").select_option("Lab card")
    expect(questions).to_contain_text("B9 is Lab card")
    expect(questions.locator("select:visible")).to_have_count(2)
    expect(page.locator("#details")).to_contain_text("Predicted on NVIDIA H100 SXM 80 GB, Lab card: ")
    # a name that the catalogue knows is another machine's, and is taken back
    questions.get_by_label("name in its rows").select_option("H100")
    questions.get_by_label("chip of that name").select_option("h200-sxm")
    expect(questions).to_contain_text("H100 is NVIDIA H200 SXM 141 GB; B9 is Lab card")
    questions.get_by_label("chip of that name").select_option("as the table has it")
    expect(questions).to_contain_text("H100 is NVIDIA H100 SXM 80 GB; B9 is Lab card")
    # a long name of a file stands whole on a phone
    page.set_viewport_size({"width": 390, "height": 844})
    title = page.locator("#details h3").first.bounding_box()
    assert title["x"] + title["width"] <= 390
    # nor need the head of a file be right that names one for all its rows
    (tmp_path / "nccl.txt").write_text(NCCL)
    drop(page, tmp_path / "nccl.txt")
    expect(page.locator("#details")).to_contain_text("Not predicted: 'NVIDIA GB10' is not in the catalogue of chips")
    questions.get_by_role("button", name="measured on another chip").click()
    questions.locator("select:visible").select_option("h100-sxm")
    questions.get_by_role("button", name="Confirm").click()
    expect(questions).to_contain_text("On what? NVIDIA H100 SXM 80 GB")
    expect(page.locator("#details")).to_contain_text("Predicted on NVIDIA H100 SXM 80 GB: ")


WITHOUT = [
    ("precision-1", "NVIDIA H200", "Not predicted: the estimator has no formula for such rows"),
    ("recompute-1", "Chip 9000", "Not predicted: 'Chip 9000' is not in the catalogue of chips"),
    ("probes-1", "NVIDIA H200", "Not predicted: they are probes of a device, which make a calibration"),
]


def test_a_table_without_predictions_says_why(visit, drop, tmp_path):
    page = visit()
    wait_for_figures(page)
    for file, device, why in WITHOUT:
        document = json.loads((ROOT / "tests" / "reference" / "h200" / f"{file}.json").read_text())
        path = tmp_path / f"{file}.json"
        path.write_text(json.dumps(document | {"device": {"kind": "cuda", "name": device}, "label": file}))
        drop(page, path)
        expect_view(page, "measurements")
        expect(page.locator("#details").filter(has_text=file)).to_contain_text(why)
    expect(page.locator(".import").filter(has_text="probes-1")).to_contain_text(
        "1 measurement of probes, for a calibration: Calibrated"
    )
    path.write_text(json.dumps(document | {"device": {"kind": "cpu", "name": "cpu"}, "label": "of a CPU"}))
    drop(page, path)
    expect(page.locator(".import").first).to_contain_text(
        "1 measurement of probes of a CPU, which takes no calibration: a server measures its own"
    )


_COVERED = """() => [...document.querySelectorAll("#step-time, .strip")].filter((one) => {
    const figure = one.getBoundingClientRect();
    return [...document.querySelectorAll("#kept, .tray > *")].some((other) => {
        const { top, bottom, left, right, height } = other.getBoundingClientRect();
        const apart = bottom <= figure.top || top >= figure.bottom || right <= figure.left || left >= figure.right;
        return height > 0 && !apart;
    });
}).map((one) => one.id || one.className)"""
BAD = {"broken.json": b'{"traceEvents": [{"ph": "X",', "noise.bin": bytes(range(256)) * 8, "empty.txt": b""}


def test_a_bad_file_says_what_is_wrong_and_changes_nothing_and_the_newest_notice_is_on_top(
    visit, drop, server, tmp_path
):
    page = visit(refusals=(400, 413, 415, 422))
    wait_for_figures(page)
    before = server.get("/api/measurements")["measurements"]
    for name, content in BAD.items():
        (tmp_path / name).write_bytes(content)
        drop(page, tmp_path / name)
        card = page.locator(".import.failed")
        expect(card).to_contain_text("Not imported:")
        text = card.locator("p").inner_text()
        assert len(text.removeprefix("Not imported:").strip()) > 15
        assert "Traceback" not in text
        assert server.get("/api/measurements")["measurements"] == before
        card.get_by_role("button", name="Dismiss").click()
        expect(card).to_have_count(0)
    for at in range(5):
        (tmp_path / f"noise{at}.bin").write_bytes(bytes(range(256)) * (at + 1))
        drop(page, tmp_path / f"noise{at}.bin")
        expect(page.locator(".import.failed")).to_have_count(at + 1)
    cards = page.locator(".import")
    expect(cards.first).to_contain_text("noise4.bin")
    expect(cards.first).to_be_in_viewport()
    page.evaluate("async () => (await import(js('views/common/toast'))).notice('What this link says is not known.')")
    expect(cards.first).to_contain_text("What this link says")
    drop(page, tmp_path / "noise0.bin")
    expect(cards.first).to_contain_text("noise0.bin")
    expect(cards.filter(has_text="noise0.bin")).to_have_count(1), "what was said of that file before makes room"
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.locator("#kept").bounding_box()["height"] <= 125, "they leave the screen to the figures"
        assert page.evaluate(_COVERED) == [], "and cover none"
    page.get_by_role("button", name="Close all").click()
    expect(cards).to_have_count(0)
    expect(page.get_by_role("button", name="Close all")).to_have_count(0)


def test_of_files_that_come_together_one_opens_and_the_others_offer_themselves(visit, drop, tmp_path):
    page = visit("/?measured=none")
    wait_for_figures(page)
    found = json.loads((ROOT / "tests" / "reference" / "ops" / "llama.json").read_text())
    for name in ("first", "second"):
        (tmp_path / f"{name}.json").write_text(json.dumps(found | {"program": f"{name}.py"}))
    drop(page, tmp_path / "first.json", tmp_path / "second.json")
    offered = page.get_by_role("button", name=re.compile("^Show (first|second).json"))
    expect(offered).to_have_count(1)
    other = "first" if "first" in offered.get_attribute("aria-label") else "second"
    (opened,) = {"first", "second"} - {other}
    expect(side(page, "A")).to_contain_text(f"{opened}.py")
    offered.click()
    expect(side(page, "A")).to_contain_text(f"{other}.py")
    page.keyboard.press("Control+z")
    expect(side(page, "A")).to_contain_text(f"{opened}.py")


def test_what_another_tab_imported_is_there_when_one_comes_back(visit, drop, tmp_path):
    page = visit("/?view=measurements&measured=none")
    expect(page.locator("#items [data-item]").first).to_be_visible()
    other = page.context.new_page()
    other.goto(page.url)
    wait = other.locator("#items [data-item]").first
    expect(wait).to_be_visible()
    # another text than any other test's: of the same one the first import would be shown
    (tmp_path / "from another tab.txt").write_text(STEP_TIMES.replace("small_seq128", "other_seq128"))
    drop(other, tmp_path / "from another tab.txt")
    expect(other.locator(".import")).to_contain_text("1 measurement")
    page.bring_to_front()
    page.evaluate("dispatchEvent(new Event('focus'))")  # headless pages have the focus all the time
    expect(page.locator("#items")).to_contain_text("from another tab")


def test_names_from_a_file_are_text_and_never_markup(visit, drop, tmp_path):
    hostile = "<img src=x onerror=alert(1)><b>gemm</b>"
    result = {
        "label": hostile,
        "origin": {"kind": "run", "format": "step"},
        "device": {"name": "<i>device</i>"},
        "steps_s": [0.01, 0.011, 0.012],
        "breakdown_s": {"matmul": 0.008, "elementwise": 0.003},
        "kernels": [{"name": hostile, "category": "matmul", "count": 3, "total_s": 0.008, "flops": 1e9, "bytes": 1e6}],
        "schema_version": 1,
    }
    path = tmp_path / "result.json"
    path.write_text(json.dumps(result))
    page = visit("/?measured=none")
    wait_for_figures(page)
    drop(page, path)
    expect(side(page, "B")).to_contain_text(hostile)
    page.locator("#proposal").get_by_role("button", name="It ran the plan that the controls show").click()
    wait_for_measured_points(page)
    card = page.evaluate(
        "document.querySelector('#roofline .plot').data.find(({ name }) => name === 'measured').customdata[0][0]"
    )
    assert card == hostile.replace("<", "&lt;").replace(">", "&gt;")
    page.get_by_role("link", name="Measured").click()
    expect(page.locator("#items")).to_contain_text(hostile)
    assert page.locator("main img, main b:has-text('gemm') > *").count() == 0
