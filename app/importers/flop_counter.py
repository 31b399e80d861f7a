"""The table of ``torch.utils.flop_counter.FlopCounterMode``: FLOPs by module and op, two for a multiply-add."""

from __future__ import annotations

import re
from typing import Any

from app.importers.amounts import amount
from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.source import Source
from estimator.scenario.measurement import Measurement, Origin, Warning

_HEADER = re.compile(r"^Module\s+FLOP\s+% Total\s*$", re.MULTILINE)
_ROW = re.compile(r"^\s*(-\s)?\s*(\S.{0,300}?)\s+([\d.]{1,20})([KMBT]?)\s+([\d.]{1,10})%\s*$")
_SCALES = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


def is_text(text: str) -> bool:
    """Whether a text holds such a table."""
    return bool(_HEADER.search(text))


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Read every row; raise ImportRefused where there is none."""
    text = source.read("flop counter").decode("utf-8", "replace")
    found = _HEADER.search(text)
    rows: list[dict[str, Any]] = []
    module = ""
    for line in text[found.end() :].splitlines() if found else ():
        if not (row := _ROW.match(line)):
            continue
        flops = float(f"{(amount(row[3]) or 0.0) * _SCALES[row[4]]:.6g}")
        share = round((amount(row[5]) or 0.0) / 100, 6)
        if row[1]:
            rows.append({"module": module, "op": row[2], "flops": flops, "share_frac": share})
        else:
            module = row[2]
            rows.append({"module": module, "flops": flops, "share_frac": share})
    if not rows:
        raise ImportRefused("flop counter", "", "it holds no row", "Print the whole table, with pip install tabulate.")
    message = "The counter knows matrix products, convolutions and attention alone; digits are those that it prints"
    warnings = (Warning(code="flops-of-products", message=message),)
    measurement = Measurement(
        label=filename[:200],
        origin=Origin(kind="upload", format="text/flop-counts", producer="torch.utils.flop_counter"),
        rows=tuple(rows[: limits.rows]),
        warnings=warnings,
    )
    return Imported(measurements=(measurement,), warnings=warnings, skipped=max(0, len(rows) - limits.rows))
