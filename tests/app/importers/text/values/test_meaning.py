from __future__ import annotations

import pytest

from app.importers.text.values.header import column
from app.importers.text.values.meaning import MODEL, SEQ_LEN, name_is, quantity


@pytest.mark.parametrize(
    ("header", "name", "of", "total"),
    [
        ("Forward (s)", "forward", "", False),
        ("fwd(ms)", "forward", "", False),
        ("Backward (ms)", "backward", "", False),
        ("Fwd+Bwd (s)", "forward_backward", "", False),
        ("Training Step (s)", "step", "", False),
        ("avg_total_time", "step", "", False),
        ("total_forward_time", "forward", "", True),
        ("total time", "step", "", False),
        ("Optimizer step (ms)", "optimizer", "", False),
        ("bkw pass and communication time (ms)", "backward_communication", "", False),
        ("ft_torch", "forward", "torch", False),
        ("fbt_triton", "forward_backward", "triton", False),
        ("speedup_bwd", "backward_speedup", "", False),
        ("Forward Speedup", "forward_speedup", "", False),
        ("Mem Before (MB)", "memory_before_backward", "", False),
        ("Peak Mem (MB)", "peak_memory", "", False),
        ("Memory Diff (MB)", "peak_memory_difference", "", False),
        ("Memory/seq^2", "memory_per_seq_squared", "", False),
    ],
)
def test_quantities(header, name, of, total):
    found = quantity(column(header))
    assert (found.name, found.of, found.total) == (name, of, total)


@pytest.mark.parametrize("header", ["Model", "Params", "Status", "d_model", "precision", "B"])
def test_other_columns_measure_nothing(header):
    assert quantity(column(header)) is None


@pytest.mark.parametrize(
    ("header", "name"),
    [("tokens/s", "tokens_per_s"), ("Samples / sec", "samples_per_s"), ("mean it/s", "it_per_s"), ("q/s", "q_s")],
)
def test_what_is_counted_a_second_is_no_time(header, name):
    assert column(header).name == name


def test_names():
    assert name_is(column("Seq Length"), SEQ_LEN)
    assert name_is(column("context_length"), SEQ_LEN)
    assert name_is(column("model_name"), MODEL)
    assert not name_is(column("d_model"), MODEL)
