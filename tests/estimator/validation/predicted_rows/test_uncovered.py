"""Why rows have no prediction, in words: the library, the model, or what they are of."""

from __future__ import annotations

import pytest

from estimator.validation.predicted_rows.uncovered import NAMED, UNKNOWN_ROWS, uncovered, unknown_rows


@pytest.mark.parametrize(
    ("form", "rows", "why"),
    [
        ("collectives", [{"library": "mpi"}], "its rows ran over mpi, and only NCCL and gloo are predicted"),
        (
            "text/collectives",
            [{"kind": "x"}],
            "its rows do not say what they ran over, and only NCCL and gloo are predicted",
        ),
        ("collectives", [{"library": "nccl", "kind": "p2p"}], "the estimator has no formula for p2p"),
        ("memory", [{"model": "tiny", "pass": "step"}], "the catalogue has no model tiny"),
        (
            "memory",
            [{"model": "gpt2", "pass": "forward"}],
            "the estimator has no formula for the peak of forward alone",
        ),
        ("step", [{"model": "tiny"}, {"model": "gpt2", "mode": "x"}], "the estimator has no formula for mode x"),
        (
            "ddp",
            [{"model": "gpt2", "variant": "fsdp", "precision": "bf16-amp"}] * 2,
            "the estimator has no formula for fsdp in bf16-amp",
        ),
        (
            "attention",
            [{"implementation": name, "precision": "fp32"} for name in "abcde"],
            "the estimator has no formula for a in fp32, b in fp32, c in fp32 and 2 more",
        ),
        ("ulysses", [{"step": "softmax"}, {}], "the estimator has no formula for softmax"),
        ("ulysses", [{}], UNKNOWN_ROWS),
        (
            "text/step-times",
            [{"model": "mine"}],
            f"its rows do not tell which model of the catalogue mine is: {NAMED}",
        ),
        (
            "text/step-times",
            [{"model": "mixtral-8x9b"}],
            "its rows do not tell which model of the catalogue mixtral-8x9b is (the nearest names are mixtral-8x7b, "
            f"mixtral-8x22b): {NAMED}",
        ),
        ("text/step-times", [{"seq_len": 8}], UNKNOWN_ROWS),
        (
            "text/step-times",
            [{"model": "gpt2", "catalogue_model": "gpt2", "batch": 8, "gpu": "H100", "step_s": 0.06}],
            "the table states no sequence length: write it into a column seq_len (or sequence length, context)",
        ),
    ],
)
def test_the_reason_names_what_was_measured(form, rows, why):
    assert uncovered(form, rows) == why


@pytest.mark.parametrize(
    ("row", "lacking"),
    [
        ({"arch": "mistral-7b", "hw": "H100", "n_gpu": 8, "t_step_s": 1.2}, "model, seq_len and step (ms)"),
        ({"model": "gpt2", "seq_len": 8, "t_step_s": 1.2}, "step (ms)"),
    ],
)
def test_a_table_of_no_known_kind_says_which_columns_of_steps_it_lacks(row, lacking):
    assert unknown_rows("text/table", [row]).startswith(f"of a table of steps it lacks {lacking} (or another time")
    assert "docs/importing.md" in unknown_rows("text/table", [row])
    assert unknown_rows("precision", [row]) == UNKNOWN_ROWS


def test_what_a_file_put_there_is_cut_short():
    assert len(uncovered("collectives", [{"library": "x" * 10_000, "kind": ["y"]}])) < 100
