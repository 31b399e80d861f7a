"""``headroom catalog``: the names that a scenario may give."""

from __future__ import annotations

import json
import re

from app.cli import run


def test_the_catalogue_lists_what_a_scenario_may_name(capsys):
    assert run(["catalog"]) == 0
    text = capsys.readouterr().out
    for words in (r"llama3-8b +8\.03 G", r"h200-sxm +989 TFLOP/s", r"nvlink4 +450 GB/s +0\.6 µs"):
        assert re.search(words, text), words
    assert run(["catalog", "chips", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"chips"}
    assert {"h100-sxm", "mi300x"} <= {one["key"] for one in found["chips"]}
    assert run(["catalog", "gpus"]) == 2
    assert "'gpus' is not known. One of: models, chips, links." in capsys.readouterr().err
