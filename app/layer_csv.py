"""Layer CSV: the table of one layer as text, one line per op, full precision; and the same as a table of pandas."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from estimator.estimate.layer_table import COLUMNS, LayerRow

if TYPE_CHECKING:
    import pandas as pd


def layer_csv(rows: Sequence[LayerRow]) -> str:
    """Write a header and one line per row; what is not known is empty."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    writer.writerows([getattr(row, name) for name in COLUMNS] for row in rows)
    return out.getvalue()


def layer_frame(rows: Sequence[LayerRow]) -> pd.DataFrame:
    """Return one row per op; what is not known is empty."""
    import pandas as pd

    frame = pd.DataFrame([[getattr(row, name) for name in COLUMNS] for row in rows], columns=COLUMNS)
    return frame.astype({name: "Int64" for name in COLUMNS if name.endswith("_ranks")})
