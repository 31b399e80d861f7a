"""What an import gives, what it refuses, and the limits it keeps to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from estimator.scenario.measurement import Measurement, Warning
from estimator.scenario.units import GIB, MIB

Headers = dict[int, dict[int, str]]
"""What people say that columns are: the header of a column of the table at a line, in place of what stands there."""


@dataclass(frozen=True, kw_only=True)
class SeenTable:
    """A table of a text as it stands there: its headers, its first rows, the unit of each column and what it is."""

    line: int
    kind: str
    columns: tuple[str, ...]
    units: tuple[str, ...]
    """As printed in header or cells, "" where there is none."""
    cells: tuple[tuple[str, ...], ...]
    rows: int


@dataclass(frozen=True, kw_only=True)
class Imported:
    """The measurements of one file, all that a reader must know about them, and how many pieces were left out."""

    measurements: tuple[Measurement, ...]
    warnings: tuple[Warning, ...] = ()
    skipped: int = 0
    op_lists: tuple[dict[str, Any] | None, ...] = ()
    """As JSON, for each measurement, from the first, that of its step where it has one."""
    tables: tuple[SeenTable, ...] = ()
    """Those of a text whose headers can be said anew."""


class ImportRefused(Exception):  # noqa: N818 - it is an answer, not an accident
    """Raised when a file cannot be used; says what it was taken for, where it breaks, why, and the way out."""

    def __init__(self, format: str, place: str, message: str, remedy: str) -> None:
        super().__init__(format, place, message, remedy)
        self.format, self.place, self.message, self.remedy = format, place, message, remedy

    def __str__(self) -> str:
        where = f"{self.format}, {self.place}" if self.place else self.format
        return f"{where}: {self.message}. {self.remedy}"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much one import may take; sizes in bytes, times in seconds."""

    file_bytes: int = 2 * GIB
    content_bytes: int = 8 * GIB
    """After decompression."""
    ratio: float = 200.0
    """Decompressed over compressed; real traces reach about 20."""
    document_bytes: int = 64 * MIB
    """For formats that are read whole: text and result files."""
    memory_bytes: int = 3 * GIB
    """Address space of the child process."""
    cpu_s: int = 240
    wall_s: float = 300.0
    output_bytes: int = 64 * MIB
    rows: int = 100_000
    kernels: int = 400
    """Kernels named one by one; the rest are summed by category."""


DEFAULT_LIMITS = Limits()
