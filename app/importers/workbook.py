"""Workbooks (``.xlsx``): the sheets of TraceLens as kernels with their FLOPs and bytes, any other as text tables."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from app.importers import text
from app.importers.amounts import amount
from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.names import short_name
from app.importers.source import Source
from app.importers.text.values.figures import scaled
from estimator.scenario.breakdown import Category
from estimator.scenario.measurement import Kernel, Measurement, Origin, Warning
from estimator.scenario.units import MIB
from runners.trace.kernel_category import category_of, on_device

_REMEDY = "Save the sheet as CSV, or paste its cells as text."
_MOST_COLUMNS = 500
_TIMELINE, _UNIFIED, _SUMMARY = "gpu_timeline", "unified_perf_summary", "kernel_summary"
_CATEGORIES = {"GEMM": Category.MATMUL, "CONV": Category.MATMUL, "SDPA": Category.ATTENTION,
               Category.ELEMENTWISE: Category.ELEMENTWISE, "NORM": Category.ELEMENTWISE, "reduce": Category.ELEMENTWISE,
               "triton": Category.ELEMENTWISE}  # fmt: skip
"""How TraceLens's own categories begin."""

Sheet = list[list[str]]


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Read the sheets; raise ImportRefused where they cannot be read, or hold nothing."""
    sheets = _sheets(source, limits)
    if _TIMELINE in sheets:
        return _trace_lens(sheets, filename, limits)
    try:
        return text.read_text(_written(sheets), filename, limits, headers=source.headers)
    except ImportRefused as error:
        raise ImportRefused("workbook", error.place, error.message, _REMEDY) from None


def _sheets(source: Source, limits: Limits) -> dict[str, Sheet]:
    """Cells as text by sheet; formulas as what they last gave."""
    if find_spec("openpyxl") is None:
        remedy = f"Install openpyxl (pip install openpyxl). {_REMEDY}"
        raise ImportRefused("workbook", "", "workbooks need openpyxl, which is not installed", remedy)
    import openpyxl

    data = io.BytesIO(source.read("workbook"))
    try:
        with zipfile.ZipFile(data) as archive:
            if sum(info.file_size for info in archive.infolist()) > limits.document_bytes:
                raise ImportRefused("workbook", "", "it unpacks to more than an import may take", _REMEDY)
        book = openpyxl.load_workbook(data, read_only=True, data_only=True, keep_links=False)
        return {sheet.title: list(_rows(sheet, limits)) for sheet in book.worksheets}
    except ImportRefused:
        raise
    except Exception as error:  # it raises whatever its many parts do
        message = f"the workbook cannot be read ({type(error).__name__})"
        raise ImportRefused("workbook", "", message, _REMEDY) from None


def _rows(sheet: Any, limits: Limits) -> Iterator[list[str]]:
    for row in sheet.iter_rows(max_row=limits.rows + 1, max_col=_MOST_COLUMNS, values_only=True):
        cells = ["" if value is None else str(value) for value in row]
        while cells and not cells[-1]:
            cells.pop()
        yield cells


def _written(sheets: Mapping[str, Sheet]) -> str:
    """The sheets one after another as CSV under their names; a row of several cells is as wide as that above it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for name, rows in sheets.items():
        out.write(f"\n## {name}\n\n")
        width = 0
        for row in rows:
            if sum(map(bool, row)) > 1:  # else a note
                width = max(width, len(row))
                row = [*row, *[""] * (width - len(row))]
            if row:
                writer.writerow([" ".join(cell.split()) for cell in row])
            else:
                out.write("\n")
                width = 0
    return out.getvalue()


def _trace_lens(sheets: Mapping[str, Sheet], filename: str, limits: Limits) -> Imported:
    """Kernel times of ops with what TraceLens counted for each, else of kernels alone; sums of the whole recording."""
    rows = [
        {"part": one["type"], "total_s": scaled(taken, 1e-3), "share_frac": (amount(one.get("percent")) or 0.0) / 100}
        for one in _records(sheets[_TIMELINE])
        if one.get("type") and (taken := amount(one.get("time ms"))) is not None
    ]
    read_one: tuple[tuple[str, Callable[[Mapping[str, str]], Kernel | None]], ...] = (
        (_UNIFIED, _of_op), (_SUMMARY, _of_kernel),
    )  # fmt: skip
    kernels: list[Kernel] = []
    for name, reader in read_one:
        found = [kernel for one in _records(sheets.get(name, [])) if (kernel := reader(one)) is not None]
        kernels = kernels or sorted(found, key=lambda kernel: -kernel.total_s)
    if not rows and not kernels:
        raise ImportRefused("workbook", _TIMELINE, "its sheets hold no times", "Write the report again.")
    message = "These are sums over the whole recording; how many steps it held, the report does not say"
    warnings = (Warning(code="whole-recording", message=message),)
    measurement = Measurement(
        label=filename[:200],
        origin=Origin(kind="upload", format="tracelens", producer="TraceLens"),
        rows=tuple(rows[: limits.rows]),
        kernels=tuple(kernels[: limits.kernels]),
        warnings=warnings,
    )
    return Imported(measurements=(measurement,), warnings=warnings)


def _of_op(row: Mapping[str, str]) -> Kernel | None:
    count, total = amount(row.get("operation_count")), amount(row.get("Kernel Time (µs)_sum"))
    if not count or not total or not row.get("name"):
        return None
    gigaflops, moved = amount(row.get("GFLOPS")), amount(row.get("Data Moved (MB)"))
    said = row.get("op category", "")
    known = next((category for prefix, category in _CATEGORIES.items() if said.startswith(prefix)), None)
    return Kernel(
        name=short_name(f"{row['name']} {row.get('Input Dims', '')}".strip()),
        category=known or on_device(category_of(row["name"].rpartition("->")[2])),
        count=int(count),
        total_s=scaled(total, 1e-6),
        flops=gigaflops * 1e9 * count if gigaflops else None,
        bytes=moved * MIB * count if moved else None,
    )


def _of_kernel(row: Mapping[str, str]) -> Kernel | None:
    count = amount(row.get("Kernel duration (µs)_count"))
    total = amount(row.get("Kernel duration (µs)_sum"))
    name = row.get("Kernel name", "")
    if not count or not total or not name:
        return None
    category = on_device(category_of(name))
    return Kernel(name=short_name(name), category=category, count=int(count), total_s=scaled(total, 1e-6))


def _records(sheet: Sequence[Sequence[str]]) -> Iterator[dict[str, str]]:
    if sheet:
        for row in sheet[1:]:
            yield dict(zip(sheet[0], row, strict=False))
