"""How long the host takes for each call of an op list, beside the launch of its kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from estimator.cost.efficiency import NAMES, efficiencies, ideal
from estimator.cost.host import new_products_s
from estimator.estimate.call_times import CORRECTED, WALKED_FIRST, times_of
from estimator.estimate.estimate import Estimate
from estimator.estimate.of_op_list import cluster_for, estimate_op_list
from estimator.estimate.recorded import recorded
from estimator.scenario.op_list import Call, Operand, OpList, Signature, Weight


def test_products_whose_size_the_data_chose_take_the_host_longer_and_the_estimate_says_so():
    rows, weight = Operand(shape=(24, 64), dtype="bfloat16"), Operand(shape=(64, 32), dtype="bfloat16")
    product = Signature(op="aten::mm", inputs=(rows, weight), outputs=(Operand(shape=(24, 32), dtype="bfloat16"),))
    gate = Signature(op="aten::silu", inputs=(rows,), outputs=(rows,))
    e = replace(efficiencies("hopper"), host_new_product_s=1.0)

    def estimated(varies: int) -> Estimate:
        calls = tuple(
            Call(kind="kernel", signature=at, phase="forward", varies=varies) for at in (0, 1, 0, 1, 0)
        )  # fmt: skip
        found = OpList(source="trace", program="p", calls=calls, signatures=(product, gate), chip="h200-sxm")
        return estimate_op_list(found, cluster_for(found), e)

    fixed, drawn = estimated(0), estimated(24)
    assert drawn.step_time_s - fixed.step_time_s == pytest.approx(new_products_s(3.0, 3, 24, e))
    # After many steps no size is new, so that the step may be much shorter
    below = [one.interval_s[0] / one.step_time_s for one in (drawn, fixed)]
    assert below[0] < 0.8 * below[1]
    assert ["1000000 µs to find" in " ".join(one.assumptions) for one in (fixed, drawn)] == [False, True]
    waits = OpList(source="trace", program="p", calls=(Call(kind="sync", varies=24),), signatures=(), chip="h200-sxm")
    assert not any(
        "of the host in this step" in one for one in estimate_op_list(waits, cluster_for(waits), e).assumptions
    )


def test_the_host_enters_compiled_graphs_and_launches_what_a_reducer_copies():
    """Two graphs, whose backwards are as many; a copy below Python is a bare launch."""
    rows = Operand(shape=(8, 8), dtype="bfloat16")
    gate = Signature(op="aten::silu", inputs=(rows,), outputs=(rows,))
    calls = (
        Call(kind="kernel", signature=0, phase="forward", dispatches=2, graphs=2, compiled=True),
        *(Call(kind="kernel", signature=0, phase="backward", dispatches=2, compiled=True) for _ in range(3)),
        Call(kind="kernel", signature=0, phase="backward", dispatches=0),
    )
    found = OpList(source="trace", program="p", calls=calls, signatures=(gate,), chip="h200-sxm")

    def host_s(**constants: float) -> float:
        given = replace(ideal(efficiencies("hopper")), lower_bound=False, **constants)
        priced = recorded(found, cluster_for(found), given, interval=False)
        return float(times_of(priced, given, interval=False).host.sum())

    assert host_s(host_graph_forward_s=1.0) == host_s(host_graph_backward_s=1.0) == pytest.approx(2)
    assert host_s(host_launch_s=1.0) == pytest.approx(1)
    assert host_s(host_backward_s=1.0) == 0, "nothing is left to autograd"


def test_the_host_enters_modules_hands_gradients_over_and_begins_an_optimizer():
    """Of transformers; the same list of lean modules has the ops and the gradients alone."""
    rows = Operand(shape=(8, 8), dtype="bfloat16")
    gate = Signature(op="aten::silu", inputs=(rows,), outputs=(rows,))
    update = Signature(op="aten::_foreach_add_", inputs=(rows,), outputs=(rows,))
    one = ("host_forward_dispatches_per_kernel", "host_library_factor", "host_library_backward_factor")
    e = replace(efficiencies("hopper"), **{name: float(name in one) for name in NAMES if name.startswith("host_")})

    def host_s(versions: dict[str, str], **constants: float) -> float:
        calls = (
            *(Call(kind="kernel", signature=0, phase="forward", module=at, dispatches=2) for at in (0, 1, 2, 0)),
            *(Call(kind="kernel", signature=0, phase="backward", dispatches=5) for _ in range(4)),
            Call(kind="kernel", signature=1, phase="optimizer"),
        )
        weights = tuple(Weight(name=f"w{at}", shape=(8,), dtype="bfloat16", trains=at > 0) for at in range(4))
        modules = ("layers.0.norm", "layers.0.norm.act", "layers.1.norm")
        found = OpList(
            source="trace",
            program="p",
            calls=calls,
            signatures=(gate, update),
            modules=modules,
            weights=weights,
            versions=versions,
            chip="h200-sxm",
        )
        given = replace(e, **constants)
        cluster = cluster_for(found)
        return float(times_of(recorded(found, cluster, given, interval=False), given, interval=False).host.sum())

    library: dict[str, str] = {"transformers": "5"}
    # layers, 0, norm; act; 1, norm; 0, norm
    assert host_s(library, host_forward_s=1.0, host_module_ops=10.0) == pytest.approx(8 + 10 * 8)
    assert host_s({}, host_forward_s=1.0, host_module_ops=10.0) == pytest.approx(8)
    assert host_s(library, host_backward_s=1.0, host_gradient_kernels=10.0) == pytest.approx(4 + 10 * 3)
    assert host_s(library, host_optimizer_s=1.0) == pytest.approx(1)


def test_an_optimizer_walks_over_its_tensors_before_its_first_kernel_and_before_the_roots():
    """Bias corrections go before the roots; an optimizer without them walks at once, and each step walks anew."""
    rows = Operand(shape=(8, 8), dtype="float32")
    names = ("lerp_", "addcmul_", "sqrt", "addcdiv_")
    signatures = tuple(Signature(op=f"aten::_foreach_{name}", inputs=(rows,), outputs=(rows,)) for name in names)
    e = replace(efficiencies("hopper"), **{name: 0.0 for name in NAMES if name.startswith("host_")})
    e = replace(e, host_optimizer_s=1.0)

    def host_s(*order: int) -> list[float]:
        calls = tuple(Call(kind="kernel", signature=at, phase="optimizer") for at in order)
        found = OpList(source="trace", program="p", calls=calls, signatures=signatures, chip="h200-sxm")
        times = times_of(recorded(found, cluster_for(found), e, interval=False), e, interval=False)
        return [float(one) for one in times.host[0]]

    assert host_s(0, 1, 2, 2, 3) == pytest.approx([WALKED_FIRST, 0.0, CORRECTED, 0.0, 0.0])
    assert host_s(0, 1, 3) == pytest.approx([1.0, 0.0, 0.0])


@pytest.mark.parametrize(("again", "share"), [(2, 1.0), (1, 0.75), (0, 0.5)])
def test_a_module_that_fsdp_gathers_takes_the_host_what_its_python_does(again, share):
    """And backward less where it finds what forward has gathered, as a scenario's under ZeRO-3."""
    shard = Operand(shape=(64,), dtype="float32")
    signatures = tuple(
        Signature(op=op, inputs=(shard,), outputs=(shard,)) for op in ("fsdp::all_gather_copy_in", "fsdp::chunk_cat")
    )
    calls = tuple(
        Call(kind="kernel", signature=at, phase=phase)
        for at, phase, often in ((0, "forward", 2), (0, "backward", again), (1, "backward", 2))
        for _ in range(often)
    )
    found = OpList(source="trace", program="p", calls=calls, signatures=signatures, chip="h200-sxm")
    e = replace(efficiencies("hopper"), **{name: 0.0 for name in NAMES if name.startswith("host_")})
    e = replace(e, host_fsdp_forward_s=1.0, host_fsdp_backward_s=2.0, host_fsdp_kept_factor=0.5)
    times = times_of(recorded(found, cluster_for(found), e, interval=False), e, interval=False)
    assert times.host[0].sum() == pytest.approx(2 * 1.0 + 2 * 2.0 * share)


def test_an_optimizer_of_dtensors_has_each_layout_worked_out_anew_for_its_step_size():
    """Once for all tensors of a layout; plain tensors and compiled updates have none."""
    first, second = (Operand(shape=(8, width), dtype="bfloat16") for width in (8, 16))
    signatures = tuple(
        Signature(op=op, inputs=(rows, rows, rows), outputs=(rows,))
        for op, rows in (("aten::addcdiv_", first), ("aten::addcdiv_", second), ("aten::addcmul_", first))
    )
    e = replace(efficiencies("hopper"), **{name: 0.0 for name in NAMES if name.startswith("host_")})
    e = replace(e, host_dtensor_value_s=1.0)

    def host_s(apart: int, *, compiled: bool = False) -> float:
        calls = tuple(
            Call(kind="kernel", signature=at, phase="optimizer", dtensor=apart, compiled=compiled)
            for at in (2, 0, 2, 0, 0, 1)
        )
        found = OpList(source="trace", program="p", calls=calls, signatures=signatures, chip="h100-sxm")
        times = times_of(recorded(found, cluster_for(found), e, interval=False), e, interval=False)
        return float(times.host.sum())

    assert host_s(1) == pytest.approx(2.0)
    assert host_s(0) == host_s(1, compiled=True) == 0
