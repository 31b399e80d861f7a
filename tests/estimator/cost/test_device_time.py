"""Work: every op is priced once, in the direction and component it belongs to."""

from dataclasses import replace

import pytest

from estimator.cost.device_time import COMPONENTS, DIRECTIONS, at_clock, attention_s, in_steps, slower, work_of
from estimator.cost.efficiency import efficiencies
from estimator.cost.price import price
from estimator.operations.op import Op, again, gemm, kernels
from estimator.operations.rank_sizes import rank_sizes
from estimator.operations.transformer import network
from estimator.scenario.catalog import chip
from tests.estimator.examples import GPT, LLAMA, MIXTRAL, cluster, flawless, scenario

E = flawless()
HOPPER = efficiencies("hopper")
CHIP = cluster().chip


def product(phase: str, **rest) -> Op:
    return gemm("x", "layer", phase, m=64, n=64, k=64, element_bytes=2, precision="bf16", **rest)


def kernel(phase: str, **rest) -> Op:
    return kernels("x", "layer", phase, elements=1e6, stream=4.0, **rest)


@pytest.mark.parametrize(
    ("op", "direction", "component", "launched"),
    [
        (product("forward"), "forward", ("matmul", "gemm"), "forward"),
        (product("backward"), "input", ("matmul", "gemm"), "input"),
        (product("backward", weight=True), "weight", ("matmul", "gemm"), "weight"),
        (product("forward", category="attention"), "forward", ("attention", "gemm"), "forward"),
        (kernel("forward", category="attention"), "forward", ("attention", "kernels"), "forward"),
        (kernel("backward"), "input", ("elementwise", "kernels"), "input"),
        (again(kernel("forward")), "input", ("elementwise", "kernels"), "recomputed"),
    ],
)
def test_an_op_has_one_place(op, direction, component, launched):
    found = work_of([op], CHIP, E)
    seconds = {(d, c): s for d in DIRECTIONS for c, s in zip(COMPONENTS, found.seconds[d], strict=True) if s > 0}
    assert seconds == {(direction, component): price(op, CHIP, E).seconds * op.count}
    assert {name: n for name, n in found.launches.items() if n} == {launched: op.launches * op.count}


@pytest.mark.parametrize("model", [LLAMA, GPT, MIXTRAL])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_nothing_is_lost(model, attention):
    ops = network(rank_sizes(scenario(model, attention=attention, plan={"recompute": "full"}))).blocks[0].ops
    found = work_of(ops, CHIP, E)
    for phase, directions in (("forward", ["forward"]), ("backward", ["input", "weight"])):
        seconds = sum(sum(found.seconds[direction]) for direction in directions)
        assert seconds == pytest.approx(sum(price(op, CHIP, E).seconds * op.count for op in ops if op.phase == phase))
    assert sum(found.launches.values()) == sum(op.launches * op.count for op in ops)


def test_products_that_are_run_again_are_counted_apart():
    made = product("forward")
    found = work_of([made, again(made), product("backward")], CHIP, E)
    assert (found.products, found.products_again) == (made.count, made.count)


def test_half_of_a_products_backward_is_for_the_weights():
    ops = network(rank_sizes(scenario(LLAMA, seq_len=4096))).blocks[0].ops
    flops = {
        weight: sum(op.flops * op.count for op in ops if op.kind == "gemm" and op.phase == "backward"
                    and op.weight == weight) for weight in (False, True)
    }  # fmt: skip
    assert flops[True] == flops[False] > 0


@pytest.mark.parametrize(
    ("rest", "follows"),
    [
        ({}, False),
        ({"strided": 1.0, "slow_bytes": 2.0}, True),
        ({"gelus": 50.0}, True),
        ({"gelus": 50.0, "walked": 500.0, "walkers": 1.0}, False),
        ({"strided": 1.0, "slow_bytes": 2.0, "walked": 50.0, "walkers": 1.0}, False),
    ],
    ids=["memory", "elements", "computing", "loads of computing", "loads of elements"],
)
def test_kernels_follow_the_clock_as_far_as_units_bind_them(rest, follows):
    one = price(kernel("forward", **rest), chip("h200-sxm"), HOPPER)
    assert (one.units_s > 0) == follows
    assert one.units_s <= one.seconds
    slow = at_clock(one, 0.5, HOPPER)
    assert slow.seconds == pytest.approx(one.seconds + one.units_s * slower(0.5, HOPPER) - one.units_s)
    assert slower(0.5, HOPPER) == 1.5


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_attentions_core_is_what_a_ring_hides_behind(attention):
    ops = network(rank_sizes(scenario(LLAMA, attention=attention))).blocks[0].ops
    found = attention_s(work_of(ops, CHIP, E))
    for phase in ("forward", "backward"):
        core = [op for op in ops if op.category == "attention" and op.phase == phase]
        assert core
        assert found[phase] == pytest.approx(sum(price(op, CHIP, E).seconds * op.count for op in core))


def test_products_are_faster_inside_steps_than_alone():
    e = flawless(gemm_in_step_factor=1.1)
    full = work_of([product("forward"), product("backward", weight=True)], CHIP, e)
    beside = work_of([kernel("forward")], CHIP, e)
    faster, same = in_steps([full, beside], e)
    for direction, before, after in zip(("forward", "weight"), full.priced, faster.priced, strict=True):
        assert faster.seconds[direction][0] == pytest.approx(after.seconds)
        assert before.seconds / 1.1 <= after.seconds < before.seconds
    # As far as the units bind it, and not memory
    (one, _) = full.priced
    assert at_clock(one, 0.9, replace(e, clocked_frac=1.0)).seconds == pytest.approx(one.seconds / 0.9 / 1.1)
    thin = gemm("p", "layer", "forward", m=16, n=8192, k=8192, element_bytes=2.0, precision="bf16")
    read = price(thin, chip("h200-sxm"), HOPPER)
    assert at_clock(read, 0.5, HOPPER) is read
    assert same == beside
    assert in_steps([full], E) == [full]
