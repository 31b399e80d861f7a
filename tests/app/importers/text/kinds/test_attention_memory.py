from __future__ import annotations

from estimator.scenario.units import MIB
from tests.app.importers.reading import codes, one, read


def tables(per_square=True):
    lines = []
    for width in (16, 64):
        lines += ["", f"d_model = {width}:", "  Seq Length   Memory (MB)     Memory/seq^2", "  ----------"]
        for seq in (1024, 4096, 8192):
            mib = (32 * seq**2 + 128 * seq * width) / MIB
            lines.append(f"  {seq}         {mib:.2f}           {mib / seq**2 * 1e6 if per_square else 7.5:.6f}")
    return "\n".join(lines)


def test_a_unit_that_is_none_behind_a_size_leaves_that_of_the_header(tmp_path):
    text = "d_model = 32:\n  Seq Length   Memory (MB)   Memory/seq^2\n  256          10.6Op        162.1\n"
    found = one(read(tmp_path, f"{text}  1024         50.25         47.9\n"), "attention-memory")
    assert found.rows[1]["memory_before_backward_bytes"] == 50.25e6


def test_groups_and_units(tmp_path):
    imported = read(tmp_path, tables())
    rows = one(imported, "attention-memory").rows
    assert [(row["d_model"], row["seq_len"]) for row in rows][:4] == [(16, 1024), (16, 4096), (16, 8192), (64, 1024)]
    assert rows[2]["memory_before_backward_bytes"] == 32 * 8192**2 + 128 * 8192 * 16
    assert abs(rows[2]["memory_per_seq_squared_bytes"] - 34.0 * (1 - 1.75 / 34)) < 2
    assert codes(imported) == {"mb-is-mib"}


def test_a_last_column_that_is_something_else(tmp_path):
    row = one(read(tmp_path, tables(per_square=False))).rows[0]
    assert row["memory_per_seq_squared"] == 7.5
    assert "memory_per_seq_squared_bytes" not in row
