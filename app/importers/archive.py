"""Archives: a zip or tar of files, each read as if it had come alone; ranks of one job become one measurement.

Nothing is unpacked to disk, so no name in an archive can lead anywhere; how many files, how large and how well
compressed they are is checked before any is read.
"""

from __future__ import annotations

import importlib
import lzma
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import IO, cast

from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.kineto import RankTrace, read_rank
from app.importers.kineto.job import joined
from app.importers.sniff import sniff
from app.importers.source import Source
from estimator.scenario.measurement import Warning
from estimator.scenario.units import MIB, counted

_MOST_FILES = 1024
_RATIO_FROM_BYTES = 32 * MIB
_BROKEN = (
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    tarfile.TarError,
    EOFError,
    OSError,
    RuntimeError,
    NotImplementedError,
    ValueError,
)
"""What the readers of Python raise for damaged, encrypted or oddly compressed archives."""
_LISTED = 3


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Read every file of an archive; raise ImportRefused where none can be."""
    found: list[Imported] = []
    paths: list[str] = []
    traces: list[RankTrace] = []
    ranks: list[str] = []
    refused: list[tuple[str, ImportRefused]] = []
    try:
        for name, member in _members(source, limits):
            try:
                format = sniff(member, name)
                if format == "kineto":
                    traces.append(read_rank(member, name, limits))
                    ranks.append(name)
                elif format == "archive":
                    raise ImportRefused("archive", name, "an archive inside another is not read", "Unpack it first.")
                else:
                    found.append(importlib.import_module(_module(format)).read(member, name, limits))
                    paths.append(name)
            except ImportRefused as error:
                refused.append((name, error))
    except _BROKEN as error:
        message = f"the archive cannot be read ({type(error).__name__})"
        raise ImportRefused("archive", "", message, "Pack it again, without a password.") from None
    of_traces = list(_of_traces(traces, filename))
    found = _told_apart([*of_traces, *found], [*(ranks if len(of_traces) == len(ranks) else [""]), *paths])
    if not found and refused:
        name, first = refused[0]
        raise ImportRefused("archive", name[:80], f"none of its files can be read; {first.message}", first.remedy)
    if not found:
        raise ImportRefused("archive", "", "there is no file in it", "Pack the files that hold the results.")
    left_out = [_left_out(refused)] if refused else []
    return Imported(
        measurements=tuple(measurement for one in found for measurement in one.measurements),
        warnings=(*left_out, *(warning for one in found for warning in one.warnings)),
        skipped=sum(one.skipped for one in found) + len(refused),
        op_lists=_op_lists(found),
    )


def _module(format: str) -> str:
    return importlib.import_module("app.importers").FORMATS[format]  # type: ignore[no-any-return]


def _of_traces(traces: list[RankTrace], filename: str) -> Iterator[Imported]:
    """One measurement of all ranks where each is there once, else one for each trace."""
    ranks = Counter(trace.imported.measurements[0].rank for trace in traces)
    if len(traces) > 1 and max(ranks.values()) == 1:
        yield joined(traces, filename)
    else:
        yield from (trace.imported for trace in traces)


def _told_apart(found: list[Imported], paths: list[str]) -> list[Imported]:
    """Measurements of one label are called by the folders in which their files differ, else by how many came before.

    As in two/trace, and trace (2).
    """
    folders = [path.replace("\\", "/").split("/")[:-1] for path in paths]
    labels = [{measurement.label for measurement in one.measurements} for one in found]
    told, given = [], Counter[str]()
    for at, one in enumerate(found):
        again = [folders[other] for other in range(len(found)) if other != at and labels[other] & labels[at]]
        own = [name for name in folders[at] if any(name not in where for where in again)]
        measurements = []
        for measurement in one.measurements:
            shared = bool(measurement.label) and sum(measurement.label in some for some in labels) > 1
            label = "/".join([*own, measurement.label]) if shared else measurement.label
            given[label] += shared
            measurements.append(replace(measurement, label=f"{label} ({given[label]})" if given[label] > 1 else label))
        told.append(replace(one, measurements=tuple(measurements)))
    return told


def _op_lists(found: list[Imported]) -> tuple[dict[str, object] | None, ...]:
    return tuple(
        one.op_lists[i] if i < len(one.op_lists) else None for one in found for i in range(len(one.measurements))
    )


def _left_out(refused: list[tuple[str, ImportRefused]]) -> Warning:
    shown = "; ".join(f"{name[:60]}: {error.message[:120]}" for name, error in refused[:_LISTED])
    more = f"; and {len(refused) - _LISTED} more" if len(refused) > _LISTED else ""
    return Warning(code="files-left-out", message=f"Not read: {counted(len(refused), 'file')} ({shown}{more})")


def _members(source: Source, limits: Limits) -> Iterator[tuple[str, Source]]:
    if source.head.startswith(b"PK"):
        with zipfile.ZipFile(source.path) as archive:
            files = [info for info in archive.infolist() if not info.is_dir()]
            _check([info.file_size for info in files], source, limits)
            for info in files:
                yield from _member(source, limits, info.filename, info.file_size, partial(archive.open, info))
        return
    with tarfile.open(source.path, "r:*") as pack:
        inside: list[tarfile.TarInfo] = []
        for one in pack:
            inside += [one] if one.isfile() else []
            _check([other.size for other in inside], source, limits)
        for one in inside:
            opened = partial(pack.extractfile, one)
            yield from _member(source, limits, one.name, one.size, opened)


def _member(source: Source, limits: Limits, name: str, size: int, opened: object) -> Iterator[tuple[str, Source]]:
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    if size and not last.startswith("."):
        open_ = cast("partial[AbstractContextManager[IO[bytes]]]", opened)
        # which rank a trace is of may stand in its folder's name alone
        yield name[-200:], Source(source.path, replace(limits), open_, size)  # type: ignore[arg-type]


def _check(sizes: list[int], source: Source, limits: Limits) -> None:
    total = sum(sizes)
    if len(sizes) > _MOST_FILES:
        message = f"it holds more than {_MOST_FILES:,} files"
        raise ImportRefused("archive", "", message, "Pack only the files that hold the results.")
    if total > limits.content_bytes or (total > _RATIO_FROM_BYTES and total > limits.ratio * source.file_bytes):
        message = f"it unpacks to {total:,} bytes, more than an import may take"
        raise ImportRefused("archive", "", message, "Pack fewer ranks, or fewer steps of each.")
