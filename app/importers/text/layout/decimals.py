"""Decimals: tables whose numbers have decimal commas, as spreadsheets of much of Europe write them, with points."""

from __future__ import annotations

import dataclasses
import re

from app.importers.text.layout.document import Block, Document, Table, place
from estimator.scenario.measurement import Warning

_COMMA = re.compile(r"[-+]?(?:\d{1,3}(?:\.\d{3}){0,5}|\d{1,15}),\d{1,15}(?![\d.,])")
_BOTH = re.compile(r"[-+]?\d{1,3}(?:\.\d{3}){1,5},\d{1,15}(?![\d.,])")
_SURE = re.compile(
    rf"{_BOTH.pattern}|[-+]?(?:\d{{1,15}},\d{{1,2}}|\d{{1,3}},\d{{4,15}}|0,\d{{1,15}}|\d{{4,15}},\d{{3}})(?![\d.,])"
)
"""What is no thousand and a comma: 1.312,5 and 61,2 and 0,125; nor two sizes, as 4096,11008 are."""
_POINT = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3}){0,5}|\d{1,15})\.\d{1,15}(?![\d.,])")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:\.\d{3}){1,5}(?![\d.,])")
_LOOKED_AT = 200


def with_points(document: Document) -> tuple[Document, list[Warning]]:
    """Return the document with decimal points in all its tables, and a word on each that had commas."""
    blocks: list[Block] = []
    warnings: list[Warning] = []
    for block in document.blocks:
        if isinstance(block, Table) and (example := _written_with_commas(block)):
            rows = tuple(tuple(_with_point(cell) for cell in row) for row in block.rows)
            blocks.append(dataclasses.replace(block, rows=rows))
            message = f"Numbers have decimal commas here, as {example} has; a point in them parts thousands"
            warnings.append(Warning(code="decimal-comma", message=message, where=place(block)))
        else:
            blocks.append(block)
    return dataclasses.replace(document, blocks=tuple(blocks)), warnings


def _written_with_commas(table: Table) -> str:
    """A number that shows it, where none shows a decimal point; "" where nothing shows it.

    A semicolon between cells is what spreadsheets write where the comma is taken. 1.250 has its point for thousands
    there, and beside numbers of both signs; elsewhere it is a decimal one.
    """
    cells = [cell.strip() for row in table.rows[:_LOOKED_AT] for cell in row]
    taken = table.separator == ";" or any(_BOTH.match(cell) for cell in cells)
    pointed = [cell for cell in cells if _POINT.match(cell) and not _COMMA.match(cell)]
    if any(not (taken and _THOUSANDS.match(cell)) for cell in pointed):
        return ""
    sure = _COMMA if table.separator == ";" else _SURE
    return next((found[0] for cell in cells if (found := sure.match(cell))), "")


def _with_point(cell: str) -> str:
    text = cell.strip()
    if found := _COMMA.match(text):
        return found[0].replace(".", "").replace(",", ".") + text[found.end() :]
    found = _THOUSANDS.match(text)
    return found[0].replace(".", "") + text[found.end() :] if found else cell
