"""Importers: files that people have, as measurements. One module or package for each format, found by content."""

from __future__ import annotations

import importlib
from pathlib import Path

from app.importers.imported import DEFAULT_LIMITS, Headers, Imported, ImportRefused, Limits
from app.importers.sniff import sniff
from app.importers.source import Source

FORMATS: dict[str, str] = {
    "result": "app.importers.result_json",
    "ops": "app.importers.ops_json",
    "kineto": "app.importers.kineto",
    "text": "app.importers.text",
    "archive": "app.importers.archive",
    "snapshot": "app.importers.snapshot",
    "nccl-tests": "app.importers.nccl_tests",
    "nsys": "app.importers.nsys",
    "ncu": "app.importers.ncu",
    "torch-benchmark": "app.importers.torch_benchmark",
    "flop-counter": "app.importers.flop_counter",
    "chakra": "app.importers.chakra",
    "xla": "app.importers.xla",
    "xplane": "app.importers.xplane",
    "workbook": "app.importers.workbook",
    "golden-values": "app.importers.golden_values",
    "nvprof": "app.importers.nvprof",
    "proton": "app.importers.proton",
    "tensorboard": "app.importers.tensorboard",
    "rocprof-json": "app.importers.rocprof_json",
    "rocprof-counters": "app.importers.rocprof_counters",
    "trainer-state": "app.importers.trainer_state",
    "records": "app.importers.records_json",
}
"""Format → module with ``read(source, filename, limits) -> Imported``; imported only when used."""


def import_file(path: Path, filename: str, limits: Limits = DEFAULT_LIMITS, headers: Headers | None = None) -> Imported:
    """Read one file into measurements and warnings; raise ImportRefused where that cannot be done.

    ``filename`` is only a label, ``headers`` what columns of a text's tables are. Nothing in the file is ever run, and
    memory stays within ``limits`` for whatever it holds; for files from others call
    ``app.importers.sandbox.import_sandboxed``, which does the same in a process of its own.
    """
    source = Source(path, limits, headers=headers)
    format = sniff(source, filename)
    try:
        imported: Imported = importlib.import_module(FORMATS[format]).read(source, filename, limits)
    except RecursionError:
        raise ImportRefused(
            format, "", "its values are nested too deeply", "Upload the file as its tool wrote it."
        ) from None
    except MemoryError:
        raise ImportRefused(
            format, "", "it needs more memory than an import may take", "Profile fewer steps; 2 or 3 are enough."
        ) from None
    return imported


__all__ = ["FORMATS", "ImportRefused", "Imported", "Limits", "import_file"]
