"""``headroom validate``: predict every row of a table of measured runs, score it, and list what was left out."""

from __future__ import annotations

import contextlib
import csv
import difflib
import io
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import tables
from app.commands.calibration import read_calibrations
from app.commands.files import LARGEST_BYTES, print_json, read_text, table, wrapped
from estimator.scenario.breakdown import WORK_PHASES
from estimator.scenario.problems import refusal
from estimator.scenario.units import GIB, counted
from estimator.validation.measured import PEERS
from estimator.validation.score import (
    Errors,
    Predicted,
    Skipped,
    Validation,
    predict_rows,
    row_name,
    score,
)

if TYPE_CHECKING:
    import pandas as pd

NEEDED = ("hardware", "n_layers", "d_model", "n_heads", "seq_len", "global_batch")
COLUMNS = (
    *NEEDED, "source_id", "source", "n_gpus", "interconnect", "model", "n_kv_heads", "d_ff", "vocab", "micro_batch",
    "tp", "pp", "vp", "dp", "cp", "ep", "sharding", "sequence_parallel", "recompute", "precision", "attention_impl",
    "compile", "measured_step_time_s", "measured_tokens_per_s_per_gpu", "measured_tflops_per_gpu", "measured_mfu",
    "measured_peak_mem_gib", "notes", "framework", "head_dim", "gated_ffn", "tied_embedding", "experts", "top_k",
    "moe_ffn", "shared_experts", "optimizer", "optimizer_kernel", "measured_forward_s", "measured_backward_s",
    "measured_optimizer_s", "measured_communication_s", "ddp_mode", "bucket_mb", "mode", "dropout", "activation",
    "norm", "position", "measured_forward_backward_s", "quality_flags", "flop_convention", "tp_overlap", "ep_overlap",
    "oom", "status",
)  # fmt: skip
"""Columns of a table of measured runs; all but the first six may be empty or missing."""

WORDS = ("source_id", "source", "hardware", "model", "notes", "quality_flags")
"""Of these, columns that are words even where they look like numbers."""

ADDED = (
    "predicted_step_time_s",
    "predicted_low_s",
    "predicted_high_s",
    "predicted_peak_mem_gib",
    "time_error_pct",
    "memory_error_pct",
    "assumptions",
)
NAIVE = "naive: 6·parameters·tokens FLOPs (8 with full recomputation) at half of the peak, and the pipeline's bubble"
NOTHING_PREDICTED = 1
_IMPORT = "Any other table, a log or a profile is read by headroom import {}."
_MEASURED = (
    "A table of measured runs is a file; measured steps of a series are scored by headroom predict --results {}."
)
SHOWN_ASSUMPTIONS = 3
_HEADER = ("", "n", "MAPE", "median", "p90", "max", "bias")


def validate(path: Path, as_json: bool, out: Path | None, calibration: Sequence[Path] | None) -> int:
    """Predict and score the table of a file; 1 where none is predicted. Raises InputProblems for no such table.

    The suffixes of ``path`` and ``out`` say what they are: Parquet, Excel, else CSV.
    """
    as_frame = tables.needs_pandas(out) if out else False
    rows = read_rows(path)
    unread = [_unread(name) for name in rows[0] if name not in COLUMNS and not PEERS.match(name)]
    if unread:
        print(f"not read: columns {', '.join(unread)}", file=sys.stderr)
    found = predict_rows(rows, read_calibrations(calibration))
    validation = score(found)
    if out and as_frame:
        tables.write_frame(out, predicted_table(rows, found))
    elif out:
        write_predicted(out, rows, found)
    if as_json:
        print_json(validation)
    else:
        print(text(validation, assumed(found)))
    if validation.predicted and validation.skipped:
        first = validation.skipped[0]
        said = f"{len(validation.skipped)} of {counted(validation.rows, 'row')} not predicted, the first as"
        print(f"headroom: {path}: {said} {row_name(first.source_id, first.row)}: {first.reason}", file=sys.stderr)
    if not validation.predicted:
        print(f"headroom: {path}: no row could be predicted; every row says why under skipped", file=sys.stderr)
        return NOTHING_PREDICTED
    return 0


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read a table with a header into one dict per row; raise InputProblems that name the file and the line."""
    if path.is_dir():
        raise refusal(str(path), "is a folder", _MEASURED.format(path))
    lines = tables.read_cells(path, LARGEST_BYTES) if tables.needs_pandas(path) else _csv_lines(path)
    if not lines:
        raise refusal(str(path), "is empty", "Give a header line and one line per measured run.")
    header = [name.strip() for name in lines[0][1]]
    missing = [name for name in NEEDED if name not in header]
    if missing:
        separated = len(header) == 1 and re.search(r"[;\t]", header[0])
        if separated and not {*NEEDED} <= {one.strip() for one in header[0].split(separated[0])}:
            separated = None  # it would lack columns then, too
        remedy = (
            f"Separate the columns by commas, not by {separated[0]!r}."
            if separated
            else f"The first line names at least {', '.join(NEEDED)}; docs/validating.md lists the others. "
            f"{_IMPORT.format(path)}"
        )
        raise refusal(str(path), f"has no column {', '.join(missing)}", remedy)
    if len(lines) == 1:
        raise refusal(str(path), "has a header and no rows", "Give one line per measured run.")
    twice = sorted({name for name in header if name and header.count(name) > 1})
    if twice:
        raise refusal(str(path), f"has column {', '.join(twice)} twice", "Give every column one name.")
    for number, cells in lines[1:]:
        if len(cells) > len(header):
            message = f"line {number} has {counted(len(cells), 'cell')}, the header {len(header)}"
            raise refusal(str(path), message, "Quote cells that contain commas.")
    return [dict(zip(header, [*cells, *[""] * (len(header) - len(cells))], strict=True)) for _, cells in lines[1:]]


def _csv_lines(path: Path) -> list[tuple[int, list[str]]]:
    # pandas would not say which line is wrong.
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        return [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except csv.Error as error:
        raise refusal(
            str(path), f"line {reader.line_num} is not CSV: {error}", f"Correct that line. {_IMPORT.format(path)}"
        ) from None


def predicted_table(rows: Sequence[Mapping[str, str]], found: Sequence[Predicted | Skipped]) -> pd.DataFrame:
    """Return every row with its prediction as ``write_predicted`` writes it, but numbers as numbers, unrounded."""
    import pandas as pd

    from estimator.frames import predicted_frame

    given = pd.DataFrame(rows).replace("", None)
    for name in given.columns.difference([*WORDS, *ADDED]):
        with contextlib.suppress(ValueError):  # a column of words stays one
            given[name] = pd.to_numeric(given[name]).convert_dtypes()
    predicted = predicted_frame(found)
    predicted["predicted_peak_mem_gib"] = predicted.pop("predicted_peak_bytes") / GIB
    predicted["assumptions"] = predicted["assumptions"].fillna("skipped: " + predicted["skipped"])
    return given.drop(columns=[*ADDED], errors="ignore").join(predicted[[*ADDED]])


def write_predicted(path: Path, rows: Sequence[Mapping[str, str]], found: Sequence[Predicted | Skipped]) -> None:
    """Write every row as it was, with its prediction; a skipped row says why under ``assumptions``."""
    columns = [*dict.fromkeys([*rows[0], *ADDED])] if rows else [*NEEDED, *ADDED]
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            for row, item in zip(rows, found, strict=True):
                writer.writerow({**row, **_added(item)})
    except OSError as error:
        message = f"cannot be written: {error.strerror or error}"
        raise refusal(str(path), message, "Name a file that you may write.") from None


def assumed(found: Sequence[Predicted | Skipped]) -> list[str]:
    """Say in how many rows something was assumed, and what most often; nothing where the table says everything."""
    each = [item.row.assumptions for item in found if isinstance(item, Predicted) and item.row.assumptions]
    if not each:
        return []
    often = Counter(words for assumptions in each for words in assumptions).most_common()
    shown = "; ".join(f"{words} ({counted(count, 'row')})" for words, count in often[:SHOWN_ASSUMPTIONS])
    others = ", ".join(dict.fromkeys(words.partition(" = ")[0] for words, _ in often[SHOWN_ASSUMPTIONS:]))
    also = f". Also: {others}" if others else ""
    rows = counted(len(each), "row")
    said = f"In {rows} something was assumed, most often {shown}{also}. With --out, each row says what."
    return wrapped(said, hanging=2)


def text(found: Validation, assumptions: Sequence[str] = ()) -> str:
    """Write a validation for a terminal; ``assumptions``: lines about what the table left open."""
    rows = [
        _row("time", found.time),
        _row("memory", found.memory),
        *(_row(part, errors) for part in WORK_PHASES if (errors := getattr(found, part)).n),
        *(_row(f"{name} (baseline, time)", errors) for name, errors in found.baseline.items()),
    ]
    lines = [f"{found.predicted} of {counted(found.rows, 'row')} predicted; errors in percent"]
    if found.predicted:
        lines += ["", table(_HEADER, rows), *wrapped(NAIVE, hanging=2)]
        if found.interval.covered_frac is not None:
            lines.append(f"the interval holds {found.interval.covered_frac:.0%} of {counted(found.interval.n, 'time')}")
    if assumptions:
        lines += ["", *assumptions]
    for group, members in found.by.items():
        if members:
            rows = [_row(_short(name or "(not named)"), errors) for name, errors in members.items()]
            lines += ["", table((f"time by {group}", *_HEADER[1:]), rows)]
    if found.not_fitting:
        rows_here = ", ".join(found.not_fitting)
        said = "scored although, by the prediction, they need more memory than their chips have"
        lines += ["", *wrapped(f"{len(found.not_fitting)} {said}: {rows_here}", hanging=2)]
    if found.skipped:
        lines += [
            "",
            "skipped:",
            *(f"  {row_name(item.source_id, item.row)}: {item.reason}" for item in found.skipped),
        ]
    return "\n".join(lines)


def _added(item: Predicted | Skipped) -> dict[str, Any]:
    if isinstance(item, Skipped):
        return {"assumptions": f"skipped: {item.reason}"}
    values = (
        item.step_s,
        item.low_s,
        item.high_s,
        item.peak_bytes / GIB,
        item.time_error_pct,
        item.memory_error_pct,
    )
    cells = ("" if value is None else f"{value:.6g}" for value in values)
    return dict(zip(ADDED, (*cells, "; ".join(item.row.assumptions)), strict=True))


def _row(name: str, errors: Errors) -> list[str]:
    sizes = (errors.mape, errors.median_ape, errors.p90_ape, errors.max_ape)
    cells = ["-" if value is None else f"{value:.1f}" for value in sizes]
    return [name, str(errors.n), *cells, "-" if errors.bias is None else f"{errors.bias:+.1f}"]


def _unread(name: str) -> str:
    near = difflib.get_close_matches(name, COLUMNS, n=1, cutoff=0.8)
    return f"{name} (did you mean {near[0]}?)" if near else name or "(without a name)"


def _short(name: str) -> str:
    return name if len(name) <= 48 else f"{name[:47]}…"
