"""Host: whose launches take how long, and how its lead over the device is spent."""

import json
import math
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.checkpointed import KINDS
from estimator.cost.device_time import Work, work_of
from estimator.cost.efficiency import efficiencies
from estimator.cost.host import (
    BUCKET_OPS,
    EXCHANGE_LAUNCHES,
    SUMMED_BUCKET_OPS,
    SUMMED_LAUNCHES,
    SUMMED_TENSOR_OPS,
    SUMS_OF_ADAM,
    TENSOR_OPS,
    WIDTH_OF_SIZES,
    blocking_collective_s,
    bucketed_s,
    gathered_buckets_s,
    launch_s,
    new_products_s,
    phase_wait_s,
    put_off_products_s,
    running_again_s,
    sent_s,
    sharded_modules_s,
    slowest_rank,
    split_products_s,
    summed_norms_s,
    taken_apart_s,
    walk_s,
)
from estimator.operations.rank_sizes import rank_sizes
from estimator.operations.transformer import network
from estimator.scenario.training import Training
from tests.estimator.examples import flawless, scenario

REFERENCE = Path(__file__).parents[2] / "reference"
E = flawless(
    host_forward_s=1.0, host_backward_s=2.0, host_fused_forward_s=3.0, host_fused_backward_s=4.0,
    host_megatron_forward_s=5.0, host_megatron_backward_s=6.0, host_collective_s=7.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("framework", "compiled", "forward", "backward"),
    [
        ("pytorch-eager", False, 1.0, 2.0),
        ("pytorch-eager", True, 3.0, 4.0),
        ("pytorch-compile", False, 3.0, 4.0),
        ("megatron", False, 5.0, 6.0),
        ("xla", False, 3.0, 4.0),
        ("ideal", False, 0.0, 0.0),
    ],
)
def test_each_framework_has_its_own_launches(framework, compiled, forward, backward):
    training = Training(seq_len=1, global_batch=1, framework=framework, compile=compiled)
    assert (launch_s(training, "forward", E), launch_s(training, "backward", E)) == (forward, backward)


def test_a_blocking_collective_waits_for_the_slowest_of_its_ranks():
    training = Training(seq_len=1, global_batch=1)
    assert blocking_collective_s(training, 1, E) == 0
    assert blocking_collective_s(training, 8, E) == pytest.approx(7 * 1.424), "the largest of eight normal numbers"
    assert blocking_collective_s(Training(seq_len=1, global_batch=1, framework="ideal"), 8, E) == 0


@pytest.mark.parametrize(
    ("device", "host", "lead", "waits", "left"),
    [
        (10.0, 4.0, 0.0, 0.0, 6.0),  # the host runs ahead by what the device takes longer
        (4.0, 10.0, 0.0, 6.0, 0.0),  # the device waits
        (4.0, 10.0, 6.0, 0.0, 0.0),  # an earlier lead pays for it
        (4.0, 10.0, 2.0, 4.0, 0.0),
        (4.0, 4.0, 3.0, 0.0, 3.0),  # a lead not needed is kept
    ],
)
def test_the_device_waits_for_what_the_host_has_not_launched(device, host, lead, waits, left):
    assert phase_wait_s(device, host, lead) == (waits, left)


def test_what_dtensor_takes_apart_costs_by_where_it_stands():
    e = flawless(host_dtensor_s=6.5, host_dtensor_op_s=0.25)
    assert taken_apart_s("forward", 4, e, compiled=False) == taken_apart_s("backward", 4, e, compiled=False) == 4
    assert taken_apart_s("optimizer", 4, e, compiled=False) == 1, "no module lays out what it takes"
    assert taken_apart_s("forward", 4, e, compiled=True) == 0, "the compiler did"


def test_runtimes_of_pytorch_cost_what_python_does_for_their_modules_products_and_tensors():
    e = flawless(
        host_dtensor_s=3.0, host_fsdp_forward_s=5.0, host_fsdp_backward_s=7.0, host_tensor_s=1.0,
        host_sharded_tensor_s=4.0,
    )  # fmt: skip
    eager = Training(seq_len=1, global_batch=1)
    megatron = Training(seq_len=1, global_batch=1, framework="megatron")
    assert split_products_s(eager, 2, 7, e) == 21
    assert split_products_s(eager, 1, 7, e) == split_products_s(megatron, 8, 7, e) == 0
    assert sharded_modules_s(eager, "fsdp", 2, 3, e) == (15, 21)
    for training, sharding, ranks in ((eager, "ddp", 2), (eager, "fsdp", 1), (megatron, "zero3", 8)):
        assert sharded_modules_s(training, sharding, ranks, 3, e) == (0, 0)
    assert walk_s(eager, "zero3", 2, 1, 10, e) == walk_s(eager, "ddp", 1, 4, 10, e) == 50
    assert walk_s(eager, "zero3", 1, 1, 10, e) == walk_s(eager, "ddp", 8, 1, 10, e) == 10
    assert walk_s(megatron, "zero3", 8, 4, 10, e) == 10


def test_ranks_wait_for_the_slowest_of_their_hosts():
    e = flawless(host_spread=0.5)
    eager = Training(seq_len=1, global_batch=1)
    assert slowest_rank(eager, 1, e) == 1
    # The larger of two standard normal numbers is expected at 1 / sqrt(pi).
    assert slowest_rank(eager, 2, e) == pytest.approx(1 + 0.5 / math.pi**0.5, rel=1e-3)
    assert slowest_rank(eager, 2, e) < slowest_rank(eager, 3, e) < slowest_rank(eager, 1024, e)
    assert slowest_rank(Training(seq_len=1, global_batch=1, framework="megatron"), 64, e) == 1


@given(alike=st.integers(1, 400), size=st.integers(2, 5000), steps=st.integers(1, 2000))
def test_products_of_drawn_sizes_are_new_as_often_as_even_draws_are(alike, size, steps):
    e = flawless(host_new_product_s=1.0, new_products_steps=float(steps))
    draws = alike * steps
    numbers = WIDTH_OF_SIZES * size
    first = numbers * (1 - (1 - 1 / numbers) ** draws)
    assert new_products_s(3.0, alike, size, e) / 3 == pytest.approx(first / draws, rel=1 / size)
    more = replace(e, new_products_steps=2.0 * steps)
    assert new_products_s(3.0, alike, size, more) < new_products_s(3.0, alike, size, e) <= 3


def test_hooks_that_send_buckets_take_the_host_time_in_every_micro_batch_of_zero_2():
    e = flawless(
        host_forward_s=6.0, host_forward_dispatches_per_kernel=2.0, host_unrecorded_frac=0.5, host_launch_s=1.0
    )
    eager = Training(seq_len=1, global_batch=1)
    every = 3 * (BUCKET_OPS * 1.5 + EXCHANGE_LAUNCHES) + 7 * TENSOR_OPS * 1.5
    assert bucketed_s(eager, "zero2", 2, 3, 7, 4, e) == pytest.approx(every)
    assert bucketed_s(eager, "zero1", 2, 3, 7, 4, e) == pytest.approx(every / 4), "in the last one alone"
    summed = 3 * (SUMMED_BUCKET_OPS * 1.5 + EXCHANGE_LAUNCHES) + (7 - 3) * SUMMED_TENSOR_OPS * 1.5
    assert bucketed_s(eager, "ddp", 2, 3, 7, 4, e) == pytest.approx(summed / 4), "DDP in the last one, too"
    assert bucketed_s(eager, "zero2", 1, 3, 7, 4, e) == bucketed_s(eager, "fsdp", 2, 3, 7, 4, e) == 0
    assert bucketed_s(Training(seq_len=1, global_batch=1, framework="megatron"), "zero2", 2, 3, 7, 4, e) == 0


def test_updated_parameters_are_gathered_bucket_by_bucket():
    e = flawless(host_launch_s=1.0)
    eager = Training(seq_len=1, global_batch=1)
    assert gathered_buckets_s(eager, "zero1", 2, 3, e) == pytest.approx(3 * EXCHANGE_LAUNCHES)
    assert gathered_buckets_s(eager, "zero1", 1, 3, e) == gathered_buckets_s(eager, "ddp", 2, 3, e) == 0


def test_each_module_asks_for_its_exchanges_and_zero_3_for_one_less():
    e = flawless(host_fsdp_forward_s=1e3, host_fsdp_backward_s=2e3, host_fsdp_kept_factor=0.5, host_launch_s=1.0)
    eager = Training(seq_len=1, global_batch=1)
    one = EXCHANGE_LAUNCHES
    assert sharded_modules_s(eager, "fsdp", 2, 3, e) == (3 * (1e3 + one), 3 * (2e3 + 2 * one))
    assert sharded_modules_s(eager, "zero3", 2, 3, e) == (3 * (1e3 + one), 3 * (1e3 + one))
    assert sharded_modules_s(eager, "zero3", 1, 3, e) == (0, 0)


def test_gradients_of_split_norms_are_summed_by_each_op_of_adam_or_once_before():
    e = flawless(host_launch_s=1.0)
    eager = Training(seq_len=1, global_batch=1)
    assert summed_norms_s(eager, 2, 1, 5, e) == 5 * SUMS_OF_ADAM * SUMMED_LAUNCHES
    assert summed_norms_s(eager, 2, 4, 5, e) == 5 * SUMMED_LAUNCHES
    assert summed_norms_s(eager, 1, 1, 5, e) == 0
    assert summed_norms_s(Training(seq_len=1, global_batch=1, framework="megatron"), 2, 1, 5, e) == 0


def test_a_host_sends_rows_to_other_ranks_experts():
    e = flawless(host_forward_s=6.0, host_forward_dispatches_per_kernel=2.0)
    eager = Training(seq_len=1, global_batch=1)
    assert (sent_s(eager, 2, 5.0, e), sent_s(eager, 1, 5.0, e)) == (5 * 3.0, 0)
    assert sent_s(Training(seq_len=1, global_batch=1, framework="megatron"), 2, 5.0, e) == 0


def test_put_off_weight_gradients_start_autograd_for_each_product():
    e = flawless(host_put_off_s=2.0)
    eager = Training(seq_len=1, global_batch=1)
    assert put_off_products_s(eager, "zero-bubble", 7, e) == put_off_products_s(eager, "zero-bubble-v", 7, e) == 14
    assert put_off_products_s(eager, "1f1b", 7, e) == 0
    assert put_off_products_s(Training(seq_len=1, global_batch=1, framework="megatron"), "zero-bubble", 7, e) == 0


def test_the_spread_between_ranks_is_what_the_forwards_of_two_ranks_of_one_host_differ_by():
    """Forwards of DDP wait for nobody: where the host paces them, two ranks' differ as their hosts do, step by step."""
    found = {}
    for folder in ("h100_scripts", "h200_scripts/two"):
        for path in sorted((REFERENCE / folder).glob("*ddp*.json")):
            one = json.loads(path.read_text(encoding="utf-8"))
            if one["phases_s"]["host_wait"] < 0.06 * statistics.median(one["steps_s"]):
                continue
            pairs = zip(
                *([math.log(step["forward"]) for step in rank] for rank in one["samples"]["ranks"]), strict=True
            )
            found[path.stem] = math.sqrt(statistics.fmean(statistics.variance(pair) for pair in pairs))
    assert len(found) == 8
    known = efficiencies("default").ranges["host_spread"]
    assert math.sqrt(statistics.fmean(one**2 for one in found.values())) == pytest.approx(known.value, rel=0.05)
    assert sorted(found.values())[-1] == pytest.approx(known.high, rel=0.05)
    assert sum(known.low < one < known.high + 0.01 for one in found.values()) == 7


def test_what_checkpointing_takes_the_host_is_as_measured():
    """Small models of 6 and 18 blocks in turns on an H100 host (benchmarks/checkpointed.py)."""
    rows = json.loads((REFERENCE / "h100_checkpointed.json").read_text(encoding="utf-8"))
    e, off = efficiencies("h100-sxm"), []
    for row in rows:
        if row["recompute"] == "none":
            plain = row
            continue
        works = [_block(row, how) for how in ("none", row["recompute"])]
        ops = works[0].launches["forward"] + works[0].views["forward"]
        # A block's own ops say how fast the host was
        host = replace(e, host_forward_s=plain["forward_s"] / ops * e.host_forward_dispatches_per_kernel)
        redone = works[1].launches["recomputed"], works[1].views["recomputed"]
        again_s = sum(redone) * plain["forward_s"] / ops
        found = running_again_s(Training(seq_len=64, global_batch=2), works[1].regions, works[1].packed, *redone, host)
        measured_s = sum(row[name] - plain[name] for name in ("forward_s", "backward_s"))
        off.append(math.log((sum(found) + again_s) / measured_s))
    assert len(off) == 16
    assert abs(statistics.median(off)) < 0.1
    assert statistics.fmean(abs(one) for one in off) < 0.25, "without hooks and regions 0.9"


def test_reentrant_regions_pack_nothing_and_forward_does_not_record_them():
    host = flawless(host_forward_s=2.0, host_forward_dispatches_per_kernel=2.0, host_unrecorded_frac=0.75,
                    host_region_ops=30.0, host_region_backward_ops=40.0, host_packed_ops=1.0,
                    host_packed_backward_ops=3.0)  # fmt: skip

    def found(framework: str) -> tuple[float, float]:
        training = Training(seq_len=1, global_batch=1, framework=framework)
        return running_again_s(training, 5.0, 70.0, 100.0, 60.0, host)

    assert found("pytorch-eager") == (5 * 30 + 70, 5 * 40 + 3 * 70)
    for framework in ("pytorch-1.10", "transformers", "trainer", "trainer-2022"):
        assert found(framework) == (5 * 30 - (100 + 60) * 0.25, 5 * 40)
    assert found("pytorch-compile") == found("megatron") == (0, 0)


def _block(row: dict[str, Any], recompute: str) -> Work:
    one = scenario(
        {"layers": 1, "hidden": 256, "heads": 4, "ffn": 512, "vocab": 512, **KINDS[row["kind"]]},
        plan={"micro_batch": 2, "recompute": recompute},
        seq_len=64, precision=row["precision"], attention=row["attention"],
    )  # fmt: skip
    return work_of(network(rank_sizes(one)).blocks[0].ops, one.cluster.chip, E)
