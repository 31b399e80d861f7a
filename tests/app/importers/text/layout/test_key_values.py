from __future__ import annotations

from app.importers.text.layout.key_values import read


def test_pairs_groups_and_several_on_a_line():
    lines = [
        "Model: xl, Sequence length: 512",
        "",
        "Per-rank average times:",
        "  Rank 0: 0.047 ms",
        "  Rank 1: 1.273 ± 0.1 ms",
        "====",
        "Other: 1",
    ]
    fields, after = read(lines, 0)
    assert [(e.key, e.value) for e in fields.entries] == [
        ("Model", "xl"),
        ("Sequence length", "512"),
        ("Rank 0", "0.047 ms"),
        ("Rank 1", "1.273 ± 0.1 ms"),
    ]
    assert [e.group for e in fields.entries] == ["", "", "Per-rank average times", "Per-rank average times"]
    assert after == 5
    assert fields.get("rank", "1").value == "1.273 ± 0.1 ms"
    assert fields.get("nothing") is None


def test_the_line_above_names_the_group():
    fields, _ = read(["1. Pure float32:", "   Result: 10.0", "   Expected: 10.0"], 1)
    assert fields.entries[0].group == "Pure float32"


def test_words_prompts_and_notices_are_no_figures():
    assert read(["Answer: it is slow", "Note: really"], 0) is None
    assert read(["WARNING: 3 things", "Error: 4"], 0) is None
    assert read(["user@host:~$ run 5", "x"], 0) is None


def test_a_long_run_of_words_is_given_up_early():
    assert read(["a: b"] * 10_000, 0) is None
