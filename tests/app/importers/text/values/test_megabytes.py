from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.importers.text.values.megabytes import DECIMAL, megabyte, rescale, warning
from estimator.scenario.units import MIB

LENGTHS = (256, 1024, 4096, 8192, 16384)


def kept_bytes(batch, element, length, width):
    """Scores, q, k, v, result and two workspaces, as eager attention keeps them."""
    return batch * element * length**2 + 4 * batch * element * length * width + 2 * 8_519_680


def table(scale, batch=8, element=4, digits=2):
    return [
        {"seq_len": s, "d_model": d, "m_bytes": round(kept_bytes(batch, element, s, d) / scale, digits) * DECIMAL}
        for d in (16, 64)
        for s in LENGTHS
    ]


@settings(max_examples=40, deadline=None)
@given(batch=st.integers(1, 16), element=st.sampled_from([2, 4]), scale=st.sampled_from([DECIMAL, float(MIB)]))
def test_the_unit_is_found_or_left_open_but_never_wrong(batch, element, scale):
    assert megabyte(table(scale, batch, element), "m_bytes", ["d_model"]) in (scale, None)


@pytest.mark.parametrize("scale", [DECIMAL, float(MIB)])
def test_the_unit_is_found_where_the_printed_numbers_are_rounded(scale):
    assert megabyte(table(scale, digits=0), "m_bytes", ["d_model"]) == scale


def test_too_few_or_flat_numbers_tell_nothing():
    assert megabyte(table(MIB)[:2], "m_bytes", ["d_model"]) is None
    flat = [{"seq_len": s, "m_bytes": 5e6} for s in LENGTHS]
    assert megabyte(flat, "m_bytes", []) is None
    assert megabyte([{"seq_len": None, "m_bytes": 1.0}], "m_bytes", []) is None


def test_rescaling_and_its_warning():
    rows = [{"m_bytes": 10.62e6, "other": 1.0}, {"m_bytes": None}]
    rescale(rows, {"m_bytes": {"MB"}}, MIB)
    assert rows == [{"m_bytes": pytest.approx(10.62 * MIB), "other": 1.0}, {"m_bytes": None}]
    assert warning(float(MIB), "x").code == "mb-is-mib"
    assert warning(DECIMAL, "x").code == "mb-is-decimal"
    assert warning(None, "x").code == "mb-ambiguous"


def test_what_is_printed_in_gb_is_spoken_of_in_gb():
    said = warning(None, "x", {"GB"}).message
    assert "'GB' was read as 1 000 000 000 bytes" in said
    assert "GiB was meant (7.4 % more)" in said
    assert "MB" not in said
    both = warning(None, "x", {"MB", "GB/s"}).message
    assert "'MB' and 'GB' were read" in both
    assert "MiB and GiB were meant (4.9 and 7.4 % more)" in both
    rows = [{"m_bytes": 2e9, "n_bytes": 5e6, "both_bytes": 1.0}]
    rescale(rows, {"m_bytes": {"GB"}, "n_bytes": {"MB"}, "both_bytes": {"MB", "GB"}}, MIB)
    assert rows == [{"m_bytes": pytest.approx(2 * 1024**3), "n_bytes": pytest.approx(5 * MIB), "both_bytes": 1.0}]
    gibibytes = [{**row, "m_bytes": row["m_bytes"] / 1024**3 * 1e9 / DECIMAL} for row in table(1.0, digits=0)]
    assert megabyte(gibibytes, "m_bytes", ["d_model"], {"GB"}) == MIB
    assert megabyte(gibibytes, "m_bytes", ["d_model"], {"GB", "MB"}) is None
