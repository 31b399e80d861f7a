from __future__ import annotations

import pytest

from estimator.validation.predicted_rows import predicted_table
from tests.app.importers.reading import codes, one, read

TABLE = """\
| implementation | step time (ms) | communication (ms) |
|---|---|---|
| naive | 120 | 20 |
| flat | 110 | 10 |
| bucketed (25 MB) | 105 | 6 |
| overlap | 100 | 4 |
"""


@pytest.mark.parametrize(
    "sentence",
    [
        "The model is gpt2-xl, sequence length 512, batch size 8, on 2 H100 in bf16.",
        "We trained gpt2-xl in bf16 on 2 H100: context length 512, batch size 8.",
    ],
)
def test_the_sentence_above_says_what_no_column_does(tmp_path, sentence):
    imported = read(tmp_path, f"## Exchange\n{sentence}\n\n{TABLE}")
    measurement = one(imported, "data-parallel-steps")
    assert [row["ddp_mode"] for row in measurement.rows] == ["naive", "flat", "bucketed", "overlapped"]
    known = {"catalogue_model": "gpt2-xl", "seq_len": 512, "batch": 8, "precision": "bf16", "world_size": 2}
    assert all(row.items() >= known.items() for row in measurement.rows)
    assert measurement.rows[0]["communication_wait_s"] == 0.02
    assert measurement.rows[2]["bucket_bytes"] == 25 * 2**20
    assert {"said-in-text"} == codes(imported)
    predicted = predicted_table(measurement, "h100-sxm").rows
    assert predicted[0]["step_s"] > predicted[3]["step_s"]


def test_a_table_of_other_ways_is_none(tmp_path):
    text = "| implementation | step time (ms) |\n|---|---|\n| naive | 120 |\n| triton | 20 |\n"
    assert one(read(tmp_path, text)).origin.format == "text/table"
