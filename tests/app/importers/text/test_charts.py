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
        if one.origin.format != "text/table":
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
    ((attention,), (own,), (named,)) = call_each("figures/tableCharts", "chartsOf", [
        [{"origin": {"format": "text/attention"}, "rows": rows}, None],
        [{"origin": {"format": "text/table"}, "rows": other}, None],
        [{"origin": {"format": "text/table"}, "rows": [{"what": "x", "s": 1.0}, {"what": "y", "s": 2.0}]}, None],
    ])  # fmt: skip
    (line,) = attention["series"]
    assert (line["x"], line["out"], line["y"]) == ([256, 512, 1024], [1024], [256e-6, 512e-6, None])
    assert (own["title"], [one["name"] for one in own["series"]]) == ("took s by gpus", ["a", "b"])
    assert (named["form"], named["series"][0]["x"]) == ("bars", ["x", "y"])
