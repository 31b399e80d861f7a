"""Every table of the reports has its picture: which one, of which rows, and what of them is predicted."""

from __future__ import annotations

import msgspec
import pytest

from estimator.scenario.codec import encode
from estimator.validation.predicted_rows import predicted_table
from tests.app.importers.reading import REFERENCE, read
from tests.javascript import call_each

CS336 = {
    "text/step-times": ["lines", "lines"], "text/kernel-shares": ["bars"], "text/timings": ["bars"],
    "text/accumulation": ["bars"], "text/attention": ["lines"] * 4, "text/attention-memory": ["lines"],
    "text/speedups": ["bars"], "text/collectives": ["lines", "lines"], "text/data-parallel-steps": ["stack"],
}  # fmt: skip
"""Of the first table of each kind."""
FLASH = {
    "text/step-times": ["bars"], "text/attention": ["lines"] * 3, "text/attention-implementations": ["lines"] * 9,
    "text/collectives": ["lines", "lines"], "text/data-parallel-variants": ["bars"],
}  # fmt: skip


OTHERS = {
    "deepflow_log/log.txt": ["time of each part", "time of each operation", "sizes"],
    "layer_costs/tables.txt": ["time of each layer", "memory of each layer"],
    "ulysses_log/log.txt": ["peak of memory after each step"],
    "tools/flop_counter.txt": ["FLOPs by module"],
    "tools/benchmark_timer.txt": ["time"],
    "tools/trainer.log": ["step s by step"],
    "tools/lightning.txt": ["mean, total", "share"],
}


def test_every_log_and_printed_cost_is_drawn(tmp_path):
    given = []
    for name in OTHERS:
        (one,) = read(tmp_path, REFERENCE.joinpath(name).read_bytes()).measurements
        given.append([{"origin": encode(one.origin), "rows": list(one.rows)}, None])
    drawn = call_each("figures/tableCharts", "chartsOf", msgspec.json.decode(msgspec.json.encode(given)))
    assert [[chart["title"] for chart in charts] for charts in drawn] == list(OTHERS.values())


@pytest.mark.parametrize(("name", "wanted"), [("cs336_steps", CS336), ("flash_attention", FLASH)])
def test_every_table_of_a_report_is_drawn(tmp_path, name, wanted):
    measurements = read(tmp_path, REFERENCE.joinpath(name, "report.txt").read_bytes()).measurements
    tables = [predicted_table(one, "a100-80gb") for one in measurements]
    given = [
        [{"origin": encode(one.origin), "rows": list(one.rows)}, {"rows": list(table.rows)}]
        for one, table in zip(measurements, tables, strict=True)
    ]
    drawn = call_each("figures/tableCharts", "chartsOf", msgspec.json.decode(msgspec.json.encode(given)))
    forms: dict[str, list[str]] = {}
    for one, table, charts in zip(measurements, tables, drawn, strict=True):
        assert charts, one.label
        forms.setdefault(one.origin.format, [chart["form"] for chart in charts])
        series = [line for chart in charts for line in chart["series"]]
        assert all(len(line["x"]) == len(line["y"]) for line in series)
        if table.errors and one.origin.format != "text/data-parallel-variants":
            assert any(line.get("predicted") for line in series), one.label
    assert {kind: found for kind, found in forms.items() if kind != "text/table"} == wanted


def test_out_of_memory_is_marked_and_a_table_of_no_kind_is_drawn_by_what_it_sweeps():
    rows = [
        {"seq_len": length, "d_model": 16, "forward_s": None if length > 1000 else length * 1e-6, "status": "ok"}
        for length in (256, 512, 1024)
    ]
    other = [{"gpus": count, "kind": kind, "took_s": 1 / count} for count in (1, 2, 4) for kind in ("a", "b")]
    remarked = [
        {"s": 128, "a_bytes": 1, "b_bytes": 2, "note": "fits"},
        {"s": 256, "a_bytes": 3, "b_bytes": 4, "note": "x"},
        {"s": 512, "a_bytes": 5, "b_bytes": 6},
    ]
    held = [{"entry": at, "time_s": at / 10, "allocated_bytes": at + 1.0} for at in range(2)]
    held.append({"place": "a.py:1 f", "held_bytes": 2.0})
    ((attention,), (own,), (named,), (both,), (over_time, holders)) = call_each("figures/tableCharts", "chartsOf", [
        [{"origin": {"format": "text/attention"}, "rows": rows}, None],
        [{"origin": {"format": "text/table"}, "rows": other}, None],
        [{"origin": {"format": "text/table"}, "rows": [{"what": "x", "s": 1.0}, {"what": "y", "s": 2.0}]}, None],
        [{"origin": {"format": "text/table"}, "rows": remarked}, None],
        [{"origin": {"format": "snapshot"}, "rows": held}, None],
    ])  # fmt: skip
    (line,) = attention["series"]
    assert (line["x"], line["out"], line["y"]) == ([256, 512, 1024], [1024], [256e-6, 512e-6, None])
    assert (own["title"], [one["name"] for one in own["series"]]) == ("took by gpus", ["a", "b"])
    assert (named["form"], named["series"][0]["x"]) == ("bars", ["x", "y"])
    # a remark of a row is no line of its own
    assert (both["title"], [(one["name"], one["y"]) for one in both["series"]]) == (
        "by s", [("a bytes", [1, 3, 5]), ("b bytes", [2, 4, 6])]
    )  # fmt: skip
    assert (over_time["series"][0]["x"], over_time["series"][0]["y"]) == ([0.0, 0.1], [1.0, 2.0])
    assert holders["series"][0]["x"] == ["a.py:1 f"]


def test_bus_bandwidth_is_drawn_of_rows_that_were_kept_without_it_and_measured_runs_by_model():
    kept = [
        {"kind": "all-reduce", "world_size": 4, "size_bytes": 2**power, "mean_s": 2**power / 1e10}
        for power in (20, 24, 28)
    ]
    runs = [
        {"model": name, "hardware": "h100-sxm", "n_gpus": 8, "measured_step_time_s": 1.0 + at}
        for at, name in enumerate(("a", "b"))
    ]
    (time, rate), (steps,) = call_each("figures/tableCharts", "chartsOf", [
        [{"origin": {"format": "text/collectives"}, "rows": kept}, {"rows": [{"mean_s": 1e-3}] * 3}],
        [{"origin": {"format": "text/measured-runs"}, "rows": runs}, {"rows": [{"measured_step_time_s": 1.1}, {}]}],
    ])  # fmt: skip
    assert (time["title"], rate["title"]) == ("time against size", "bus bandwidth against size")
    measured, predicted = rate["series"]
    assert measured["y"] == pytest.approx([1.5e10] * 3)
    assert predicted["y"] == pytest.approx([2**power * 1.5 / 1e-3 for power in (20, 24, 28)])
    assert [one["y"] for one in steps["series"]] == [[1.0, 2.0], [1.1, None]]
