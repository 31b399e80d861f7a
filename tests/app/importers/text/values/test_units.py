from __future__ import annotations

import pytest

from app.importers.text.values.units import is_time, unit


@pytest.mark.parametrize(
    ("text", "suffix", "scale"),
    [
        ("ms", "_s", 1e-3),
        ("µs", "_s", 1e-6),
        ("μs", "_s", 1e-6),
        ("seconds", "_s", 1.0),
        ("MiB", "_bytes", 1024**2),
        ("GB", "_bytes", 1e9),
        ("GB/s", "_bytes_per_s", 1e9),
        ("GBps", "_bytes_per_s", 1e9),
        ("Gbps", "_bytes_per_s", 1e9 / 8),
        ("GiB/s", "_bytes_per_s", 1024**3),
        ("TFLOP/s", "_flops_per_s", 1e12),
        ("%", "_frac", 0.01),
        ("x", "", 1.0),
    ],
)
def test_known_units(text, suffix, scale):
    found = unit(text)
    assert (found.suffix, found.scale) == (suffix, scale)


@pytest.mark.parametrize("text", ["", "proc", "times", "tokens", "TFLOPS", "gb/second"])
def test_unknown_and_doubtful_units_are_not_guessed(text):
    assert unit(text) is None


def test_only_the_decimal_words_are_loose():
    assert unit("MB").loose
    assert unit("GB/s").loose
    assert not unit("MiB").loose


def test_times():
    assert is_time("ms")
    assert not is_time("MB")
