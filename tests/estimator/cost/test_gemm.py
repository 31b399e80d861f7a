"""Products: whole tiles in whole waves, memory where it binds, never above the reachable rate."""

import math

import pytest

from estimator.cost.efficiency import TABLES, efficiencies, efficiencies_for
from estimator.cost.gemm import gemm_s, grouped_s
from estimator.cost.price import price
from estimator.operations.op import gemm
from estimator.scenario import catalog

E = efficiencies("default")
OVERLAP_POWER = 1.5
MACHINE = {
    "flops_per_s": 1e12, "compute_units": 10.0, "memory_bytes_per_s": 1e30, "start_s": 0.0,
    "tiles": E.gemm_matrix_tiles, "split_factor": 1.5, "split_depth": 1024.0, "fill_depth": 0.0,
    "overlap_power": OVERLAP_POWER,
}  # fmt: skip


def compute_s(m: int, n: int, k: int, *, batch: int = 1, **changes: float) -> float:
    return gemm_s(batch=batch, m=m, n=n, k=k, bytes=0.0, waited_s=0.0, **{**MACHINE, **changes})


def test_tiles_that_fill_the_waves_exactly_reach_the_rate():
    # 10 tiles of 256×128 on 10 units: one wave, nothing wasted.
    assert compute_s(2560, 128, 1024) == pytest.approx(2 * 2560 * 128 * 1024 / 1e12)


def test_the_library_takes_the_tile_that_finishes_first():
    # 11 tiles of 256×128 need two waves, 9 tiles of 320×128 one: the larger tile wins although it covers too much.
    one_wave = 2 * 320 * 128 * 1024 / (1e12 / 10)
    # A start so long that splitting k would not pay.
    assert compute_s(2816, 128, 1024, start_s=1.0) == pytest.approx(1.0 + one_wave)


def test_idle_units_share_k_of_a_product_with_few_tiles():
    # One tile on ten units would take ten times as long as the work itself; split over k it takes half as long again.
    assert compute_s(64, 64, 4096) == pytest.approx(1.5 * 2 * 64 * 64 * 4096 / 1e12)


def test_units_that_share_k_write_their_sums():
    # Four tiles of 256×128 on ten units: of five parts of k each unit takes two.
    shared = 2 * 2 * 256 * 128 * (8192 / 5) / (1e12 / 10)
    assert compute_s(1024, 128, 8192, split_factor=9.0) == pytest.approx(shared)
    slow = compute_s(1024, 128, 8192, split_factor=9.0, memory_bytes_per_s=1e9)
    assert shared < slow <= 2 * shared, "with slow memory the sums cost more than what is shared"
    assert compute_s(1024, 128, 8192, split_factor=9.0, split_depth=8192.0) > shared


@pytest.mark.parametrize(("m", "n", "k", "us"), [
    (768, 3072, 24576, 146.4), (2304, 768, 24576, 127.4), (768, 768, 24576, 43.0), (768, 3072, 8192, 53.3),
    (768, 768, 8192, 20.8), (1024, 4096, 16384, 170.6), (3072, 1024, 8192, 66.4), (896, 4864, 4096, 49.5),
])  # fmt: skip
def test_gradients_of_narrow_weights_as_steps_of_an_h200_have_them(m, n, k, us):
    """Kernels of nanoGPT's and the Trainer's steps (splitK, 128×160, 96×64), where the clock is a twentieth higher."""
    chip = catalog.chip("h200-sxm")
    op = gemm("", "", "backward", m=m, n=n, k=k, element_bytes=2.0, precision="bf16", weight=True, outer=True)
    assert price(op, chip, efficiencies_for(chip, None)).seconds * 1e6 == pytest.approx(us, rel=0.16)


def test_large_products_lose_less_to_the_last_wave():
    def share(size: int) -> float:
        return 2 * size**3 / 1e12 / compute_s(size, size, size, compute_units=132.0)

    assert share(8192) > 0.95
    assert share(512) < share(8192)


def test_a_batch_is_as_many_tiles():
    assert compute_s(256, 128, 1024, batch=10) == compute_s(2560, 128, 1024)


@pytest.mark.parametrize("shape", [(64, 64, 64), (4096, 1, 4096), (1, 1, 1), (50257, 768, 4096), (300, 300, 300)])
def test_no_shape_beats_the_rate(shape):
    m, n, k = shape
    assert compute_s(m, n, k) >= 2 * m * n * k / 1e12


def test_the_transposed_product_takes_as_long():
    assert compute_s(3000, 500, 128) == compute_s(500, 3000, 128)


def test_memory_binds_thin_products():
    found = gemm_s(batch=1, m=4096, n=1, k=4096, bytes=1e9, waited_s=0.0, **{**MACHINE, "memory_bytes_per_s": 1e9})
    assert found == pytest.approx(1.0, rel=0.01)


def test_compute_and_memory_overlap_in_part():
    # Equal parts of 1 s: between their maximum and their sum.
    machine = {**MACHINE, "flops_per_s": 2 * 2560 * 128 * 1024.0, "memory_bytes_per_s": 1.0}
    found = gemm_s(batch=1, m=2560, n=128, k=1024, bytes=1.0, waited_s=1.0, **machine)
    assert found == pytest.approx(2 ** (1 / OVERLAP_POWER))
    assert 1 < found < 2


@pytest.mark.parametrize(("m", "n", "k", "us"), [
    (1024, 4096, 14336, 147), (4096, 4096, 14336, 586), (2048, 768, 50304, 213), (8192, 768, 3072, 55),
    (768, 3072, 8192, 55), (4096, 2048, 32000, 646), (14336, 4096, 1024, 164), (4096, 14336, 1024, 166),
    (8192, 6400, 1600, 223), (16384, 4096, 4096, 703), (8192, 8192, 8192, 1382),
])  # fmt: skip
@pytest.mark.parametrize("chip", ["h100-sxm", "h200-sxm"])
def test_operands_are_fetched_while_the_units_multiply(chip, m, n, k, us):
    """Products alone, medians of probes of three H100 and three H200: the same times, whatever their memory's rate."""
    one = gemm("", "", "forward", m=m, n=n, k=k, element_bytes=2.0, precision="bf16")
    at = catalog.chip(chip)
    assert price(one, at, efficiencies_for(at, None)).seconds * 1e6 == pytest.approx(us, rel=0.08)


def test_a_start_is_paid_once():
    assert compute_s(2560, 128, 1024, start_s=5e-6) - compute_s(2560, 128, 1024) == pytest.approx(5e-6)


def test_no_tile_is_rated_above_the_best():
    assert all(max(rate for *_, rate in getattr(E, name).tiles) == 1.0 for name in TABLES)


GROUPED = {"waited_bytes": 0.0, "bytes": 0.0, "flops_per_s": 132e12, "compute_units": 132.0, "memory_bytes_per_s": 1e12,
           "start_s": 0.0, "overlap_power": OVERLAP_POWER}  # fmt: skip


def test_groups_end_anywhere_in_a_tile_and_every_tile_takes_its_time():
    # 32 groups of 4.5 tiles of rows, two of columns: 288 tiles on 132 units are three each.
    found = grouped_s(groups=32.0, m=512.0, n=512.0, k=1024.0, parts_rows=True, tile_s=1e-6, switch_s=0.0, **GROUPED)
    assert found == pytest.approx(3 * (2 * 128 * 256 * 1024 / 1e12 + 1e-6))
    # Gradients of weights part what is summed over: 256 tiles are two each.
    found = grouped_s(groups=32.0, m=512.0, n=512.0, k=1024.0, parts_rows=False, tile_s=0.0, switch_s=0.0, **GROUPED)
    assert found == pytest.approx(2 * 2 * 128 * 256 * 1024 / 1e12)
    bound = grouped_s(
        groups=32.0, m=8.0, n=512.0, k=64.0, parts_rows=True, tile_s=0.0, switch_s=0.0, **GROUPED | {"bytes": 1e9}
    )
    assert bound == 1e9 / 1e12


@pytest.mark.parametrize(("m", "tiles_of_group"), [(512.0, 9), (16384.0, 257)])
def test_a_unit_that_goes_on_to_another_group_finds_its_operands_anew(m, tiles_of_group):
    def seconds(switch_s):
        return grouped_s(groups=32.0, m=m, n=512.0, k=1024.0, parts_rows=True, tile_s=0.0, switch_s=switch_s, **GROUPED)

    waves = math.ceil(32 * tiles_of_group / 132)
    # A group of fewer tiles than units is another at every tile of a unit, one of 257 at 132 of them.
    assert seconds(1e-6) - seconds(0.0) == pytest.approx(waves * 1e-6 * min(132 / tiles_of_group, 1))


# Both products of a layer's experts forward, of their inputs' gradients and of their weights', each in one kernel: the
# longest of the three first (tests/reference/h100_programs, h200_programs; seconds of a step over its layers).
MEASURED = [
    ("h100-sxm", 8, 5120, 1664, 4736, (2.926e-3, 2.787e-3, 2.680e-3)),
    ("h100-sxm", 8, 1536, 1408, 4096, (6.666e-4, 6.350e-4, 6.326e-4)),
    ("h200-sxm", 8, 2048, 2048, 4096, (1.157e-3, 1.139e-3, 1.134e-3)),
    ("h200-sxm", 32, 1024, 2048, 1024, (6.953e-4, 6.446e-4, 6.375e-4)),
    ("h200-sxm", 16, 2048, 1536, 1280, (5.777e-4, 5.768e-4, 5.731e-4)),
    ("h200-sxm", 64, 1024, 2048, 768, (1.0601e-3, 9.840e-4, 9.716e-4)),
    ("h200-sxm", 8, 1024, 2048, 4096, (6.341e-4, 6.235e-4, 6.186e-4)),
    ("h200-sxm", 8, 1024, 4096, 14336, (4.1387e-3, 4.0523e-3, 4.0179e-3)),
]


@pytest.mark.parametrize(("chip", "experts", "rows", "hidden", "ffn", "measured_s"), MEASURED)
def test_grouped_products_take_what_they_took_in_steps(chip, experts, rows, hidden, ffn, measured_s):
    found = catalog.chip(chip)

    def seconds(m, n, k, weight=False):
        op = gemm("product", "", "forward", m=float(m), n=float(n), k=float(k), batch=float(experts), element_bytes=2,
                  precision="bf16", weight=weight, grouped=True)  # fmt: skip
        return price(op, found, efficiencies(found.efficiency)).seconds

    kernels = [
        seconds(rows, 2 * ffn, hidden) + seconds(rows, hidden, ffn),
        seconds(rows, hidden, 2 * ffn) + seconds(rows, ffn, hidden),
        seconds(2 * ffn, hidden, rows, weight=True) + seconds(hidden, ffn, rows, weight=True),
    ]
    assert sum(kernels) == pytest.approx(sum(measured_s), rel=0.045)


@pytest.mark.parametrize(
    ("chip", "precision", "same"),
    [("h100-sxm", "bf16-amp", False), ("h100-sxm", "fp32", True), ("h100-sxm", "fp8", True)],
)
def test_one_kernel_of_torchs_tiles_is_for_products_of_16_bits(chip, precision, same):
    found = catalog.chip(chip)

    def seconds(grouped: bool) -> float:
        op = gemm("product", "", "forward", m=640.0, n=2048.0, k=1024.0, batch=8.0, element_bytes=2,
                  precision=precision, grouped=grouped)  # fmt: skip
        return price(op, found, efficiencies(found.efficiency)).seconds

    assert (seconds(True) == seconds(False)) == same
