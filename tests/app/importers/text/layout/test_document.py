from __future__ import annotations

from app.importers.text.layout.document import Fields, KeyValue, Surroundings, Table, label, place


def test_fields_are_found_by_words_of_their_key():
    fields = Fields(title="T", line=3, entries=(KeyValue(key="Overall MIN time", value="1", line=4),))
    assert fields.get("min", "time").value == "1"
    assert fields.get("max") is None


def test_names_and_places():
    table = Table(form="aligned", columns=("a",), rows=(("1",),), line=7, lines=(8,))
    assert (label(table), place(table)) == ("", "line 7")
    placed = Fields(title="T", line=3, entries=(), around=Surroundings(heading=("One", "(a)")))
    assert (label(placed), place(placed)) == ("One (a)", "line 3 (One (a))")
    assert label(Fields(title="T", line=3, entries=())) == "T"
