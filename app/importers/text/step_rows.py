"""Step rows: what the columns beside the times say about a step: model, sizes, precision, memory, and all the rest."""

from __future__ import annotations

import re
from typing import Any

from app.importers.text import meaning
from app.importers.text.columns import Column
from app.importers.text.figures import Findings, keep, put, whole
from app.importers.text.models import catalogue_key, common_name
from app.importers.text.precision import from_text

_NAME_WITH_SEQ = re.compile(r"(.{1,60}?)[_\- ]+(?:seq|ctx|len|s|t)[_=\-]?(\d{1,9})$", re.IGNORECASE)
_COUNTS = ((meaning.SEQ_LEN, "seq_len"), (meaning.BATCH, "batch"), (meaning.PARAMETERS, "parameters"))


def describe(row: dict[str, Any], column: Column, text: str, findings: Findings) -> None:
    """Write one cell that is no time: known columns under the scenario's words, others under their own names."""
    plain = text.strip("*` ")
    counted = next((key for names, key in _COUNTS if meaning.name_is(column, names)), "")
    what = meaning.quantity(column)
    if meaning.name_is(column, meaning.MODEL):
        found = _NAME_WITH_SEQ.match(plain)
        row["model"] = common_name(found[1] if found else plain)
        if found:
            row["seq_len"] = int(found[2])
    elif meaning.name_is(column, meaning.PRECISION):
        if plain:
            row["precision"] = from_text(text)
    elif counted and (count := whole(text)) is not None:
        row[counted] = count
    elif meaning.name_is(column, meaning.STATUS):
        findings.oom += "oom" in plain.lower()
    elif what is not None and what.name.startswith(("peak_memory", "memory")):
        put(row, what.name, text, column, findings)
    elif column.name:
        keep(row, column.name, text, column, findings)
    if "parameters" in row and "model" in row and (key := catalogue_key(row["parameters"], row["model"])):
        row["catalogue_model"] = key
