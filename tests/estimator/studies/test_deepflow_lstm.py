"""DeepFlow study: every figure of the log to its last digit; other inputs against formulas written a second time."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from estimator.scenario.problems import InputProblems
from estimator.studies import document, study
from estimator.studies.study import Figure

LOG = Path(__file__).parents[2] / "reference" / "studies" / "deepflow-lstm.csv"
ROWS = [
    (row["group"], row["figure"], row["printed"])
    for row in csv.DictReader(LOG.read_text(encoding="utf-8").splitlines())
]


def figures(**overrides: object) -> dict[tuple[str, str], Figure]:
    return {(figure.group, figure.name): figure for figure in study("deepflow-lstm", overrides).figures}


REFERENCE = figures()


def as_printed(value: float | int | str, text: str) -> str:
    """The value as a log writes it: floats of many digits as their shortest form, others with the digits shown."""
    if "." not in text:
        return str(value)
    places = len(text.partition(".")[2])
    return repr(value) if places > 9 else f"{value:.{places}f}"


@pytest.mark.parametrize(("group", "name", "text"), ROWS, ids=[f"{group}/{name}" for group, name, _ in ROWS])
def test_figure_of_the_log_to_every_printed_digit(group: str, name: str, text: str) -> None:
    assert as_printed(REFERENCE[group, name].value, text) == text
    assert REFERENCE[group, name].agrees is True


def test_all_numbers_of_the_log_are_there_in_its_order() -> None:
    assert [(f.group, f.name) for f in list(REFERENCE.values())[: len(ROWS)]] == [(g, n) for g, n, _ in ROWS]
    # 334 numbers in the log: these figures, and digits in names that it prints, once for each line of a level.
    in_names = sum(name.startswith("kp_") and name[-1] in "12" and name != "kp_embedding" for _, name, _ in ROWS)
    l2mem = sum("l2mem reload_AB" in name or name == "GEMM_l2mem" for _, name, _ in ROWS)
    assert len(ROWS) + in_names + l2mem + len(("L2 Bandwidth", "L2 Size")) == 334


def independent(**overrides: float) -> Mapping[tuple[str, str], float]:
    """Components, memory and Time of one processor, written a second time from the published formulas."""
    c = {"batch": 512, "vocab": 800_000, "layers": 2, "hidden": 19_968, "sequence": 20, "projection": 2048} | overrides
    b, v, layers, d, s, pr = (int(c[k]) for k in ("batch", "vocab", "layers", "hidden", "sequence", "projection"))
    p, gates, launch, latency = 4, 4, 37e-6, 50e-9
    th, bw, l2 = 0.2592 * 300 / 11.9e-12 * 0.7, 0.2592 * 300 / 48e-12 * 0.7, 0.16896 * 300 / 40e-15
    x1, x2 = 512, 2048

    def roof(flop: float, gmem: float, l2mem: float = 0.0) -> float:
        return gmem / bw + latency + l2mem / l2 if flop / gmem < th / bw else flop / th

    def one_order(m: int, k: int, n: int) -> float:
        def moved(x: int) -> int:
            return p * (m * k * (1 if k <= x else math.ceil(n / x)) + k * n * math.ceil(m / x) + m * n)

        return roof(2 * m * k * n + m * n * (15 + 5 * math.ceil(k / x2)), moved(x1), moved(x2)) + launch

    def gemm(m: int, k: int, n: int) -> float:
        return min(one_order(m, k, n), one_order(n, k, m))

    def update(rows: int, columns: int) -> float:
        words = rows * columns
        return roof(3 * words, 7 * p * words) + roof(4 * words, 3 * p * words)

    cf = gemm(b, 2 * d, gates * d) + roof(b * d * gates * 3.25, p * b * d * gates * 8.5) + 15 * launch
    cb = gemm(b, gates * d, 2 * d) + gemm(2 * d, b, gates * d) + 15 * launch
    cb += roof(b * d * 3.25 + 2 * d * gates * d, p * b * d * 8.5 + 3 * 2 * d * gates * d)
    sf = gemm(b * s, d, v) + roof(b * s * (3 * v - 1), 7 * p * b * s * v) + 4 * launch
    sb = gemm(d, b * s, v) + gemm(b * s, v, d) + roof(5 * b * s * v, 11 * p * b * s * v) + 4 * launch
    embedding = 2 * p * b * d * s / bw + latency + launch
    r = update(2 * d, gates * d)
    weights = v * d + layers * (2 * d + 1) * gates * d + (pr + 1) * v + (d + 1) * pr
    kept = b * s * d + b * 2 * d * s * layers + b * s * v + b * s * pr
    pointwise = 9 * b * d * layers * s + 2 * b * s * v + b * s + b * s * pr
    return {
        ("components", "Cf"): cf,
        ("components", "Cb"): cb,
        ("components", "R"): r,
        ("components", "softmax_f"): sf,
        ("components", "softmax_b"): sb,
        ("components", "embedding_f"): embedding,
        ("components", "#Parameters"): (v * d + layers * (2 * d + 1) * gates * d + d * pr + (d + 1) * v) / 1e9,
        ("Memory Requirement Breakdown per Data Shard", "Total Memory"): p * (weights + kept + pointwise) / 2**30,
        ("Memory Requirement Breakdown per Data Shard", "Pointwise Memory"): p * pointwise / 2**30,
        ("Memory Requirement Breakdown per Data Shard", "Weight Memory"): p * weights / 2**30,
        ("result", "Time"): sf + sb + 2 * embedding + update(d, v) + layers * s * (cf + cb) + r,
        ("result", "time_per_step"): 86400 / (100 * 768_648_884 // (32 * s)),
    }


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"batch": 256},
        {"hidden": 8192},
        {"layers": 4},
        {"vocab": 100_000},
        {"batch": 32, "hidden": 1000, "sequence": 7, "vocab": 12_345, "layers": 3},
        {"batch": 1, "hidden": 64, "vocab": 50},
    ],
    ids=str,
)
def test_other_inputs_give_what_the_formulas_give(overrides: dict[str, int]) -> None:
    found = figures(**overrides)
    for key, value in independent(**overrides).items():
        assert found[key].value == pytest.approx(value, rel=1e-12), key
    if overrides:
        assert all(figure.printed is None for figure in found.values())


def test_seven_contradictions_each_touch_figures_and_are_corrected_beside_them() -> None:
    from estimator.studies.deepflow.corrected import INCONSISTENCIES

    assert [one.number for one in INCONSISTENCIES] == [1, 2, 3, 4, 5, 6, 7]
    for one in INCONSISTENCIES:
        assert all(key in REFERENCE for key in one.touches)
    assert REFERENCE["corrected: result", "time_per_step"].value == pytest.approx(0.01151, rel=1e-3)
    assert REFERENCE["corrected: (gr) Hidden pointwise", "point_mem"].value == 4 * 9_916_907_520
    parameters = 800_000 * 19_968 + 2 * 39_937 * 79_872 + 19_969 * 2048 + 2049 * 800_000
    assert REFERENCE["corrected: components", "#Parameters"].value == parameters / 1e9
    one_by_one = [f.value for f in REFERENCE.values() if f.group == "Time, one correction after the other"]
    assert one_by_one[0] == REFERENCE["result", "Time"].value
    assert one_by_one[-1] == REFERENCE["corrected: result", "Time"].value


def test_series_show_memory_composition_and_the_power_split() -> None:
    result = study("deepflow-lstm")
    groups = {series.group for series in result.series}
    assert groups == {"time composition", "memory per data shard", "power split"}
    (bars,) = (series for series in result.series if series.group == "time composition")
    assert sum(y for y in bars.y if y) == pytest.approx(302.88817584140634, rel=1e-12)
    stacked = [sum(y for y in series.y if y) for series in result.series if series.group == "memory per data shard"]
    assert sum(stacked) == pytest.approx(198.7628984451294, rel=1e-12)
    assert json.loads(json.dumps(document(result)))["study"] == "deepflow-lstm"


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"l2_tile": 4096}, "l2_tile"),
        ({"shared_tile": 60_000}, "shared_tile"),
        ({"dp": 2, "link_power_frac": 0}, "link_power_frac"),
        ({"dram_power_frac": -0.1}, "dram_power_frac"),
        ({"core_power_frac": 0}, "core_power_frac"),
        ({"hlp": 3, "lp": 3}, "hlp"),
        ({"lp": 5}, "lp"),
        ({"dp": 1024}, "dp"),
        ({"kp_hidden_1": 4}, "kp_hidden_type"),
        ({"kp_hidden_type": "row-column", "kp_hidden_1": 3}, "kp_hidden_1"),
        ({"kp_softmax_type": "column-row", "kp_softmax_1": 2, "kp_softmax_2": 2}, "kp_softmax_2"),
        ({"mode": "both"}, "mode"),
        ({"batch": 0}, "batch"),
        ({"batches": 4}, "batches"),
    ],
    ids=str,
)
def test_bad_input_names_its_field(overrides: dict[str, object], field: str) -> None:
    with pytest.raises(InputProblems) as caught:
        study("deepflow-lstm", overrides)
    assert field in {problem.field for problem in caught.value.problems}
    assert all(problem.remedy for problem in caught.value.problems)


def test_degrees_reach_the_figures() -> None:
    found = figures(dp=4, kp_hidden_type="row-column", kp_hidden_1=2, kp_hidden_2=8, link_power_frac=0.1)
    assert found["parallelism", "dp"].value == 4
    assert found["parallelism", "kp_hidden_type"].value == 2
    assert found["Hardware Configuration", "Interconnection Bandwidth"].value > 0
    assert found["result", "Time"].value < 302.9
