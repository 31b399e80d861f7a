from __future__ import annotations

import pytest

from app.importers.text.layout.decimals import with_points
from app.importers.text.layout.scan import scan
from tests.app.importers.reading import codes, read


def cells(text):
    document, warnings = with_points(scan(text))
    (table,) = document.blocks
    return table.rows, [warning.code for warning in warnings]


def test_a_comma_that_parts_no_thousands_shows_what_commas_are():
    rows, said = cells("a\tb\tc\n1.312,5\t61,2 GB\t1.250\n12.345,6\t74,1\tx\n")
    assert rows == (("1312.5", "61.2 GB", "1250"), ("12345.6", "74.1", "x"))
    assert said == ["decimal-comma"]


def test_semicolons_are_where_the_comma_is_taken():
    assert cells("step (s);memory\n1,312;61\n12,345;74\n")[0] == (("1.312", "61"), ("12.345", "74"))


@pytest.mark.parametrize(
    "text",
    [
        "a\tb\n1,312.5\t8\n",
        "a\tb\n1,312\t8\n",
        "tp,pp of it\tb\n8,2\t1.250\n",
        "shape\tb\n4096,11008\t8\n",
        "a;b\n1,024;12.5\n",
    ],
)
def test_other_tables_stay_as_they_are(text):
    document = scan(text)
    assert with_points(document) == (document, [])


def test_what_is_said_of_a_file_is_said_of_the_one_table_that_it_holds(tmp_path):
    found = read(tmp_path, "Net;cards;step (s)\na;8;7,42\nb;8;14,61\nc;16;6,1\n")
    assert "decimal-comma" in codes(found)
    (table,) = found.measurements
    assert table.warnings == found.warnings
