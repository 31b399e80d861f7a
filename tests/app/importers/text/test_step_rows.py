from __future__ import annotations

import pytest

from app.importers.text.columns import column
from app.importers.text.figures import Findings
from app.importers.text.step_rows import describe


@pytest.mark.parametrize(
    ("header", "text", "row"),
    [
        ("Model", "small_seq128", {"model": "small", "seq_len": 128}),
        ("model", "2.7B-ctx512", {"model": "2.7B", "seq_len": 512}),
        ("size", "**xl**", {"model": "xl"}),
        ("Params", "1,998,235,200", {"parameters": 1998235200}),
        ("context_length", "512", {"seq_len": 512}),
        ("bs", "8", {"batch": 8}),
        ("dtype", "torch.bfloat16", {"precision": "bf16"}),
        ("dtype", "", {}),
        ("Peak mem (GiB)", "2", {"peak_memory_bytes": 2.0 * 1024**3}),
        ("GPU", "A100", {"gpu": "A100"}),
        ("layers", "12", {"layers": 12}),
        ("Status", "✓", {}),
    ],
)
def test_columns(header, text, row):
    found: dict = {}
    describe(found, column(header), text, Findings())
    assert found == row


def test_parameters_name_the_catalogues_model():
    found: dict = {}
    describe(found, column("Model"), "small_seq128", Findings())
    describe(found, column("Params"), "128,625,408", Findings())
    assert found["catalogue_model"] == "cs336-small"


def test_a_status_may_say_out_of_memory():
    findings = Findings()
    describe({}, column("Status"), "OOM", findings)
    assert findings.oom == 1
