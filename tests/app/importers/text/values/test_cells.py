from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.importers.text.values.cells import cell, is_data, number


@pytest.mark.parametrize(
    ("text", "value", "spread", "unit"),
    [
        ("1355 (1.64x)", 1355, None, ""),
        ("942 ms (1.5x)", 942, None, "ms"),
        ("12 (1.5X)", 12, None, ""),
        ("0.024990±0.003563", 0.02499, 0.003563, ""),
        ("0.13 ± 0.00", 0.13, 0.0, ""),
        ("606.90 +/- 3.13 ms", 606.9, 3.13, "ms"),
        ("4.1+-0.2us", 4.1, 0.2, "us"),
        ("0.034s(0.00036s)", 0.034, 0.00036, "s"),
        ("20.9 (± 2.2) ms", None, None, ""),
        ("128,625,408", 128625408, None, ""),
        ("0,13", 0.13, None, ""),
        ("1,234", 1234, None, ""),
        ("526 μs", 526, None, "us"),
        ("526 µs", 526, None, "us"),
        ("**3.8 GB**", 3.8, None, "GB"),
        ("6.0x", 6.0, None, "x"),
        ("43%", 43, None, "%"),
        ("-3.88", -3.88, None, ""),
        ("1.5e-3", 0.0015, None, ""),
        ("895.2 ms (28.1%)", 895.2, None, "ms"),
        ("200 ms ± 3%", 200, 6.0, "ms"),
    ],
)
def test_numbers(text, value, spread, unit):
    read = cell(text)
    assert (read.value, read.spread, read.unit) == (value, spread, unit)


@pytest.mark.parametrize("text", ["OOM", "**OOM**", "oom", "Out of memory", "CUDA OOM"])
def test_out_of_memory(text):
    assert cell(text).missing == "oom"
    assert is_data(text)


@pytest.mark.parametrize("text", ["N/A", "-", "—", "nan", "", "inf"])
def test_absent(text):
    assert cell(text).missing == "absent"


@pytest.mark.parametrize("text", ["bf16", "small_seq128", "✓", "d=16, seq=256", "2.7B-chat!", "1.2.3", "1e999"])
def test_text_stays_text(text):
    assert cell(text).value is None
    assert cell(text).missing == ""


def test_what_is_about_so_large_stays_so_in_words():
    assert cell("~55 GB").value == 55
    assert cell("**as measured: ~55GB**").text == "as measured: ~55GB"


def test_long_cells_are_cut():
    assert len(cell("1" * 1_000_000).text) == 200


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12))
def test_every_printed_number_is_read_back(value):
    assert cell(f"{value:.6f}").value == float(f"{value:.6f}")
    assert number(f"{value:,.3f}") == float(f"{value:.3f}")


@given(st.text(max_size=300))
def test_any_text_is_read(text):
    read = cell(text)
    assert read.value is None or abs(read.value) >= 0


@pytest.mark.parametrize(
    ("text", "value"),
    [("1 024", 1024), ("8'192", 8192), ("1_024", 1024), ("104 512.5", 104512.5), ("12 34", None), ("1 0245", None)],
)
def test_thousands_are_parted_in_many_ways(text, value):
    assert cell(text).value == value


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1m10s", 70), ("2h 14m", 8040), ("7:02:11", 25331), ("44 min", 2640), ("1.5 h", 5400), ("3h", 10800)],
)
def test_long_times_are_seconds(text, seconds):
    assert (cell(text).value, cell(text).unit) == (seconds, "s")


def test_minutes_alone_and_clocks_of_two_parts_may_be_anything():
    assert (cell("5m").value, cell("5m").unit) == (5, "m")
    assert cell("0:45").value is None
