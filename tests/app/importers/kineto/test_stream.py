"""Slices: the same events come out wherever the file happens to be cut into pieces."""

from __future__ import annotations

import json

import pytest

from app.importers import import_file
from app.importers.imported import Limits
from app.importers.kineto import stream
from app.importers.kineto.trace_columns import collect
from app.importers.source import Source
from estimator.scenario.units import MIB
from tests.app.importers.kineto import made
from tests.app.importers.reading import REFERENCE, write


def names(path):
    report = stream.StreamReport()
    found = [event.name for events in stream.events(Source(path, Limits()), report) for event in events]
    return found, report


@pytest.mark.parametrize("size", [700, 1000, 4096, 1_000_000])
@pytest.mark.parametrize("indent", [None, 2])
def test_any_size_of_slices(tmp_path, monkeypatch, size, indent):
    document = made.trace(steps=5)
    path = write(tmp_path, json.dumps(document, indent=indent))
    monkeypatch.setattr(stream, "CHUNK_BYTES", size)
    monkeypatch.setattr(stream, "_CUT_WINDOW", 256)
    found, report = names(path)
    assert found == [event["name"] for event in document["traceEvents"]]
    assert (report.skipped, report.cleaned, report.truncated) == (0, 0, False)
    assert report.metadata["traceName"] == "/home/secret-user/trace.json"


def test_only_used_fields_are_kept(tmp_path):
    path = write(tmp_path, json.dumps(made.trace()))
    trace = collect(stream.events(Source(path, Limits()), stream.StreamReport()))
    assert (len(trace.ops), len(trace.device), len(trace.launches), len(trace.marks)) == (21, 15, 15, 6)
    assert len(trace.shapes) == 6
    assert trace.devices == {0}


def test_an_event_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "_LONGEST_EVENT_BYTES", 2 * MIB)
    monster = '{"traceEvents": [{"ph": "X", "name": "' + "x" * (3 * MIB)
    with pytest.raises(stream.ImportRefused, match="one event is longer"):
        names(write(tmp_path, monster))


def test_a_name_without_end_is_searched_but_once_over(tmp_path, monkeypatch):
    searched = []
    monkeypatch.setattr(stream, "CHUNK_BYTES", 1024)
    monkeypatch.setattr(stream, "_LONGEST_EVENT_BYTES", MIB)
    cut = stream._last_cut
    monkeypatch.setattr(stream, "_last_cut", lambda buffer: searched.append(len(buffer)) or cut(buffer))
    path = write(tmp_path, '{"traceEvents": [{"ph": "X", "name": "' + "x" * (2 * MIB))
    with pytest.raises(stream.ImportRefused, match="one event is longer"):
        list(stream.events(Source(path, Limits()), stream.StreamReport()))
    assert sum(searched) < 4 * MIB


def test_usual_and_other_categories_give_the_same(monkeypatch):
    path = REFERENCE / "kineto" / "h200_ddp.json.gz"
    usual = import_file(path, "a")
    monkeypatch.setattr(stream, "_MANY_UNUSUAL", 0)
    assert import_file(path, "a") == usual
