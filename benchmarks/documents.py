"""Documents with tables, imported, beside their figures as CSV: rows, values, what differs, what is warned and drawn.

Run ``python benchmarks/documents.py FOLDER``: its ``*.txt`` are imported, and every figure of its ``data/*.csv``, whose
column ``seed`` names the document (without one, any of them), is held against the cell of its row and of its column
(``KEYS``); a cell that was read answers for one figure. Units are told by the ends of the CSV's column
names. Ends with 1 where a value differs for which ``WHY`` holds no reason, or a table is not drawn.
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
PARTS = {"fwd": "forward", "bwd": "backward", "fwd_bwd": "forward_backward"}
KEYS = {
    "d_head": "d_model", "mem_before_bwd_mib": "memory_before_backward_bytes", "peak_mem_mib": "peak_memory_bytes",
    "mem_before_bwd_mb_decimal": "memory_before_backward_bytes", "peak_mem_diff_mib": "peak_memory_difference_bytes",
    "printed_busbw_gib_s": "bus_bytes_per_s", "total_ms": "step_s", "total_std_ms": "step_std_s",
    "opt_ms": "optimizer_s",
    "comm_ms": "communication_wait_s", "comm_percent": "communication_wait_frac", "time_percent": "time_frac",
    "bwd_plus_comm_mean_ms": "backward_communication_s", "time_us": "mean_s", "size_printed": "size_bytes",
    "flops_tflop_all_16_ranks": "flops", "peak_memory_gb_decimal": "peak_memory_bytes", "bucket_mib": "bucket_bytes",
    "flops_fwd_tflop": "fwd_flops", "flops_bwd_tflop": "bwd_flops", "intensity_t_comp_over_t_mem": "intensity",
    "comm_size_gpus": "comm_size",
    **{f"bwd_plus_comm_{one}_ms": f"backward_communication_{one}_s" for one in ("min", "max")},
    **{f"{one}_ms": f"{one}_s" for one in ("mean", "min", "max", "std")},
    **{f"{short}_ms": f"{name}_s" for short, name in PARTS.items()},
    **{f"{short}_std_ms": f"{name}_std_s" for short, name in PARTS.items()},
    **{f"{short}_speedup_x": f"{name}_speedup" for short, name in PARTS.items()},
    **{f"speedup_{short}_x": f"{name}_speedup" for short, name in PARTS.items()},
    **{f"{who}_{short}_ms": f"{who}_{name}_s" for who in ("torch", "triton") for short, name in PARTS.items()},
    **{f"t_{one}_{way}_ms": f"{one}_{way}_s" for one in ("comp", "mem", "comm", "total") for way in ("fwd", "bwd")},
    **{f"t_{way}_ms": f"{way}_s" for way in ("fwd", "bwd")},
}  # fmt: skip
"""Columns of the figures by the columns that rows are kept in; sizes of layers differ by their ends."""
QUANTITIES = {"flop": "flops", "gmem": "memory_bytes", "l2mem": "l2_bytes", "time": "time_s", "parameters": "count",
              "comp_int": "flops_per_byte", "comp_int.as_is": "flops_per_byte",
              "comp_int.transposed": "transposed_flops_per_byte"}  # fmt: skip
FIRST_LAYERS = {"mlp": "fc1", "sa": "layer_norm_1"}
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
    if column in WHOLE or column in ("intensity_t_comp_over_t_mem", "comm_size_gpus") or column.startswith("frac_"):
        return 1.0
    return next(
        (scale for end, scale in sorted(SCALES.items(), key=lambda one: -len(one[0])) if column.endswith(end)), None
    )


def key_of(column: str, line: dict[str, str]) -> str:
    """The column that a figure is kept in."""
    if line.get("bwd_column_contains", "backward") != "backward" and column.startswith("bwd_"):
        column = f"fwd_{column}"
    return KEYS.get(column) or (f"{column[:-3]}_bytes" if column.endswith("_gb") else column)


class Table:
    """One CSV held against what was read of its document."""

    def __init__(self, name: str) -> None:
        """Nothing compared yet."""
        self.name, self.compared, self.printed_rows, self.read_rows = name, 0, 0, 0
        self.differ: list[str] = []
        self.unexplained = 0

    def look(self, cells: dict[Any, Any], key: Any, column: str, text: str, value: float, where: str) -> None:
        """Hold a figure against the cell of a key, not used yet; without a key against any."""
        self.compared += 1
        if key is None:
            key = next((one for one, cell in cells.items() if close(cell, value)), None)
        read = cells.pop(key, None)
        if close(read, value):
            return
        why = WHY.get((self.name, column), "")
        self.unexplained += not why
        self.differ.append(f"{where}: {column} {text} is printed, {key} is {read}{f'; {why}' if why else ''}")


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
                table.look(cells, key_of(column, line), column, text, value * scale, f"row {at}")


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
        for column, name in (("mean_s", key), ("std_s", f"{key[:-2]}_std_s")):
            if line[column]:
                table.look(cells, name, column, line[column], float(line[column]), f"row {at}")
        for name in names:
            best.pop(name, None)


def quantity_of(quantity: str) -> str | None:
    """The column of a figure of DeepFlow's log; None of the machine's, whose rows have a column for each kind."""
    if quantity == "value":
        return None
    memory, _, rest = quantity.partition(".")
    if rest.partition(".")[2].startswith("reload"):
        way, _, reload = rest.partition(".")
        return f"{'transposed_' if way == 'transposed' else ''}{memory}_{reload}"
    return QUANTITIES[quantity]


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
            column = quantity_of(line["quantity"])
            held = [key for key in mine if key[1] == column]
            value = float(line["value"]) * UNITS[line["unit"]]
            key = next((key for key in held if close(mine[key], value)), held[0]) if held else None
            if column and not held:
                key = (column,)
            table.look(mine, key, line["quantity"], line["value"], value, f"row {at}, {op}")
            for key in kept - set(mine):
                del cells[key]
    elif name == "transformer_table_sums.csv":
        sums = [one.samples["sums_of_all_layers"] for one in read if "sums_of_all_layers" in one.samples]
        flat = {key: value for one in sums for key, value in one.items()}
        table.read_rows = len(flat)
        for at, line in enumerate(lines, 1):
            scale = scale_of(line["quantity"]) or 1.0
            first, quantity = FIRST_LAYERS[line["table"]], line["quantity"]
            column = "communication_frac" if quantity.startswith("frac_") else key_of(quantity, line)
            table.look(
                flat, f"from {first}: {column}", quantity, line["value"], float(line["value"]) * scale, f"row {at}"
            )
    elif name == "cs336_models.csv":
        counts = {
            row["model"]: row["parameters"] for one in of_kind["step-times"] for row in one.rows if "parameters" in row
        }
        table.read_rows = len(counts)
        for line in lines:
            printed = line["parameters_printed"]
            table.look(
                {"parameters": counts.get(line["model"])},
                "parameters",
                "parameters_printed",
                printed,
                float(printed),
                line["model"],
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
