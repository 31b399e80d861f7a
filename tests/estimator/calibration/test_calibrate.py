"""Calibrate: known constants come back from measurements made of them, and what cannot be told is named."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from estimator.calibration.calibrate import Calibration, Source, calibrate, to_document
from estimator.calibration.fit import fit, predicted_s
from estimator.calibration.points import Point, points_of
from estimator.cost.calibration import calibration_from_json
from estimator.cost.collectives import Group, collective_s
from estimator.cost.efficiency import Efficiencies, Range, efficiencies, efficiencies_for
from estimator.cost.price import price
from estimator.estimate.estimate import estimate
from estimator.operations.aten import kernels_of
from estimator.scenario import catalog
from estimator.scenario.codec import decode
from estimator.scenario.hardware import Cluster
from estimator.scenario.measurement import MeasuredCollective, Measurement, Origin
from estimator.scenario.op_list import Call, Operand, OpList, Signature
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import scenario_from_json

REFERENCE = Path(__file__).parents[2] / "reference"
CHIP = catalog.chip("h200-sxm")
BASE = efficiencies("hopper")
SHAPES = [(m, n, k) for m in (512, 2048, 8192) for n, k in ((1024, 4096), (4096, 1024), (6400, 1600), (4096, 4096))]


def measured_by(e: Efficiencies, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with the times that these efficiencies give them."""
    found = []
    for row in rows:
        alone = [{**row, "median_s": 1.0}, {**row, "median_s": 1e-9, "size_bytes": 0, "m": 0}]
        (point,) = points_of(Measurement(rows=tuple(alone)))
        found.append({**row, "median_s": predicted_s(point, CHIP, e)})
    return found


def products(precision: str) -> list[dict[str, Any]]:
    about = {"ladder": "gemm", "precision": precision, "layout": "forward"}
    return [{**about, "m": m, "n": n, "k": k, "status": "ok"} for m, n, k in SHAPES]


def adds() -> list[dict[str, Any]]:
    about = {"ladder": "elementwise", "op": "add", "precision": "bf16", "status": "ok"}
    return [{**about, "size_bytes": 2**power} for power in range(20, 31)]


def of(rows: list[dict[str, Any]], name: str = "NVIDIA H200", **more: Any) -> Source:
    return Source(name="rows", measurement=Measurement(device={"name": name}, rows=tuple(rows), **more))


@pytest.fixture(scope="module")
def true() -> Efficiencies:
    return replace(BASE, gemm_matrix_frac=0.61, memory_frac=0.71)


@pytest.fixture(scope="module")
def made(true):
    # Every fifth time is a third too long, as on a busy machine.
    rows = measured_by(true, [*adds(), *products("bf16")])
    noisy = [row | {"median_s": row["median_s"] * (1.3 if index % 5 == 3 else 1.0)} for index, row in enumerate(rows)]
    return calibrate([of(noisy)])


@pytest.mark.parametrize("name", ["gemm_matrix_frac", "memory_frac"])
def test_known_constants_come_back_and_their_range_holds_them(made, true, name):
    found = made.ranges[name]
    assert found.value == pytest.approx(getattr(true, name), rel=0.02)
    assert found.low <= getattr(true, name) <= found.high
    assert made.points[name] >= 4
    assert "rows" in found.source


def test_points_that_were_held_back_are_met_better_than_before(made):
    assert [one.group for one in made.errors] == ["contiguous kernels", "products"]
    for one in made.errors:
        assert one.held_back >= 2
        assert one.after_frac < 0.5 * one.before_frac


def test_what_the_measurements_do_not_tell_is_named_and_inherited(made):
    reasons = {one.constant: f"{one.reason}: {one.note}" for one in made.undetermined}
    assert reasons["gemm_tf32_frac"].startswith("nothing of its kind was measured alone")
    assert reasons["gemm_tf32_frac"].endswith(": tf32 products")
    assert "launches" in reasons["host_forward_s"]
    assert not set(reasons) & set(made.ranges)
    for name in reasons:
        assert made.efficiencies.ranges[name] == BASE.ranges[name]


def test_the_file_of_a_calibration_gives_it_back(made):
    document = json.loads(json.dumps(to_document(made)))
    assert calibration_from_json(document, "file") == made.efficiencies
    assert document["errors"][0]["group"]
    with pytest.raises(InputProblems, match="schema_version"):
        calibration_from_json(document | {"schema_version": 99}, "file")


def test_no_product_is_fitted_to_take_longer_than_all_that_it_does_in_turns():
    slow = replace(BASE, gemm_overlap_power=0.7)
    measured = Measurement(rows=tuple(measured_by(slow, products("bf16"))))
    points: list[Point] = points_of(measured)
    found, rests = fit(("gemm_overlap_power",), points, CHIP, BASE)
    assert rests["gemm_overlap_power"] >= 4
    assert found.gemm_overlap_power == 1.0


def test_an_estimate_takes_it_on_its_device_alone_says_so_and_is_surer(made):
    document = {
        "model": "llama3.2-1b", "cluster": {"chip": "h200-sxm", "chips_per_node": 1}, "plan": {"micro_batch": 8},
        "training": {"seq_len": 4096, "global_batch": 8, "precision": "bf16"},
    }  # fmt: skip
    scenario = scenario_from_json(document)
    own, calibrated = estimate(scenario), estimate(scenario, (efficiencies("tpu"), made.efficiencies))
    assert calibrated.step_time_s > 1.04 * own.step_time_s
    assert "measured on NVIDIA H200" in calibrated.assumptions[0]

    def width(found: Any) -> float:
        low, high = found.interval_s
        return (high - low) / found.step_time_s

    inherited = {name: made.efficiencies.ranges | {name: wide} for name, wide in as_wide_as_inherited(made).items()}
    assert width(calibrated) < width(
        estimate(scenario, replace(made.efficiencies, ranges=inherited["gemm_matrix_frac"]))
    )
    assert efficiencies_for(catalog.chip("a100-80gb-sxm"), made.efficiencies) == efficiencies("ampere")


def as_wide_as_inherited(made: Calibration) -> dict[str, Range]:
    """The measured values in ranges that are, relative to them, those of the base."""
    found = {}
    for name, one in made.ranges.items():
        base = BASE.ranges[name]
        found[name] = replace(one, low=one.value * base.low / base.value, high=one.value * base.high / base.value)
    return found


def test_a_profile_gives_points_of_its_calls(true):
    signatures, calls = [], []
    for m, n, k in SHAPES:
        shapes = ((m, k), (k, n), (m, n))
        first, second, result = (Operand(shape=shape, dtype="bfloat16") for shape in shapes)
        signatures.append(Signature(op="aten::mm", inputs=(first, second), outputs=(result,)))
    for at, s in enumerate(signatures):
        measured_s = sum(float(price(op, CHIP, true).seconds) for op in kernels_of(s))
        calls += [Call(kind="kernel", signature=at, phase="forward", measured_s=measured_s)] * 2
    ops = OpList(source="profile", program="p", calls=tuple(calls), signatures=tuple(signatures), chip="h200-sxm")
    found = calibrate([Source(name="trace.json", measurement=Measurement(), ops=ops)])
    assert found.ranges["gemm_matrix_frac"].value == pytest.approx(0.61, rel=0.02)


def test_collectives_give_the_link():
    cluster = Cluster(chip=CHIP, chips_per_node=8, link=catalog.link(CHIP.link), network=catalog.link(CHIP.network))
    e = replace(BASE, link_frac=0.66, collective_start_s=2e-5)
    sizes = [2**power for power in (12, 14, 15, 16, 26, 27, 28, 29, 30)]

    def one(size: int, ranks: int) -> MeasuredCollective:
        group = Group(ranks=ranks, ranks_per_node=ranks)
        seconds = float(collective_s("all-reduce", size, group, cluster, e))
        return MeasuredCollective(kind="all-reduce", bytes=size, ranks=ranks, seconds=seconds)

    measured = tuple(one(size, ranks) for size in sizes for ranks in (2, 8))
    by_python = of([], collectives=measured)
    table = replace(by_python, measurement=replace(by_python.measurement, origin=Origin(kind="upload", format="nccl")))
    found = calibrate([table]).ranges
    assert found["link_frac"].value == pytest.approx(0.66, rel=0.03)
    assert found["collective_start_s"].value == pytest.approx(2e-5, rel=0.15)
    found = calibrate([by_python]).ranges
    assert found["link_frac"].value == pytest.approx(0.66, rel=0.03)
    assert "collective_start_s" not in found, "Python asks for small ones as slowly as its host is"


def test_a_cpu_takes_no_calibration_and_its_files_are_named():
    own = of([], name="AMD EPYC")
    probes = replace(
        own, name="probes.json", measurement=replace(own.measurement, device={"kind": "cpu", "name": "AMD"})
    )
    profile = replace(own, name="p.json", ops=OpList(source="profile", program="", calls=(), signatures=(), chip="cpu"))
    with pytest.raises(InputProblems, match=r"^probes\.json, p\.json: made on a CPU\. .* takes no calibration\.$"):
        calibrate([of([]), probes, profile])


TRACE = OpList(source="trace", program="", calls=(), signatures=(), chip="h200-sxm")


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        ([of([])], "determines no constant: no kernels, launches or collectives were measured alone"),
        ([of([{"ladder": "launch", "op": "op", "launch_s": 4e-6}], name="")], "no device is named"),
        ([of([], name="", steps_s=(0.1,))], "determines no constant: whole steps say nothing of single kernels"),
        ([replace(of([]), ops=TRACE)], "determines no constant: a traced program is not measured"),
        (
            [of([], collectives=(MeasuredCollective(kind="all-reduce", bytes=2**26, ranks=2, seconds=1e-3),))],
            "rows: determines no constant: 4 collectives of at least 64 MiB within a node are needed, not 1; 4 "
            "collectives of at most 64 KiB by nccl-tests, not by Python, are needed, not 0; small collectives "
            "of two numbers of ranks are needed, likewise. ",
        ),
        ([of([], name="NVIDIA H200"), of([], name="NVIDIA A100-SXM4-80GB")], "several devices"),
        ([of([], name="abacus")], "abacus"),
    ],
)
def test_refusals_say_what_is_missing(sources, words):
    with pytest.raises(InputProblems, match=words):
        calibrate(sources)


def test_the_launches_of_a_host_bring_its_launch_bound_steps_close():
    """Six rows of probes; the step was measured on the same host, and nothing was read off it."""
    document = json.loads((REFERENCE / "h200_programs" / "launches.json").read_text())
    host = calibrate([Source(name="launches.json", measurement=decode(Measurement, document))])
    assert set(host.ranges) == {
        "host_launch_s", "host_forward_s", "host_backward_s", "host_fused_forward_s", "host_fused_backward_s",
        "host_tensor_s", "host_new_product_s", "host_optimizer_s", "host_dtensor_op_s", "host_dtensor_value_s",
        "host_graph_forward_s", "host_graph_backward_s", "host_put_off_s",
        "host_fsdp_forward_s", "host_fsdp_backward_s", "host_sharded_tensor_s", "host_dtensor_s",
    }  # fmt: skip
    # About three bare launches for each kernel, forward and backward.
    for name in ("host_forward_s", "host_backward_s"):
        assert 2 < host.ranges[name].value / host.ranges["host_launch_s"].value < 4
    step = json.loads((REFERENCE / "h200_plans" / "4" / "pp-small-4.json").read_text())
    measured_s = sorted(step["steps_s"])[len(step["steps_s"]) // 2]
    scenario = scenario_from_json(step["scenario"])
    assert abs(estimate(scenario, host.efficiencies).step_time_s / measured_s - 1) < 0.15


def test_probes_of_a_host_that_was_slower_for_a_moment_are_taken_at_its_mean_pace():
    def probed(slow: float) -> list[dict[str, Any]]:
        about = {"ladder": "launch", "precision": "fp32", "status": "ok", "kernels": 100}
        times = [(2, 1e-3, 100, 1.0), (10, 5e-3, 500, slow)]
        rows = [
            {**about, "op": op, "layers": n, "median_s": of * s * f, "dispatches": of * d, "host_pace_s": 2e-6 * f}
            for op, of in (("model forward", 1), ("model forward and backward", 3)) for n, s, d, f in times
        ]  # fmt: skip
        return [{**about, "op": "op", "median_s": 5e-4, "launch_s": 5e-6, "host_pace_s": 2e-6}, *rows]

    quiet, moved = (calibrate([of(probed(slow))]).ranges for slow in (1.0, 1.8))
    slower = statistics.fmean((1.0, 1.0, 1.8, 1.0, 1.8))  # the pace of what lasts: a median would know no second one
    assert moved["host_pace_s"].value == pytest.approx(slower * quiet["host_pace_s"].value)
    for name in ("host_forward_s", "host_backward_s", "host_launch_s"):
        assert moved[name].value == pytest.approx(slower * quiet[name].value)


def test_what_goes_backward_is_taken_at_the_pace_of_autograds_thread_and_visits_by_their_mean():
    about = {"precision": "fp32", "ladder": "launch", "status": "ok"}

    def probed(paces: list[tuple[float, float]]) -> list[dict[str, Any]]:
        """Forward takes 2 ms for 100 ops at a pace of 1, backward 6 ms for 200."""
        rows = [{**about, "op": "op", "median_s": 5e-4, "launch_s": 5e-6}]
        for own, backward in paces:
            noted = {"host_pace_s": own, "host_backward_pace_s": backward}
            for layers in (1, 5):
                first, both = layers * 2e-3 * own, layers * (2e-3 * own + 6e-3 * backward)
                here = {**about, **noted, "layers": layers}
                rows.append({**here, "op": "model forward", "median_s": first, "dispatches": layers * 100})
                rows.append({**here, "op": "model forward and backward", "median_s": both, "dispatches": layers * 300})
        return rows

    quiet = calibrate([of(probed(3 * [(1.0, 1.0)]))]).ranges
    mixed = calibrate([of(probed([(1.0, 2.0), (3.0, 1.0), (2.0, 3.0)]))]).ranges
    assert quiet["host_forward_s"].value / mixed["host_forward_s"].value == pytest.approx(1 / 2)
    assert quiet["host_backward_s"].value / mixed["host_backward_s"].value == pytest.approx(1 / 2)


def test_each_precision_that_was_probed_counts_where_all_are_weighed_together():
    rows = []
    for precision, slower in (("fp32", 1.0), ("bf16", 1.2)):
        about = {"precision": precision, "ladder": "launch", "status": "ok"}
        for layers in (2, 10):
            for op, each_s, ops in (("model forward", 2e-3, 100), ("model forward and backward", 6e-3, 300)):
                rows.append({**about, "op": op, "layers": layers, "median_s": layers * each_s * slower,
                             "dispatches": layers * ops})  # fmt: skip
    made = calibrate([of(rows)])
    assert made.points["host_forward_s"] == made.points["host_backward_s"] == 2
    assert "2 differences" in made.ranges["host_forward_s"].source
    assert 0.01 < made.residuals_frac["host_forward_s"] < 0.2


def test_a_product_of_a_new_size_costs_what_it_takes_more_than_the_same_again():
    about = {"ladder": "launch", "precision": "fp32", "status": "ok", "kernels": 100}
    rows = [
        {**about, "op": op, "median_s": 100 * each, "launch_s": each}
        for op, each in (("op", 9e-6), ("product", 15e-6), ("product of a new size", 90e-6))
    ]
    found = calibrate([of(rows)]).ranges["host_new_product_s"]
    assert found.value == pytest.approx(75e-6)
    assert found.low < found.value < found.high


def test_graphs_cost_what_is_left():
    about = {"status": "ok", "precision": "fp32"}
    rows: list[dict[str, Any]] = []
    for products in (4, 24):
        for op, each, empty in (
            ("compiled chain forward", 20e-6, 90e-6),
            ("compiled chain forward and backward", 60e-6, 790e-6),
        ):
            rows.append(
                {**about, "ladder": "launch", "op": op, "products": products, "median_s": empty + products * each}
            )
    found = calibrate([of(rows)]).ranges
    assert found["host_graph_forward_s"].value == pytest.approx(90e-6)
    assert found["host_graph_backward_s"].value == pytest.approx(700e-6)


def test_copies_of_pageable_memory_are_calibrated_apart_from_those_of_pinned_memory():
    sources = []
    for visit in (1, 2):
        rows = json.loads((REFERENCE / "h200" / f"probes-{visit}.json").read_text(encoding="utf-8"))["rows"]
        sources.append(of([row for row in rows if row.get("ladder") == "copy"]))
    made = calibrate(sources)
    # 16 MiB took 1.46 and 1.22 ms from touched pages, 0.31 from pinned ones
    assert 1.0e10 < made.ranges["host_pageable_bytes_per_s"].value < 1.6e10
    assert 0.75 < made.ranges["host_link_frac"].value < 0.86
