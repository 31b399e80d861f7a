"""Logs and printed tables of models, figure by figure."""

from __future__ import annotations

import pytest

from app.importers.text.kinds import layer_costs
from estimator.scenario.units import GIB, MIB
from tests.app.importers.reading import REFERENCE, codes, figures, number, one, read

SCALES = {"flop": 1, "bytes": 1, "s": 1, "1": 1, "flop/byte": 1, "1e9": 1e9, "GiB": GIB, "MiB": MIB,
          "TiB/s": 1024 * GIB, "GiB/s before the 0.7 derating": GIB,
          "1e12 flop/s before the 0.7 derating": 1e12}  # fmt: skip


def test_a_log_of_tensors_behind_the_name_of_a_host(tmp_path):
    text = REFERENCE.joinpath("ulysses_log", "log.txt").read_text(encoding="utf-8")
    imported = read(tmp_path, text)
    found = one(imported)
    wanted = figures("ulysses_log", "rows.csv")
    assert (found.rank, found.world_size, found.memory.peak_bytes) == (7, 16, 61.02e9)
    assert len(found.rows) == len(wanted) == 35
    kinds = {"tensor": "tensor", "peak_memory": "peak memory", "flops_all_ranks": "flops"}
    for row, line in zip(found.rows, wanted, strict=True):
        assert (row["step_number"], row["step"], row["kind"]) == (
            int(line["step_no"]), line["step"], kinds[line["kind"]],
        )  # fmt: skip
        if row["kind"] == "tensor":
            assert (row["tensor"], row["dimensions"]) == (line["tensor"], line["dims_label"])
            assert (row["shape"].replace("×", "x"), row["elements"]) == (line["shape"], int(line["elements"]))
            unit = {"MB": 1e6, "GB": 1e9}[line["size_unit_decimal"]]
            assert row["size_bytes"] == pytest.approx(float(line["size_printed"]) * unit, rel=1e-12)
        assert row.get("flops") == number(line["flops_tflop_all_16_ranks"], 1e12)
        assert row.get("peak_memory_bytes") == number(line["peak_memory_gb_decimal"], 1e9)
    assert codes(imported) == {"label-differs", "mb-is-decimal", "coarse-size", "flops-of-all-ranks"}
    launched = "".join(f"[1,0]<stdout>:{line.partition(' ')[2]}\n" for line in text.splitlines())
    assert one(read(tmp_path, launched)).rows == found.rows


def test_a_log_of_deepflow_with_damaged_numbers(tmp_path):
    text = REFERENCE.joinpath("deepflow_log", "log.txt").read_text(encoding="utf-8")
    lines = [line.replace("comp_int: ", "comp_int: .") if "comp_int" in line else line for line in text.splitlines()]
    damaged = read(tmp_path, "\n".join([*lines, "Time: 1.2.3", "Cf GEMM_time: 1e999"]))
    assert "lines-skipped" in codes(damaged)
    assert len(one(damaged).rows) == len(one(read(tmp_path, text)).rows)


def test_a_log_of_deepflow(tmp_path):
    imported = read(tmp_path, REFERENCE.joinpath("deepflow_log", "log.txt").read_bytes())
    found = one(imported)
    cells = [
        (row["op"], key, value) for row in found.rows for key, value in row.items() if isinstance(value, (int, float))
    ]
    wanted = figures("deepflow_log", "figures.csv")
    assert len(cells) == len(wanted) == 237
    for line in wanted:
        op = {"all": "Parameters"}.get(line["op"], line["op"].rpartition("/")[2])
        value = float(line["value"]) * SCALES[line["unit"]]
        fitting = [cell for cell in cells if cell[0] == op and cell[2] == pytest.approx(value, rel=1e-12)]
        assert fitting, line
        cells.remove(fitting[0])
    assert found.environment == {"inflection_flops_per_byte": 4.03}
    assert codes(imported) == {"gb-is-gib", "modelled"}


def test_printed_costs_of_layers(tmp_path):
    imported = read(tmp_path, REFERENCE.joinpath("layer_costs", "tables.txt").read_bytes())
    rows = [row for found in imported.measurements for row in found.rows]
    wanted = [line for name in ("mlp", "sa") for line in figures("layer_costs", f"{name}.csv")]
    assert len(rows) == len(wanted) == 14
    scales = {"tflop": 1e12, "gb": 1e9, "ms": 1e-3}
    for row, line in zip(rows, wanted, strict=True):
        assert row["layer"] == line["layer"]
        for name, text in line.items():
            scale = scales.get(name.rpartition("_")[2])
            if scale and text:
                assert any(value == pytest.approx(float(text) * scale, rel=1e-12) for value in row.values()), name
    sums = [sum_ for found in imported.measurements for sum_ in found.samples["sums_of_all_layers"].values()]
    lines = figures("layer_costs", "sums.csv")
    wanted_sums = [float(line["value"]) * scales.get(line["quantity"].rpartition("_")[2], 1.0) for line in lines]
    assert sums == pytest.approx(wanted_sums, rel=1e-12)
    assert {"units-of-tool", "modelled"} <= codes(imported)
    assert {found.origin.format for found in imported.measurements} == {f"text/{layer_costs.KIND}"}
