"""Probes of the calibration ladder: their inputs."""

from __future__ import annotations

from runners.probes.probe import MOST_SETS, rotating


def test_inputs_rotate_until_no_cache_holds_them():
    made: list[int] = []
    used: list[int] = []
    call = rotating("cpu", 2.0**24, lambda: made.append(len(made)) or made[-1], used.append)
    for _ in range(5):
        call()
    assert made == [0, 1, 2, 3]
    assert used == [0, 1, 2, 3, 0]
    made.clear()
    rotating("cpu", 1.0, lambda: made.append(0), used.append)
    assert len(made) == MOST_SETS
