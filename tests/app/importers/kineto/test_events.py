from __future__ import annotations

import json

import pytest

from app.importers.kineto.events import LIST, NO_ID, lenient


def test_only_the_fields_that_are_used_are_decoded():
    text = '[{"ph": "X", "name": "a", "secret": {"deep": [1]}, "args": {"External id": 5, "host": "h"}}]'
    (event,) = LIST.decode(text)
    assert event.args.external == 5
    assert not hasattr(event, "secret")


@pytest.mark.parametrize(
    ("event", "ts", "pid"),
    [
        ({"ts": "12.5", "pid": 1.5}, 12.5, "1.5"),
        ({"ts": 3, "pid": None}, 3.0, None),
        ({"ts": 3, "pid": [1]}, 3.0, None),
        ({"ts": 3, "pid": True}, 3.0, None),
    ],
)
def test_odd_types_are_converted(event, ts, pid):
    found = lenient(json.dumps({"ph": "X", "name": "n", **event}).encode())
    assert (found.ts, found.pid) == (ts, pid)


@pytest.mark.parametrize(
    "event",
    [
        '{"ts": "soon"}',
        '{"ts": ' + "9" * 400 + "}",
        '{"name": 5}',
        '{"ts": 1e300}',
        "[1]",
        "5",
        "{",
        '{"dur": [1]}',
        '{"a": NaN}',
    ],
)
def test_hopeless_events(event):
    assert lenient(event.encode()) is None


def test_odd_arguments_are_dropped_one_by_one():
    arguments = {"External id": "7", "correlation": 1e40, "dtype": 5, "Input Dims": "x", "Collective name": "allreduce"}
    args = lenient(json.dumps({"ts": 1, "args": arguments}).encode()).args
    assert (args.external, args.correlation, args.dtype, args.collective) == (7, NO_ID, "", "allreduce")
    assert bytes(args.dims) == b""
