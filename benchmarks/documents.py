"""Documents with tables, imported, beside their figures as CSV: rows, values, what differs, what is warned and drawn.

Run ``python benchmarks/documents.py FOLDER``: its ``*.txt`` are imported, and every figure of its ``data/*.csv``, whose
column ``seed`` names the document (without one, any of them), is looked for in the row that it belongs to; a cell that
was read answers for one figure. Units are told by the ends of the CSV's column names. Ends with 1 where a value differs
for which ``WHY`` holds no reason, or a table is not drawn.
"""

from __future__ import annotations

import csv
import math
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
GIB, MIB = 2.0**30, 2.0**20
SCALES = {
    "_ms": 1e-3, "_us": 1e-6, "_s": 1.0, "_mib": MIB, "_gib_s": GIB, "_gb": 1e9, "_mb_decimal": 1e6, "_tflop": 1e12,
    "_percent": 0.01, "_x": 1.0, "_bytes": 1.0, "_gb_decimal": 1e9, "_ranks": 1e12,
}  # fmt: skip
UNITS = {
    "flop": 1, "bytes": 1, "s": 1, "1": 1, "flop/byte": 1, "1e9": 1e9, "GiB": GIB, "MiB": MIB, "TiB/s": 1024 * GIB,
    "GiB/s before the 0.7 derating": GIB, "1e12 flop/s before the 0.7 derating": 1e12,
}  # fmt: skip
STAGES = {
    "forward": "forward_s", "backward": "backward_s", "fwd_bwd": "forward_backward_s", "train_step": "step_s",
    "fwd_bwd_labelled_forward": "forward_backward_s",
}  # fmt: skip
PRECISIONS = {"FP32": "fp32", "BF16": "bf16-amp", "": None}
IN_ORDER = {
    "ulysses_steps.csv": ("tensors",), "transformer_tables_mlp.csv": ("layer-costs",),
    "transformer_tables_sa.csv": ("layer-costs",), "attention_bench.csv": ("attention",),
    "attention_compile_speedup.csv": ("speedups",), "flash_bench.csv": ("attention-implementations",),
    "allreduce.csv": ("collectives",), "ddp.csv": ("data-parallel-steps", "data-parallel-variants"),
    "nsys_kernels.csv": ("kernel-shares",), "nvtx_attention.csv": ("timings",),
    "mixed_precision_accumulation.csv": ("accumulation",),
}  # fmt: skip
"""Tables whose rows stand in the document's order, by the kinds that they are read as."""
WHOLE = ("seq_len", "d_head", "world_size", "size_bytes", "elements", "result", "expected", "parameters", "iterations",
         "calls")  # fmt: skip
"""Columns of plain numbers that rows hold as they are."""
OF_THE_TEXT = ("world_size",)
"""Columns that a document says in a sentence, which not all of its rows hold."""
COMPUTED = ("derived_cs336_throughput.csv",)
"""What others computed of the figures; no document prints it."""
WHY = {
    ("allreduce.csv", "mean_ms"): "its block lost the printed mean: this is the mean of the means of its ranks",
}


def close(one: Any, other: float) -> bool:
    """Whether a cell holds a figure to the printed digit."""
    return isinstance(one, (int, float)) and not isinstance(one, bool) and math.isclose(one, other, rel_tol=1e-9)


def scale_of(column: str) -> float | None:
    """SI value of one of a column's unit; None of a column that holds no figure of the document."""
    if column in WHOLE:
        return 1.0
    return next(
        (scale for end, scale in sorted(SCALES.items(), key=lambda one: -len(one[0])) if column.endswith(end)), None
    )


class Table:
    """One CSV held against what was read of its document."""

    def __init__(self, name: str) -> None:
        """Nothing compared yet."""
        self.name, self.compared, self.printed_rows, self.read_rows = name, 0, 0, 0
        self.differ: list[str] = []
        self.unexplained = 0

    def look(self, cells: dict[str, Any], column: str, text: str, value: float, where: str) -> None:
        """Find a figure among cells not yet used."""
        self.compared += 1
        key = next((key for key, cell in cells.items() if close(cell, value)), None)
        if key is not None:
            del cells[key]
            return
        why = WHY.get((self.name, column), "")
        near = min(
            (cell for cell in cells.values() if isinstance(cell, float)),
            key=lambda cell: abs(cell - value),
            default=None,
        )
        self.unexplained += not why
        self.differ.append(f"{where}: {column} {text} is printed, {near} was read{f'; {why}' if why else ''}")


def rows_in_order(table: Table, lines: list[dict[str, str]], rows: list[dict[str, Any]]) -> None:
    """Hold the i-th row read against the i-th printed."""
    for at, (line, row) in enumerate(zip(lines, rows, strict=False), 1):
        cells = dict(row)
        for column, text in line.items():
            scale = scale_of(column)
            if column == "size_printed":
                scale = {"MB": 1e6, "GB": 1e9}.get(line["size_unit_decimal"])
            if column in OF_THE_TEXT and column not in row:
                continue
            if scale is not None and text:
                try:
                    value = float(text)
                except ValueError:
                    continue
                table.look(cells, column, text, value * scale, f"row {at}")


def step_times(table: Table, lines: list[dict[str, str]], read: list[Any]) -> None:
    """Hold each stage's mean and deviation against those of the rows of its model, length, precision and section."""
    found = [(one.label, {**row}) for one in read for row in one.rows if row.get("status") == "ok"]
    for _, row in found:
        if row.get("forward_backward_s") is not None and row.get("backward_s") is not None:
            row.pop("forward_s")  # what is left of both, which the document does not print
    table.read_rows = sum(row.get(key) is not None for _, row in found for key in set(STAGES.values()))
    for at, line in enumerate(lines, 1):
        key = STAGES[line["stage"]]
        fitting = [
            row
            for label, row in found
            if label.startswith(line["section"])
            and row["model"] == line["model"]
            and row.get("seq_len") == (int(line["seq_len"]) if line["seq_len"] else None)
            and row.get("precision") == PRECISIONS[line["precision"]]
            and row.get("compile", False) == (line["compiled"] == "1")
            and row.get(key) is not None
        ]
        names = [name for name in (key, f"{key[:-2]}_std_s") if any(name in row for row in fitting)]
        best = next((row for row in fitting if close(row[key], float(line["mean_s"]))), fitting[0] if fitting else {})
        cells = {name: best[name] for name in names if name in best}
        for column in ("mean_s", "std_s"):
            if line[column]:
                table.look(cells, column, line[column], float(line[column]), f"row {at}")
        for name in names:
            best.pop(name, None)


def compare(name: str, lines: list[dict[str, str]], read: list[Any]) -> Table:
    """Hold the figures of one CSV that are of one document against its measurements."""
    table = Table(name)
    table.printed_rows = len(lines)
    of_kind = defaultdict(list)
    for one in read:
        of_kind[one.origin.format.removeprefix("text/")].append(one)
    if name in IN_ORDER:
        found = [one for kind in IN_ORDER[name] for one in of_kind[kind]]
        rows = [row for one in found for row in one.rows]
        if "layer" in lines[0]:
            rows = [row for row in rows if row["layer"] in {line["layer"] for line in lines}]
        table.read_rows = len(rows)
        rows_in_order(table, lines, rows)
    elif name == "deepflow_figures.csv":
        cells = {
            (i, key): (row["op"], value) for one in read for i, row in enumerate(one.rows) for key, value in row.items()
        }
        table.read_rows = sum(isinstance(value, (int, float)) for _, value in cells.values())
        for at, line in enumerate(lines, 1):
            op = {"all": "Parameters"}.get(line["op"], line["op"].rpartition("/")[2])
            mine: dict[Any, Any] = {key: value for key, (of, value) in cells.items() if of == op}
            kept = set(mine)
            table.look(
                mine, line["quantity"], line["value"], float(line["value"]) * UNITS[line["unit"]], f"row {at}, {op}"
            )
            for key in kept - set(mine):
                del cells[key]
    elif name == "transformer_table_sums.csv":
        sums = [one.samples["sums_of_all_layers"] for one in read if "sums_of_all_layers" in one.samples]
        flat = {(i, key): value for i, one in enumerate(sums) for key, value in one.items()}
        table.read_rows = len(flat)
        for at, line in enumerate(lines, 1):
            scale = scale_of(line["quantity"]) or 1.0
            table.look(flat, line["quantity"], line["value"], float(line["value"]) * scale, f"row {at}")
    elif name == "cs336_models.csv":
        counts = {
            row["model"]: row["parameters"] for one in of_kind["step-times"] for row in one.rows if "parameters" in row
        }
        table.read_rows = len(counts)
        for line in lines:
            printed = line["parameters_printed"]
            table.look(
                {"parameters": counts.get(line["model"])}, "parameters_printed", printed, float(printed), line["model"]
            )
    else:
        step_times(table, lines, of_kind["step-times"])
    return table


def main() -> int:
    """Print a row for each CSV and document, what differs, and what is warned of and drawn of each table."""
    sys.path.insert(0, str(ROOT))
    import msgspec

    from app.importers import import_file
    from estimator.scenario.codec import encode
    from tests.javascript import call_each

    folder = Path(sys.argv[1])
    read = {path.name: list(import_file(path, path.name).measurements) for path in sorted(folder.glob("*.txt"))}
    print(
        "| figures | document | rows printed | rows read | values compared | that differ |\n|---|---|--:|--:|--:|--:|"
    )
    failed, notes = 0, []
    for path in sorted((folder / "data").glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        if path.name in COMPUTED:
            notes.append(f"{path.name}: {len(lines)} rows that were computed of the others; no document prints them")
            continue
        of_document = defaultdict(list)
        for line in lines:
            of_document[line.pop("seed", "")].append(line)
        for document, own in of_document.items():
            found = read[document] if document else [one for each in read.values() for one in each]
            table = compare(path.name, own, found)
            document = document or "any"
            print(
                f"| {path.name} | {document} | {table.printed_rows} | {table.read_rows} | {table.compared} |"
                f" {len(table.differ)} |"
            )
            failed += table.unexplained + (table.printed_rows != table.read_rows)
            notes += [f"{path.name}, {document}, {one}" for one in table.differ]
    print("\nwhat differs, and why:\n  " + "\n  ".join(notes or ["nothing"]))
    print("\n| document | table | rows | charts | warnings |\n|---|---|--:|--:|---|")
    every = [(document, one) for document, found in read.items() for one in found]
    given = [[{"origin": encode(one.origin), "rows": list(one.rows)}, None] for _, one in every]
    drawn = call_each("figures/tableCharts", "chartsOf", msgspec.json.decode(msgspec.json.encode(given)))
    for (document, one), charts in zip(every, drawn, strict=True):
        codes = ", ".join(dict.fromkeys(warning.code for warning in one.warnings))
        print(f"| {document} | {one.origin.format}: {one.label[:60]} | {len(one.rows)} | {len(charts)} | {codes} |")
        failed += not charts
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
