"""Together: traces of several ranks that come as files of their own, or in a folder, packed as one archive.

What an archive of ranks becomes (``app.importers.archive``) they then become as well: one measurement of the whole job.
"""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from pathlib import Path

from app.importers.imported import DEFAULT_LIMITS, ImportRefused
from app.importers.sniff import sniff
from app.importers.source import Source


def is_trace(path: Path) -> bool:
    """Whether a file is a trace of PyTorch's profiler, of which a job has one for each rank."""
    try:
        return sniff(Source(path, DEFAULT_LIMITS), path.name) == "kineto"
    except (ImportRefused, OSError):
        return False


def files_in(folder: Path) -> list[Path]:
    """All files in a folder and those below it, hidden ones left out."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def pack(paths: Sequence[Path], archive: Path) -> None:
    """Write files into a tar, with the folder that each is in: a rank's number may stand in its name alone."""
    with tarfile.open(archive, "w") as pack:
        for path in paths:
            pack.add(path.resolve(), arcname="/".join(path.resolve().parts[-2:]), recursive=False)
