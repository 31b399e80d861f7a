"""Memory snapshots: what was in use when, and by whom; nothing of the pickle runs."""

from __future__ import annotations

import json
import pickle

import pytest

from tests.app.importers.reading import codes, one, read, refusal

FRAMES = [
    {"filename": "/usr/lib/torch/nn/modules/linear.py", "line": 1, "name": "forward"},
    {"filename": "/home/secret-user/train.py", "line": 42, "name": "step"},
]
START_US = 1_790_000_000_000_000
"""Torch writes microseconds since 1970."""


def entry(action, address=0, size=0, at=0, frames=()):
    return {
        "action": action,
        "addr": address,
        "size": size,
        "stream": 0,
        "time_us": at,
        "frames": list(frames),
    }


def snapshot(entries, blocks=((0x100, 64, "active_allocated"),)):
    held = [{"address": a, "size": s, "requested_size": s, "state": state, "frames": FRAMES} for a, s, state in blocks]
    segment = {"address": 0x100, "total_size": 4096, "device": 0, "stream": 0, "segment_type": "small", "blocks": held}
    return {"segments": [segment], "device_traces": [entries], "allocator_settings": {}}


def test_memory_over_time_is_walked_back_from_the_end(tmp_path):
    entries = [
        entry("free_requested", 0x900, 1000, START_US + 5),
        entry("free_completed", 0x900, 1000, START_US + 6),  # taken before the history began
        entry("alloc", 0x200, 300, START_US + 10, FRAMES),
        entry("alloc", 0x300, 200, START_US + 20, FRAMES),
        entry("free_completed", 0x300, 200, START_US + 30),
        entry("free_completed", 0x200, 300, START_US + 40),
    ]
    found = one(read(tmp_path, pickle.dumps(snapshot(entries), protocol=4)))
    assert one(read(tmp_path, json.dumps(snapshot(entries)))).rows == found.rows, "as the runner writes it"
    times = [row for row in found.rows if "time_s" in row]
    assert [row["allocated_bytes"] for row in times] == [1064.0, 64.0, 364.0, 564.0, 364.0, 64.0]
    assert times[-1]["time_s"] == pytest.approx(35e-6)
    assert (found.memory.peak_bytes, found.memory.reserved_bytes) == (1064.0, 4096.0)
    holders = [row for row in found.rows if "place" in row]
    assert [(row["held_bytes"], row["place"]) for row in holders] == [(1000.0, ""), (64.0, "train.py:42 step")]


def test_without_a_history_what_is_held_now_is_the_peak(tmp_path):
    found = one(read(tmp_path, pickle.dumps(snapshot([]))))
    assert found.memory.peak_bytes == 64.0
    segments = snapshot([])["segments"]
    assert one(read(tmp_path, pickle.dumps(segments, protocol=2))).memory.peak_bytes == 64.0
    assert "oom-in-history" in codes(read(tmp_path, pickle.dumps(snapshot([{"action": "oom", "device_free": 1}]))))


class Evil:
    def __reduce__(self):
        return print, ("ran",)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (pickle.dumps(Evil()), "asks for builtins.print"),
        (pickle.dumps({"segments": [Evil()]}, protocol=2), "asks for __builtin__.print"),
        (b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00\x8c\x01aQ.", "something outside"),
        (pickle.dumps(snapshot([]))[:-40], "damaged"),
        (pickle.dumps({"a": 1}), "no memory snapshot"),
        (pickle.dumps({"segments": []}), "no memory of any device"),
    ],
)
def test_pickles_of_anything_else_are_refused_and_nothing_runs(tmp_path, capsys, content, word):
    assert word in str(refusal(tmp_path, content))
    assert "ran" not in capsys.readouterr().out


@pytest.mark.parametrize("hostile", [None, -5, "x", 2**80, [], {}, True])
def test_odd_values_count_as_nothing(tmp_path, hostile):
    document = snapshot([entry("alloc", hostile, hostile, hostile, [hostile]), hostile])
    document["segments"] += [hostile, {"device": 0, "total_size": hostile, "blocks": hostile}]
    assert one(read(tmp_path, pickle.dumps(document))).memory.peak_bytes == 64.0
