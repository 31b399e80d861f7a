"""Workbooks: those of TraceLens, and any other."""

from __future__ import annotations

import openpyxl
import pytest

from tests.app.importers.reading import REFERENCE, one, read, refusal


def workbook(folder, sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(folder / "book.xlsx")
    return (folder / "book.xlsx").read_bytes()


def test_the_workbook_of_tracelens(tmp_path):
    content = workbook(tmp_path, {
        "gpu_timeline": [["type", "time ms", "percent"], ["computation_time", 31.5, 90.0], ["total_time", 35.0, 100.0]],
        "kernel_summary": [["Kernel name", "Kernel duration (µs)_sum", "Kernel duration (µs)_count"], ["k", 1.0, 1]],
        "unified_perf_summary": [
            ["name", "op category", "Input Dims", "operation_count", "GFLOPS", "Data Moved (MB)",
             "Kernel Time (µs)_sum"],
            ["aten::mm", "GEMM", "((8944, 1024), (1024, 2816))", 48, 51.5, 71.0, 4055.25],
            ["aten::mul", "elementwise", "((16,),)", 2, None, None, 10.0],
        ],
    })  # fmt: skip
    found = one(read(tmp_path, content))
    product, pointwise = found.kernels
    assert (product.category, product.count, product.total_s) == ("matmul", 48, pytest.approx(4055.25e-6))
    assert (product.flops, product.bytes) == (pytest.approx(48 * 51.5e9), 48 * 71.0 * 2**20)
    assert (pointwise.category, pointwise.flops) == ("elementwise", None)
    assert found.rows[0] == {"part": "computation_time", "total_s": pytest.approx(31.5e-3), "share_frac": 0.9}


def test_tracelens_says_of_a_trace_what_is_read_in_it(tmp_path):
    report = one(read(tmp_path, REFERENCE.joinpath("tools", "tracelens.xlsx").read_bytes()))
    trace = one(read(tmp_path, REFERENCE.joinpath("h200", "trace-short-1.trace.json.gz").read_bytes()))
    parts = {row["part"]: row["total_s"] for row in report.rows}
    assert parts["busy_time"] == pytest.approx(sum(kernel.total_s for kernel in trace.kernels), rel=1e-9)
    (found, *_), (wanted, *_) = (
        sorted((one.flops for one in some.kernels if one.flops and one.count == 1), reverse=True)
        for some in (report, trace)
    )
    assert found == pytest.approx(wanted, rel=1e-9)


def test_any_other_workbook_is_its_tables(tmp_path):
    content = workbook(tmp_path, {
        "notes": [["written by hand"]],
        "results": [["Sequence length", "Forward (ms)", "Backward (ms)"], [256, 1.5, 2.5], [512, 3.0, 5.0]],
    })  # fmt: skip
    found = one(read(tmp_path, content))
    assert found.label == "results"
    assert [row["forward_s"] for row in found.rows] == pytest.approx([1.5e-3, 3e-3])
    assert refusal(tmp_path, content[: len(content) // 2]).format == "workbook"
    assert refusal(tmp_path, workbook(tmp_path, {"empty": []})).format == "workbook"


def test_a_row_whose_last_cells_are_empty_is_a_row_and_that_of_the_mean_none(tmp_path):
    header = ["model", "batch", "seq_len", "step (ms)", "note"]
    rows = [["gpt2", 8, 1024, 118, "first"], ["gpt2", 8, 1024, 122], ["Average", None, None, 120]]
    found = one(read(tmp_path, workbook(tmp_path, {"runs": [["Runs of May"], header, *rows]})))
    assert [row["step_s"] for row in found.rows] == [0.118, 0.122]
    assert "sum-rows" in {warning.code for warning in found.warnings}
