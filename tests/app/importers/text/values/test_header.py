from __future__ import annotations

import pytest

from app.importers.text.values.header import column, split_words
from tests.javascript import call_each


@pytest.mark.parametrize(
    ("header", "name", "statistic", "suffix"),
    [
        ("Forward (ms)", "forward", "", "_s"),
        ("avg_forward_time", "forward_time", "mean", None),
        ("mem_before(MB)", "mem_before", "", "_bytes"),
        ("peak_gib", "peak", "", "_bytes"),
        ("step_time_ms", "step_time", "", "_s"),
        ("latency [us]", "latency", "", "_s"),
        ("std (s)", "std", "std", "_s"),
        ("p99_ms", "p99", "p99", "_s"),
        ("Memory/seq^2", "memory_seq^2", "", None),
        ("d_model", "d_model", "", None),
        ("ms", "time", "", "_s"),
        ("µs", "time", "", "_s"),
        ("Seconds", "time", "", "_s"),
        ("s", "s", "", None),
        ("mb", "mb", "", None),
        ("time_min", "time", "min", None),
        ("avgForwardTime", "forward_time", "mean", None),
        ("Speedup (x)", "speedup", "", ""),
        ("Notes (see below)", "notes_see_below", "", None),
    ],
)
def test_headers(header, name, statistic, suffix):
    found = column(header)
    assert found.name == name
    assert found.statistic == statistic
    assert (found.unit.suffix if found.unit else None) == suffix


def test_words():
    assert split_words("Fwd+Bwd (s)") == ("fwd", "bwd", "s")
    assert split_words("ft_torch") == ("ft", "torch")


def test_the_page_takes_headers_apart_and_puts_them_together_again():
    names = [["Forward (ms)", "ms"], ["peak_gib", "gib"], ["took", ""], ["a [%]", "%"]]
    assert call_each("headers", "nameOf", names) == ["Forward", "peak", "took", "a"]
    assert call_each("headers", "unitOf", [["us"], ["gib"], ["MB"], ["KB/s"]]) == ["µs", "GiB", "MB", "KB/s"]
    (header, bare) = call_each("headers", "headerOf", [["peak memory", "GiB"], [" model ", ""]])
    assert (column(header).words, column(header).printed_unit, bare) == (("peak", "memory"), "GiB", "model")
