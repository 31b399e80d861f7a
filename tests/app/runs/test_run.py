"""A run as its folder shows it: the end of its log."""

from __future__ import annotations

import pytest

from app.runs.run import LOG_TAIL_BYTES, log_tail

LONG = "x" * (LOG_TAIL_BYTES + 100)


@pytest.mark.parametrize(
    ("log", "tail"),
    [
        ("first\nlast\n", "first\nlast\n"),
        (f"{LONG}\nlast\n", "last\n"),
        (f"first\n{LONG}\n", LONG[: LOG_TAIL_BYTES - 1] + "\n"),
        (f"first\n{LONG}", LONG[:LOG_TAIL_BYTES]),
    ],
    ids=["short", "long before", "long", "unfinished"],
)
def test_the_end_of_a_log_is_shown_however_long_its_last_line(tmp_path, log, tail):
    (tmp_path / "log").write_text(log)
    assert log_tail(tmp_path) == tail
