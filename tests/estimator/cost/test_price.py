"""Roofline: which rate an op takes, and which roof binds it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from estimator.cost.efficiency import efficiencies
from estimator.cost.price import price, reachable_flops_per_s
from estimator.operations.op import Op, gemm, kernels
from estimator.operations.optimizer import optimizer
from estimator.scenario.breakdown import Category
from estimator.scenario.catalog import chip as chip_named
from estimator.scenario.hardware import Chip
from estimator.scenario.plan import Plan
from estimator.scenario.precision import byte_widths
from estimator.scenario.training import Training
from tests.estimator.examples import CHIP, flawless

REFERENCE = Path(__file__).parents[2] / "reference"
ROUND = Chip(**CHIP)
H100 = chip_named("h100-sxm")
E = flawless(gemm_matrix_frac=0.5, gemm_tf32_frac=0.25, gemm_vector_frac=0.75, gemm_unaligned_frac=0.125)


@pytest.mark.parametrize(("precision", "rate"), [("bf16", 4e12), ("fp16-amp", 4e12), ("tf32", 1e12), ("fp32", 0.75e12)])
def test_each_precision_reaches_its_share_of_its_peak(precision, rate):
    assert reachable_flops_per_s(ROUND, precision, E) == rate


def test_unaligned_products_all_run_at_the_same_slow_rate():
    assert reachable_flops_per_s(ROUND, "bf16", E, fetched=1) == 1e12
    assert reachable_flops_per_s(ROUND, "tf32", E, fetched=1) == 1e12
    # Never faster than aligned.
    slow = replace(E, gemm_tf32_frac=0.1)
    assert reachable_flops_per_s(ROUND, "tf32", slow, fetched=1) == pytest.approx(0.4e12)


def test_vector_products_do_not_care_for_alignment():
    assert reachable_flops_per_s(ROUND, "fp32", E, fetched=1) == 0.75e12


def product(m: int, n: int, k: int) -> Op:
    return gemm("p", "layer", "forward", m=m, n=n, k=k, element_bytes=2.0, precision="bf16")


def test_a_square_product_is_bound_by_compute_and_a_thin_one_by_memory():
    square, thin = price(product(2560, 2560, 2560), ROUND, E), price(product(4096, 1, 4096), ROUND, E)
    assert (square.bound, thin.bound) == ("compute", "memory")
    assert thin.seconds >= product(4096, 1, 4096).bytes / 1e11
    assert square.seconds >= 2 * 2560**3 / 4e12


def test_products_apart_take_as_long_as_each_alone():
    h100 = efficiencies(H100.efficiency)
    shape = {"m": 2048.0, "n": 1536.0, "k": 2048.0, "element_bytes": 2, "precision": "bf16"}
    alone, together, apart = (
        price(gemm("product", "", "forward", **shape, **how), H100, h100)
        for how in ({}, {"batch": 16.0}, {"batch": 16.0, "apart": True})
    )
    assert apart.seconds == pytest.approx(16 * alone.seconds)
    # 96 tiles of 128 x 256 leave 36 of 132 units idle; 1536 fill them eleven times.
    assert apart.seconds > 1.1 * together.seconds
    assert (apart.executed_flops, apart.memory_s) == (together.executed_flops, together.memory_s)


def test_kernels_apart_end_as_often_as_there_are():
    h100 = efficiencies(H100.efficiency)
    together, apart = (
        price(kernels("quantisation", "", "forward", elements=1e8, stream=4, times=times), H100, h100)
        for times in (1.0, 16.0)
    )
    assert apart.seconds - together.seconds == pytest.approx(15 * h100.kernel_tail_s)


@pytest.mark.parametrize(("precision", "starts"), [("bf16", 1.0), ("fp16-amp", 1.0), ("tf32", 2.0), ("fp32", 3.0)])
def test_products_start_as_their_precision_does(precision, starts):
    e = flawless(gemm_start_s=1.0, gemm_tf32_start_s=2.0, gemm_vector_start_s=3.0)
    tiny = replace(product(8, 8, 8), precision=precision)
    assert price(tiny, ROUND, e).seconds == pytest.approx(starts, rel=1e-6)


def streamed(**changes) -> Op:
    given = {"elements": 1e6, "stream": 8.0}
    return kernels("k", "layer", "forward", **{**given, **changes})


def test_streamed_kernels_take_their_bytes_over_the_bandwidth():
    assert price(streamed(), ROUND, flawless(memory_frac=0.5)).seconds == pytest.approx(8e6 / 0.5e11)


def test_slow_kernels_take_elements_not_bytes():
    # 10 units at 1 GHz, half an element per unit and cycle.
    e = flawless(strided_elements_per_unit_cycle=0.5, mixed_elements_per_unit_cycle=0.25)
    assert price(streamed(stream=0.0, strided=2, slow_bytes=10), ROUND, e).seconds == pytest.approx(2e6 / 5e9)
    assert price(streamed(stream=0.0, mixed=1, slow_bytes=10), ROUND, e).seconds == pytest.approx(1e6 / 2.5e9)
    # On memory that is slower than that, bytes limit them as they do all others.
    assert price(streamed(stream=0.0, mixed=1, slow_bytes=100), ROUND, e).seconds == pytest.approx(1e8 / 1e11)


def test_kernels_that_go_over_a_row_again_are_slower_by_their_kind():
    e = flawless(norm_frac=0.5, softmax_frac=0.25)
    bare = price(streamed(stream=8.0), ROUND, e).seconds
    assert price(streamed(stream=8.0, reduced=8.0), ROUND, e).seconds == pytest.approx(2 * bare)
    softmax = streamed(stream=8.0, reduced=4.0, category=Category.ATTENTION)
    assert price(softmax, ROUND, e).seconds == pytest.approx(2.5 * bare)


def test_every_launch_has_a_tail_and_the_optimizers_is_its_own():
    e = flawless(kernel_tail_s=1e-3, optimizer_tail_s=5e-3)
    bare = price(streamed(), ROUND, flawless()).seconds
    assert price(streamed(launches=3), ROUND, e).seconds == pytest.approx(bare + 3e-3)
    assert price(streamed(launches=3, category="optimizer"), ROUND, e).seconds == pytest.approx(bare + 15e-3)
    assert price(streamed(launches=3), ROUND, e).bound == "launch"
    assert price(streamed(), ROUND, flawless()).bound == "memory"


FUSED = Op(
    name="attention", layer="layer", phase="forward", category="attention", kind="attention", batch=4.0, m=1024.0,
    n=1024.0, k=128.0, flops=4.0 * 4 * 1024 * 1024 * 128, bytes=1.0, precision="bf16", efficiency="attention_frac",
)  # fmt: skip


def test_a_causal_kernel_executes_half_of_the_square():
    found = price(FUSED, ROUND, flawless())
    assert found.executed_flops == FUSED.flops / 2
    # Rate 8e12 · 128/(128 + 60), no length effect in flawless efficiencies.
    assert found.seconds == pytest.approx(FUSED.flops / 2 / (8e12 * 128 / 188))


def test_fp32_attention_runs_on_the_vector_units_even_in_tf32():
    vector = price(replace(FUSED, precision="tf32"), ROUND, flawless(attention_vector_frac=0.5))
    assert vector.seconds == pytest.approx(FUSED.flops / 2 / (0.5e12 * 128 / 188))


def test_backward_is_slower_but_a_recomputed_forward_is_not():
    e = flawless(attention_backward_frac=0.5)
    backward = price(replace(FUSED, phase="backward"), ROUND, e)
    again = price(replace(FUSED, phase="backward", recomputed=True), ROUND, e)
    assert backward.seconds == pytest.approx(2 * again.seconds)
    assert again.seconds == pytest.approx(price(FUSED, ROUND, e).seconds)


def test_backward_saturates_later_on_matrix_units_and_no_later_on_vector_units():
    e = flawless(attention_half_length=100.0, attention_backward_half_length=300.0, attention_vector_half_length=200.0)
    ideal = flawless()

    def slower(**changes: str) -> float:
        op = replace(FUSED, m=100.0, **changes)
        return price(op, ROUND, e).seconds / price(op, ROUND, ideal).seconds

    assert slower() == pytest.approx(2)
    assert slower(phase="backward") == pytest.approx(4)
    assert slower(precision="fp32") == slower(precision="fp32", phase="backward") == pytest.approx(3)


CHAINS = json.loads((REFERENCE / "h100_cache_chains.json").read_text())


@pytest.mark.parametrize("mib", [4, 8, 12, 16, 20, 24, 32, 64, 256])
def test_what_the_kernel_before_has_just_written_is_read_from_the_cache(mib):
    # Sums and products with a number on an H100, in chains: how much less than of tensors from long before.
    size = mib * 2**20
    rows = [row for row in CHAINS["rows"] if row["kernel"] in ("add", "scale") and row["tensor_bytes"] == size]
    saved = sum(row["seconds"] * (-1 if row["just_written"] else 1) for row in rows) / 2
    one = kernels("add", "layer", "forward", elements=size / 2, stream=6.0, chained=((2.0, 1.0),))
    cached, bare = (price(one, chip, efficiencies("hopper")).seconds for chip in (H100, replace(H100, l2_bytes=0.0)))
    assert bare - cached == pytest.approx(saved, rel=0.2, abs=5e-7 + 1e-3 * bare)


@pytest.mark.parametrize(("family", "helps"), [("hopper", True), ("cdna3", False), ("mi250", False), ("cpu", False)])
def test_the_cache_helps_where_it_was_measured_alone(family, helps):
    one = kernels("add", "layer", "forward", elements=1e6, stream=6.0, chained=((2.0, 1.0),))
    found, bare = (price(op, H100, efficiencies(family)).seconds for op in (one, replace(one, chained=())))
    assert (found < 0.99 * bare) is helps


UPDATES = REFERENCE / "h200_updates.json"


def test_fused_updates_take_their_waves_of_chunks_and_others_their_bytes():
    chip, e = chip_named("h200-sxm"), efficiencies("hopper")
    off: dict[tuple[str, str], list[float]] = {}
    for kernel, precision, chunks, seconds in json.loads(UPDATES.read_text(encoding="utf-8"))["rows"]:
        training = Training(seq_len=1, global_batch=1, precision=precision, optimizer_kernel=kernel)
        ops = optimizer(training, byte_widths(training, Plan()), chunks * 65536.0, 1.0, multi_tensor=True)
        ratio = sum(price(op, chip, e).seconds for op in ops) / seconds
        if chunks >= 584:
            off.setdefault((kernel, precision), []).append(ratio - 1.0)
    assert {key: max(map(abs, found)) < 0.08 for key, found in off.items()} == dict.fromkeys(off, True)
    # Bytes alone would be a quarter too few in bf16.
    flat = replace(e, optimizer_wave_s=0.0, optimizer_chunk_s=0.0)
    training = Training(seq_len=1, global_batch=1, precision="bf16", optimizer_kernel="fused")
    (op,) = optimizer(training, byte_widths(training, Plan()), 5120 * 65536.0, 1.0, multi_tensor=True)
    assert price(op, chip, flat).seconds < 0.75 * price(op, chip, e).seconds


def test_a_chunk_more_than_a_wave_holds_takes_another_wave():
    chip, e = chip_named("h200-sxm"), efficiencies("hopper")
    training = Training(seq_len=1, global_batch=1, precision="bf16", optimizer_kernel="fused")

    def seconds(chunks: float) -> float:
        (op,) = optimizer(training, byte_widths(training, Plan()), chunks * 65536.0, 1.0, multi_tensor=True)
        return float(price(replace(op, launches=1.0), chip, e).seconds)

    assert seconds(264) - seconds(263) < 1e-6
    assert seconds(265) - seconds(264) == pytest.approx(e.optimizer_chunk_s, rel=0.05)


@pytest.mark.parametrize("chip", ["a100-80gb-sxm", "mi355x", "p4", "t4", "tpu-v5e", "tpu7x"])
def test_a_fused_update_takes_no_longer_than_one_in_many_kernels(chip):
    device = chip_named(chip)

    def seconds(kernel: str) -> float:
        training = Training(seq_len=1, global_batch=1, precision="bf16", optimizer_kernel=kernel)
        ops = optimizer(training, byte_widths(training, Plan()), 1e9, 200.0, multi_tensor=True)
        return float(sum(price(op, device, efficiencies(device.efficiency)).seconds for op in ops))

    assert seconds("fused") < seconds("foreach")
