"""Power: the clock at which a chip draws what it may."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.cost.device_time import at_clock
from estimator.cost.efficiency import efficiencies, efficiencies_for, ideal, under_power_limit
from estimator.cost.power import LEAST, clock_frac
from estimator.cost.price import Priced, price
from estimator.cost.slowest_chip import of_slowest
from estimator.operations.aten import kernels_of
from estimator.operations.op import Op, gemm, kernels
from estimator.scenario.catalog import chip
from estimator.scenario.hardware import Chip
from estimator.scenario.op_list import Operand, Signature

E = efficiencies("hopper")
CHIP = chip("h200-sxm")
DTYPES = {"bf16": "bfloat16", "tf32": "float32", "fp32": "float32"}
OF_SCORES = ("scores", "values", "softmax", "core")
LOOPS = [
    (key, loop)
    for key in ("h100", "h200")
    for loop in json.loads((Path(__file__).parents[2] / "reference" / f"{key}_power.json").read_text())["loops"]
    if not any(word in loop["name"] for word in OF_SCORES)
]


def product(n: int, precision: str = "bf16", depth: int = 0) -> Priced:
    made = gemm("p", "block", "forward", m=n, n=n, k=depth or n, element_bytes=2.0, precision=precision)
    return price(made, CHIP, E)


def stream(elements: float) -> Priced:
    return price(kernels("s", "block", "forward", elements=elements, stream=6.0), CHIP, E)


def test_products_alone_draw_more_than_a_chip_may_and_plain_kernels_less():
    assert 0.7 < clock_frac([(product(8192), 1.0)], CHIP, E) < 0.8
    assert clock_frac([(stream(1e9), 1.0)], CHIP, E) == 1.0
    assert clock_frac([(product(256), 1.0)], CHIP, E) == 1.0, "too small to fill the chip"
    assert clock_frac([(product(8192, "fp32"), 1.0)], CHIP, E) > clock_frac([(product(8192), 1.0)], CHIP, E)


def loop_of(name: str, chip: Chip) -> list[Priced]:
    """What one of the measured loops does: a product of 8192 × 4096 × 8192, copies of 1 GiB, GELUs, attention."""
    made = []
    for each, times in re.findall(r"([a-z0-9 ]+?)(?:x(\d))?(?:\+|$)", re.sub(r"\+(\d)(\w+)", r"+\2x\1", name)):
        made += int(times or 1) * [price(ops_of_loop(each), chip, efficiencies_for(chip, None))]
    return made


def ops_of_loop(each: str) -> Op:
    if each in ("copy", "gelu"):
        return kernels(each, "block", "forward", elements=2**29, stream=4.0, gelus=float(each == "gelu"))
    precision, kind, *rest = (*each.split(), "forward")
    element_bytes = 2.0 if precision == "bf16" else 4.0
    if kind == "attention":
        q = Operand(shape=(4, 32, 4096 if precision == "bf16" else 2048, 128), dtype=DTYPES[precision])
        backend = "cudnn" if precision == "bf16" else "efficient"
        back = rest[0] == "backward"
        (op,) = kernels_of(
            Signature(
                op=f"aten::_scaled_dot_product_{backend}_attention{'_backward' * back}", inputs=(q,) * (3 + back),
                outputs=(q,) * (1 + 2 * back), arguments={"backend": backend, "is_causal": True},
            )
        )  # fmt: skip
        return op
    weight = kind == "weight"
    sizes = {"m": 8192, "n": 4096, "k": 8192} if weight else {"m": 8192, "n": 8192, "k": 4096}
    return gemm("p", "block", "backward" if weight else "forward", element_bytes=element_bytes, precision=precision,
                weight=weight, outer=weight, **sizes)  # fmt: skip


@pytest.mark.parametrize(("key", "loop"), LOOPS, ids=lambda value: value if isinstance(value, str) else value["name"])
def test_loops_last_as_long_at_the_clock_that_their_power_leaves(key, loop):
    on = chip(f"{key}-sxm")
    e, work = efficiencies_for(on, None), loop_of(loop["name"], on)
    clock = float(clock_frac([(one, 1.0) for one in work], on, e))
    lasts_s = sum(float(at_clock(one, clock, e).seconds) for one in work)
    assert lasts_s == pytest.approx(loop["each_s"], rel=0.09)
    # What products of 16 bits and tf32 do alone, or with little beside, is what the limit slows down.
    assert (clock < 0.99) == (loop["clock_mhz"] < 1790) or loop["name"] == "tf32 weight"


def drawn_w(work: list[tuple[Priced, float]], clock: float) -> float:
    rate = E.memory_frac * CHIP.memory_bytes_per_s
    slower = 1.0 + E.clocked_frac * (1.0 / clock - 1.0)
    lasts_s = sum(one.seconds * n * (slower if one.op.kind == "gemm" else 1.0) for one, n in work)
    moved = sum(min(one.op.bytes * n, rate * one.seconds * n) for one, n in work)
    flops = sum(one.op.flops * n for one, n in work if one.op.kind == "gemm")
    return float(E.idle_w + (E.matrix_flop_j * flops * clock**2 + E.byte_j * moved) / lasts_s)


@given(
    often=st.floats(0.1, 50.0),
    depth=st.sampled_from([64, 96, 128, 256, 1024, 8192]),
    beside=st.sampled_from([0.0, 0.1, 1.0]),
)
def test_at_that_clock_it_draws_the_limit_or_the_clock_is_full(often, depth, beside):
    work = [(product(8192, depth=depth), often), (stream(1e9), beside)]
    clock = float(clock_frac(work, CHIP, E))
    assert LEAST <= clock <= 1.0
    if clock < 1.0 - 1e-9:
        assert drawn_w(work, clock) == pytest.approx(E.power_limit_w, rel=1e-6)
    else:
        assert drawn_w(work, 1.0) <= E.power_limit_w * (1 + 1e-6)


def test_products_of_half_the_bits_at_twice_the_rate_draw_as_much():
    narrow, wide = (float(clock_frac([(product(32768, precision), 1.0)], CHIP, E)) for precision in ("fp8", "bf16"))
    assert narrow == pytest.approx(wide, rel=0.02)


def test_work_without_products_keeps_the_full_clock():
    for work in ([], [(stream(1e9), 1.0)], [(product(8192), 0.0)]):
        assert clock_frac(work, CHIP, E) == 1.0


@given(more=st.floats(1.0, 10.0))
def test_more_products_never_quicken_the_clock(more):
    few, many = (clock_frac([(product(8192), n), (stream(1e9), 1.0)], CHIP, E) for n in (1.0, more))
    assert many <= few + 1e-12


def test_plans_at_once_have_the_clocks_that_they_have_one_by_one():
    often = np.array([0.1, 1.0, 20.0])
    found = clock_frac([(product(8192), often), (stream(1e9), 1.0)], CHIP, E)
    assert found == pytest.approx(
        [clock_frac([(product(8192), n), (stream(1e9), 1.0)], CHIP, E) for n in often.tolist()]
    )


def test_nothing_is_known_of_other_chips_limits_and_whole_nodes():
    work = [(product(8192), 1.0)]
    for e in (efficiencies("default"), *map(efficiencies, ("h100", "h20", "gh200")), ideal(E), of_slowest(E, 8, 8)):
        assert clock_frac(work, CHIP, e) == 1.0
    unknown = replace(E, power_limit_w=0.0)
    assumed, own = (of_slowest(e, 4, 4).gemm_matrix_frac for e in (unknown, E))
    assert assumed == pytest.approx(own * (1 - (1 - E.whole_node_factor) * 3 / 7)), "its own clock slows it"


@pytest.mark.parametrize("name", ["h100-pcie", "h100-nvl", "h20", "gh200"])
def test_no_chip_that_may_draw_less_or_more_has_the_law_of_700_w(name):
    assert efficiencies(chip(name).efficiency).power_limit_w == 0


@given(work=st.tuples(st.floats(0.0, 50.0), st.floats(0.0, 1.0)), limits=st.tuples(*[st.floats(0.3, 1.0)] * 2))
def test_a_lower_limit_never_quickens_products(work, limits):
    def rate(limit: float) -> float:
        e = under_power_limit(E, limit)
        made = [price(gemm("p", "block", "forward", m=8192, n=8192, k=8192, element_bytes=2.0, precision="bf16"),
                      CHIP, e), stream(1e9)]  # fmt: skip
        return float(clock_frac(zip(made, work, strict=True), CHIP, e)) * e.gemm_matrix_frac

    low, high = sorted(limits)
    assert rate(low) <= rate(high) * (1 + 1e-9)
    assert rate(1.0 - 1e-9) == pytest.approx(rate(1.0)), "without a step at the full limit"
