"""The calibration ladder on a CPU, alone and on two ranks."""

from __future__ import annotations

import math

import pytest
import torch

from runners.benchmarks.probes import apart_first, revisited, run
from runners.job import Job
from runners.probes import LADDERS
from runners.probes.probe import Probe
from runners.probes.products import GEMM_SHAPES
from tests.runners.benchmarks.on_ranks import measure

# torch.compile warns, and takes longer than the rest together: tests of step and of the grid compile
ONCE = ["gemm", "attention", "elementwise", "reduction", "copy", "optimizer", "runtime", "collective"]


@pytest.fixture(scope="module")
def rows():
    options = {"sizes": "few", "ladders": ONCE, "limit_s": 600.0}
    return run(Job(benchmark="probes", device="cpu", warmup=1, steps=3, options=options), lambda event: None).rows


def of(rows, ladder, **wanted):
    found = [row for row in rows if row["ladder"] == ladder]
    return [row for row in found if all(row[key] == value for key, value in wanted.items())]


def test_every_ladder_is_climbed_and_every_probe_is_ok(rows):
    assert {row["ladder"] for row in rows} == set(ONCE) - {"collective"}
    on_gpus = [row for row in rows if row["status"] == "unsupported"]
    assert [row["op"] for row in on_gpus] == ["launch all-reduce", "launch all-gather", "launch reduce-scatter"]
    timed = [row for row in rows if row not in on_gpus]
    assert {row["status"] for row in timed} == {"ok"}, [row for row in timed if row["status"] != "ok"]
    assert all(0 < row["minimum_s"] <= row["median_s"] <= row["maximum_s"] for row in timed)


def test_runtimes_are_probed_around_the_same_blocks(rows):
    plain, fsdp, dtensor = (
        of(rows, "runtime", op=name, direction="forward")[0] for name in ("plain", "fsdp", "dtensor")
    )
    assert plain["tensors"] == fsdp["tensors"] == dtensor["tensors"] == 2 * plain["layers"]
    assert plain["dispatches"] < fsdp["dispatches"], "parameters are gathered and copied"
    assert plain["minimum_s"] < min(fsdp["minimum_s"], dtensor["minimum_s"])
    for name in ("plain", "dtensor"):
        (loop,) = of(rows, "runtime", op=name, direction="optimizer for-loop")
        (at_once,) = of(rows, "runtime", op=name, direction="optimizer")
        assert loop["dispatches"] > 8 * loop["tensors"], "AdamW goes over each tensor by itself"
        assert loop["launches"] == loop["dispatches"], "an optimizer sees no views"
        assert at_once["dispatches"] < loop["dispatches"]
    assert not torch.distributed.is_initialized()


def test_products_have_three_layouts_and_their_flops(rows):
    found = of(rows, "gemm", precision="fp32", m=33)
    assert sorted(row["layout"] for row in found) == ["forward", "input-gradient", "weight-gradient"]
    for row in found:
        assert row["flops"] == 2 * row["m"] * row["n"] * row["k"]
        assert row["flops_per_s"] == pytest.approx(row["flops"] / row["median_s"])
        assert row["bytes"] == 4 * (row["m"] * row["k"] + row["n"] * row["k"] + row["m"] * row["n"])


def test_bandwidths_count_reads_and_writes(rows):
    (row,) = of(rows, "elementwise", op="add", precision="bf16", size_bytes=2**16)
    assert row["bytes"] == 3 * 2**16
    (row,) = of(rows, "elementwise", op="to fp32", precision="bf16", size_bytes=2**16)
    assert row["bytes"] == 3 * 2**16
    (row,) = of(rows, "copy", op="host-host", size_bytes=2**16)
    assert row["bytes_per_s"] == pytest.approx(2 * 2**16 / row["median_s"])
    for row in of(rows, "optimizer"):
        assert row["bytes"] == 7 * row["parameters"] * (4 if row["precision"] == "fp32" else 2)


def test_attention_backward_takes_longer(rows):
    forward, both = (of(rows, "attention", seq_len=64, direction=way)[0] for way in ("forward", "forward-backward"))
    assert both["flops"] == 3.5 * forward["flops"]
    assert both["minimum_s"] > forward["minimum_s"]


def test_launches_are_timed_by_hundreds(monkeypatch):
    """What goes backward does so in every run of it."""
    backward, gradients = [], []
    for name, calls in (("backward", backward), ("grad", gradients)):
        inner = getattr(torch.autograd, name)
        monkeypatch.setattr(torch.autograd, name, lambda *a, inner=inner, calls=calls: (calls.append(1), inner(*a))[1])
    options = {"sizes": "few", "ladders": ["launch"]}
    job = Job(benchmark="probes", device="cpu", warmup=1, steps=5, options=options)
    found = {row["op"]: row for row in run(job, lambda event: None).rows}
    assert found["op"]["launch_s"] == pytest.approx(found["op"]["median_s"] / 100)
    assert found["graph of ops"]["status"] == "unsupported"
    timed = {name for name, row in found.items() if row["status"] == "ok"}
    assert {"op", "op with autograd", "model forward", "model forward and backward"} <= timed
    assert all(found[name]["minimum_s"] > 0 for name in timed)
    assert min(len(backward), len(gradients)) >= 6, "warmed up once, then five samples"


@pytest.mark.parametrize(("sizes", "few"), [("default", True), ("all", False)])
def test_the_limit_ends_the_ladder_but_every_probe_has_its_row(sizes, few):
    options = {"sizes": sizes, "ladders": ["copy", "gemm"], "limit_s": 1.0}
    job = Job(benchmark="probes", device="cpu", warmup=100, steps=20_000, options=options)
    statuses = [row["status"] for row in run(job, lambda event: None).rows]
    assert len(statuses) == sum(len(list(LADDERS[name](False, few))) for name in ("copy", "gemm"))
    assert statuses[0] == "ok"
    assert statuses[-1] == "not_run"


def test_ranks_add_the_collectives(tmp_path):
    result = measure(tmp_path, 2, "probes", "--sizes", "few", "--ladders", "copy,collective")
    assert {row["ladder"] for row in result.rows} == {"copy", "collective"}
    assert {row["status"] for row in result.rows} == {"ok"}
    assert {one.kind for one in result.collectives} >= {"all-reduce", "all-to-all", "p2p"}
    ladders = [row["ladder"] for row in result.rows]
    assert ladders.index("collective") < len(ladders) / 2, "a limit that ends the ladders leaves some of each"
    assert ladders[-1] == "collective"


def test_of_payloads_the_ends_come_first_and_each_once():
    assert apart_first([1, 2, 3, 4, 5, 6, 7]) == [1, 7, 4, 2, 5, 3, 6]
    assert apart_first([1, 2]) == [1, 2]
    assert apart_first([1]) == [1]


def test_the_shapes_hold_odd_ones_and_fit_a_gpu():
    assert any(m % 8 for m, _, _ in GEMM_SHAPES)
    largest = max(4 * (m * k + n * k + m * n) for m, n, k in GEMM_SHAPES)
    assert largest < 8e9
    assert all(math.prod(shape) > 0 for shape in GEMM_SHAPES)
    assert torch.get_float32_matmul_precision() == "highest"


def test_probes_that_are_visited_again_are_spread_over_the_others():
    order = [
        Probe(ladder="x", columns={"at": at}, build=lambda device: lambda: None, visits=3 if at in (2, 5) else 1)
        for at in range(20)
    ]
    found = [probe.columns["at"] for probe in revisited(order)]
    assert list(dict.fromkeys(found)) == list(range(20))
    places = {at: [place for place, one in enumerate(found) if one == at] for at in (2, 5)}
    assert all(len(those) == 3 and those[1] - those[0] >= 2 and those[2] - those[1] > 4 for those in places.values())
    assert revisited(order[:2]) == order[:2]


def test_what_ranks_do_together_is_sampled_less_in_each_visit_to_be_visited_more_often(monkeypatch):
    made = [
        Probe(
            ladder="copy", columns={"op": name}, build=lambda device: lambda: None, visits=3, meets=name == "together"
        )
        for name in ("alone", "together")
    ]
    monkeypatch.setitem(LADDERS, "copy", lambda cuda, small: made)
    job = Job(benchmark="probes", device="cpu", warmup=1, steps=12, options={"ladders": ["copy"]})
    found = run(job, lambda event: None).rows
    assert sorted((row["op"], row["samples"]) for row in found) == [("alone", 12)] * 3 + [("together", 4)] * 3
