"""Layer CSV: the table of one layer as text, one line per op, full precision."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from estimator.estimate.layer_table import COLUMNS, LayerRow


def layer_csv(rows: Sequence[LayerRow]) -> str:
    """Write a header and one line per row; what is not known is empty."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    writer.writerows([getattr(row, name) for name in COLUMNS] for row in rows)
    return out.getvalue()
