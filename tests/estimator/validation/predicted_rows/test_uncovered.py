"""Why rows have no prediction, in words: the library, the model, or what they are of."""

from __future__ import annotations

import pytest

from estimator.validation.predicted_rows.uncovered import UNKNOWN_ROWS, uncovered


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
            "its rows do not tell which model of the catalogue mine is: write its name, as gpt2 or cs336-small (CS336 "
            "in the heading will do), or all digits of its parameters in a column params",
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


def test_what_a_file_put_there_is_cut_short():
    assert len(uncovered("collectives", [{"library": "x" * 10_000, "kind": ["y"]}])) < 100
