"""Model from config.json: the button in Explore puts the model into the scenario and the URL; refusals name the key."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from tests.browser.looking import EIGHT_GPUS, headline, query, settled, side, wait_for_figures
from tests.browser.server import ROOT

pytestmark = pytest.mark.browser

CONFIGS = ROOT / "tests" / "reference" / "hf_configs"
PICKER = "input[type=file][aria-label='config.json of a model']"


def test_a_config_becomes_the_scenarios_model_and_stays_in_the_url(visit):
    page = visit(EIGHT_GPUS)
    wait_for_figures(page)
    settled(page)
    before = headline(page)
    page.set_input_files(PICKER, CONFIGS / "deepseek-v2-lite.json")
    expect(page.locator("#model option:checked")).to_have_text("deepseek-v2-lite.json (as given)")
    expect(page.get_by_label("Scenario").first).to_contain_text(re.compile(r"15\.7\sB parameters"))
    settled(page)
    after = headline(page)
    assert after != before
    assert json.loads(query(page, "model"))["kv_lora_rank"] == 512
    page.reload()
    wait_for_figures(page)
    settled(page)
    assert headline(page) == after
    page.go_back()
    expect(page.locator("#model")).to_have_value("llama3-8b")


def test_what_was_assumed_is_listed_until_another_model_is_chosen(visit):
    page = visit(EIGHT_GPUS)
    wait_for_figures(page)
    page.set_input_files(
        PICKER, {"name": "config.json", "mimeType": "application/json", "buffer": b'{"model_type": "llama"}'}
    )
    said = page.locator(".panel p", has_text="hidden_size = 4096: the file leaves it out")
    expect(said).to_be_visible()
    page.select_option("#model", "llama3-70b")
    expect(said).to_be_hidden()


def test_a_file_that_cannot_be_used_names_its_key_and_what_belongs_elsewhere_gets_there(visit, tmp_path):
    page = visit(EIGHT_GPUS, refusals=(422,))
    wait_for_figures(page)
    body = json.dumps({"architectures": ["LlamaForCausalLM"], "vocab_size": -1}).encode()
    page.set_input_files(PICKER, {"name": "broken.json", "mimeType": "application/json", "buffer": body})
    problem = page.get_by_role("alert").filter(has_text="broken.json cannot be used")
    expect(problem).to_contain_text("vocab_size")
    page.set_input_files(PICKER, {"name": "train.log", "mimeType": "text/plain", "buffer": b"step 1 loss 2.3"})
    problem = page.get_by_role("alert").filter(has_text="train.log cannot be used")
    expect(problem).to_contain_text("Choose the config.json of a Hugging Face model")
    expect(page.locator("#model")).to_have_value("llama3-8b")
    # the page takes no calibration from a file, so says where it is taken
    body = json.dumps({"base": "hopper", "ranges": {}}).encode()
    page.set_input_files(PICKER, {"name": "own.json", "mimeType": "application/json", "buffer": body})
    problem = page.get_by_role("alert").filter(has_text="own.json cannot be used")
    expect(problem).to_contain_text("ranges: this is a calibration, no config.json")
    expect(problem).to_contain_text("--calibration FILE")
    # what belongs elsewhere on the page gets there, and that is said
    reference = ROOT / "tests" / "reference"
    listed = tmp_path / "listed.json"
    listed.write_text(json.dumps(json.loads((reference / "ops" / "gpt2.json").read_text()) | {"program": "listed.py"}))
    for path, letter in ((reference / "h200" / "trace-short-1.trace.json.gz", "B"), (listed, "A")):
        page.set_input_files(PICKER, path)
        expect(page.locator(".toast", has_text=f"{path.name} is no config.json: it is imported")).to_be_visible()
        expect(side(page, letter)).to_contain_text(path.name.partition(".")[0])
