"""Tables as files: Parquet and Excel, which pandas reads and writes; what CSV is stays with who reads or writes it."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from estimator.scenario.problems import InputProblems, Problem, refusal

if TYPE_CHECKING:
    import pandas as pd

LIBRARY = {".parquet": "pyarrow", ".xlsx": "openpyxl"}
"""Suffixes of files that pandas reads and writes, and with which library; any other file is CSV."""
EXCEL_CELL_CHARACTERS = 32_767
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def needs_pandas(path: Path) -> bool:
    """Whether a file is Parquet or Excel by its suffix; raise InputProblems where the library for it is missing."""
    library = LIBRARY.get(path.suffix.lower())
    if library is None:
        return False
    if find_spec(library) is None:
        message = f"{path.suffix} needs {library}, which is not installed"
        remedy = f"Install it by make run EXTRAS=tables or pip install {library}, or use CSV."
        raise InputProblems([Problem(field=str(path), message=message, remedy=remedy)])
    return True


def read_cells(path: Path, largest_bytes: int) -> list[tuple[int, list[str]]]:
    """Return the lines of a Parquet file or of the first sheet of an Excel file, each with its number, as text.

    The first one is the header; cells that hold nothing are "". Raises InputProblems that name the file.
    """
    import pandas as pd

    try:
        if path.stat().st_size > largest_bytes:
            raise refusal(str(path), f"is longer than {largest_bytes} bytes", "Split it.")
        if path.suffix.lower() == ".xlsx":
            frame, lines = pd.read_excel(path, header=None, dtype=str, na_filter=False), []
        else:
            frame = pd.read_parquet(path)
            lines = [[str(name) for name in frame.columns]]
        filled = frame.astype(object).where(frame.notna(), "")
        lines += [[str(cell) for cell in row] for row in filled.itertuples(index=False)]
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        raise refusal(str(path), message, "Give the path of a file that exists.") from None
    except InputProblems:
        raise
    except Exception as error:  # whatever a damaged file makes of the libraries
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise refusal(str(path), f"cannot be read as {path.suffix}: {first}", "Write it again, or use CSV.") from None
    return [(number, cells) for number, cells in enumerate(lines, 1) if any(cell.strip() for cell in cells)]


def write_frame(path: Path, frame: pd.DataFrame) -> None:
    """Write a table as Parquet or Excel, text as text (no formula); raise InputProblems that name the file."""
    import pandas as pd

    try:
        if path.suffix.lower() == ".parquet":
            frame.to_parquet(path, index=False)
            return
        text = frame.select_dtypes(["object", "str"]).columns
        frame = frame.assign(**{name: frame[name].map(_excel_text) for name in text})
        with pd.ExcelWriter(path, engine="openpyxl") as writer:
            frame.to_excel(writer, index=False, freeze_panes=(1, 0))
            for row in writer.book.active.iter_rows():
                for cell in row:
                    if cell.data_type == "f":
                        cell.data_type = "s"
    except OSError as error:
        message = f"cannot be written: {error.strerror or error}"
        raise refusal(str(path), message, "Name a file that you may write.") from None


def _excel_text(value: object) -> object:
    return _CONTROL.sub("", value)[:EXCEL_CELL_CHARACTERS] if isinstance(value, str) else value
