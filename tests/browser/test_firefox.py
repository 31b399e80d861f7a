"""The main pages in Firefox: A | B with its figures, a slider, an import, search, runs, studies; a quiet console."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests import firefox
from tests.browser.server import ROOT, Server
from tests.javascript import NODE

pytestmark = pytest.mark.browser

TABLE = "batch, sequence, forward_s\n1, 128, 0.012\n2, 128, 0.021\n4, 128, 0.043\n"


def test_every_page_works_in_firefox(tmp_path: Path, server: Server) -> None:
    try:
        found = firefox.find()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    file = tmp_path / "forward.csv"
    file.write_text(TABLE)
    command = [str(NODE), str(ROOT / "tests/browser/firefox.mjs"), found, server.url, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["complaints"] == []
    seen = result["seen"]
    assert [word in side for word, side in zip(("predicted", "measured"), seen["sides"], strict=True)] == [True, True]
    assert seen["causes"] >= 5
    assert seen["after"] != seen["before"]
    assert seen["uploaded"] >= 1
    assert seen["pages"] == {
        "search": "Search", "runs": "Runs", "measurements": "Measurements", "studies": "Studies",
    }  # fmt: skip
