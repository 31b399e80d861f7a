"""The Estimate of an op list: sums, laws, what it says of itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.cost.efficiency import efficiencies, ideal
from estimator.estimate import what_if
from estimator.estimate.call_times import times_of
from estimator.estimate.layout.data_parallel import with_data_parallel
from estimator.estimate.of_op_list import cluster_for, estimate_op_list
from estimator.estimate.op_list_report import PASSES_ONCE
from estimator.estimate.recorded import phases_of, recorded
from estimator.scenario.breakdown import MemoryKind
from estimator.scenario.op_list import Call, Operand, OpList, Signature, Storage
from estimator.scenario.op_rows import loss_rows, rows_are
from estimator.scenario.problems import InputProblems
from tests.estimator.estimate.lists import GPT2, LLAMA, predicted, traced


@pytest.mark.parametrize("found", [LLAMA, GPT2], ids=["llama", "gpt2"])
@pytest.mark.parametrize("chip", ["h200-sxm", "a100-80gb-sxm", "v100-32gb", "mi300x"])
def test_parts_add_to_the_whole(found, chip):
    estimate = predicted(found, chip)
    assert sum(estimate.phases_s.values()) == pytest.approx(estimate.step_time_s)
    assert sum(estimate.breakdown_s.values()) == pytest.approx(estimate.step_time_s)
    assert sum(estimate.memory.by_kind.values()) == pytest.approx(estimate.memory.peak_bytes)
    assert sum(row.seconds for row in estimate.ops) == pytest.approx(sum(one.seconds for one in estimate.modules))
    low, high = estimate.interval_s
    assert 0 < low < estimate.step_time_s < high
    assert max(size for _, size in estimate.memory.curve) == estimate.memory.peak_bytes
    assert estimate.memory.curve == tuple(sorted(estimate.memory.curve, key=lambda point: point[0]))


def test_what_is_known_of_the_program_is_counted():
    estimate = predicted(LLAMA)
    assert estimate.tokens_per_s * estimate.step_time_s == pytest.approx(2 * 1024)
    pictures = replace(LLAMA, calls=tuple(one for one in LLAMA.calls if "embedding" not in LLAMA.of(one).op))
    assert (rows_are(LLAMA), rows_are(pictures)) == ("tokens", "samples")
    # 2·parameters·tokens forward and twice that backward, and the scores: the embedding multiplies nothing.
    tokens, parameters = 2048, 88_085_504 - 32_000 * 1024
    scores = 2 * 3 * 4 * 2 * 16 * 1024**2 * 64
    assert estimate.model_flops == pytest.approx(6 * tokens * parameters + scores, rel=0.002)
    assert estimate.parameters == LLAMA.parameters
    assert any("placeholders" in line for line in estimate.assumptions), "the list's own assumptions are handed on"
    assert "head" in {module.path for module in estimate.modules}
    assert estimate.ops[0].seconds == max(row.seconds for row in estimate.ops)


def test_a_sample_counts_once_whatever_losses_are_taken_over_it():
    at = next(at for at, one in enumerate(LLAMA.calls) if LLAMA.of(one).op.endswith("nll_loss_forward"))
    loss = LLAMA.calls[at]
    pictures = Signature(op="aten::nll_loss2d_forward", inputs=(Operand(shape=(2, 92, 100), dtype="float32"),))
    signatures = tuple(pictures if i == loss.signature else one for i, one in enumerate(LLAMA.signatures))
    kept = [one for one in LLAMA.calls if "embedding" not in LLAMA.of(one).op]
    calls = tuple(one for call in kept for one in ([call] * 6 if call is loss else [call]))
    found = replace(LLAMA, signatures=signatures, calls=calls)
    assert loss_rows(found, phases_of(found)) == 2
    assert loss_rows(LLAMA, phases_of(LLAMA)) == 2048


def test_a_cpu_holds_what_storages_take_and_nothing_back():
    on_cpu, on_gpu = predicted(LLAMA, kind="cpu").memory, predicted(LLAMA).memory
    assert on_cpu.reserved_bytes == on_cpu.peak_bytes < on_gpu.peak_bytes < on_gpu.reserved_bytes


def test_every_call_has_its_seconds():
    every = recorded(LLAMA, cluster_for(LLAMA), efficiencies("hopper"), interval=False)
    seconds = [every.work[at].seconds if at >= 0 else 0.0 for at in every.of_call]
    assert len(seconds) == len(LLAMA.calls)
    assert all((value > 0) == (call.kind == "kernel") for value, call in zip(seconds, LLAMA.calls, strict=True))


def test_a_chip_without_a_unit_says_so_and_multiplies_in_fp32():
    estimate = predicted(LLAMA, "v100-32gb")
    assert [problem.field for problem in estimate.problems] == ["chip"]
    assert "bf16" in estimate.problems[0].message


def test_a_list_that_names_no_chip_needs_one():
    with pytest.raises(InputProblems) as refused:
        cluster_for(replace(LLAMA, chip=""))
    assert refused.value.problems[0].field == "chip"


def test_a_step_that_does_not_fit_is_told():
    (problem,) = predicted(LLAMA, memory_bytes=1e9).problems
    assert problem.field == "memory"
    assert "do not fit into 1 GB" in problem.message


@pytest.mark.parametrize(
    ("op", "elements", "source", "worth"),
    [
        ("mylib::scan", 28, "trace", True),
        ("mylib::scan", 8, "trace", False),
        ("mylib::scan", 28, "profile", False),
        ("triton::scan", 28, "trace", True),
        ("triton::rotary_kernel", 28, "trace", False),  # priced as docs/tracing.md says
    ],
)
def test_an_unknown_op_is_listed_with_its_share(op, elements, source, worth):
    """As a problem where a trace has no better and it matters, else among what is assumed."""
    calls = list(LLAMA.calls)
    place = next(i for i, call in enumerate(calls) if call.kind == "kernel")
    signature = Signature(op=op, inputs=(Operand(shape=(1 << elements,), dtype="float32"),))
    calls[place] = replace(calls[place], signature=len(LLAMA.signatures))
    found = replace(LLAMA, source=source, calls=tuple(calls), signatures=(*LLAMA.signatures, signature))
    estimate = predicted(found)
    problems = [str(one) for one in estimate.problems if one.field == op]
    (line,) = problems + [line for line in estimate.assumptions if op in line]
    assert len(problems) == worth
    assert "% of the step" in line
    assert ("passes once" in line) == (op in PASSES_ONCE)


def test_a_profile_without_storages_says_nothing_of_memory():
    estimate = predicted(replace(LLAMA, storages=()))
    assert estimate.memory.peak_bytes == 0
    assert any("no storages" in line for line in estimate.assumptions)


def test_a_lower_bound_is_below():
    cluster = cluster_for(LLAMA)
    bound = estimate_op_list(LLAMA, cluster, ideal(efficiencies("hopper")))
    assert bound.step_time_s < predicted(LLAMA).step_time_s
    assert bound.interval_s == (bound.step_time_s, bound.step_time_s)


@settings(max_examples=25, deadline=None)
@given(
    changes=st.dictionaries(
        st.sampled_from(("memory_bytes_per_s", "bf16_flops_per_s", "clock_hz", "host_bytes_per_s")), st.floats(1.0, 4.0)
    ),
    found=st.sampled_from([LLAMA, GPT2, with_data_parallel(8)(LLAMA)]),
)
def test_a_better_chip_is_never_slower(changes, found):
    base = cluster_for(found).chip
    better = {name: getattr(base, name) * factor for name, factor in changes.items()}
    assert predicted(found, **better).step_time_s <= predicted(found).step_time_s * (1 + 1e-9)


def test_what_an_op_takes_for_itself_is_held_while_it_runs():
    scores = Operand(shape=(2, 16, 512, 512), dtype="float32")
    signature = Signature(op="aten::_softmax_backward_data", inputs=(scores, scores), outputs=(scores,))
    found = OpList(
        source="trace",
        program="p",
        chip="h200-sxm",
        calls=(Call(kind="kernel", signature=0, phase="backward"),),
        signatures=(signature,),
        storages=(Storage(bytes=1024, kind=MemoryKind.PARAMETERS),),
    )
    assert predicted(found).memory.by_kind["temporaries"] == 4 * 2 * 16 * 512**2


# What if


def test_compiling_fuses_and_passes_over_python():
    before, after = predicted(LLAMA), predicted(what_if.compiled(LLAMA))
    assert after.step_time_s < before.step_time_s
    assert after.breakdown_s["elementwise"] < 0.7 * before.breakdown_s["elementwise"]
    # The same products, whatever is beside them.
    assert after.breakdown_s["matmul"] == pytest.approx(before.breakdown_s["matmul"])
    assert after.memory.peak_bytes <= before.memory.peak_bytes
    assert sum(row.launches for row in after.ops) < sum(row.launches for row in before.ops)
    assert sum(after.breakdown_s.values()) == pytest.approx(after.step_time_s)
    assert any("fused by rule" in line for line in after.assumptions)


def test_narrower_products_are_faster():
    names = ("fp32", "tf32", "bf16", "fp8")
    seconds = [predicted(what_if.with_products_in(name)(LLAMA)).breakdown_s["matmul"] for name in names]
    assert seconds == sorted(seconds, reverse=True)
    blackwell = [replace(what_if.with_products_in(name)(LLAMA), chip="b200") for name in ("fp8", "fp4")]
    wider, narrower = (predicted(one).breakdown_s["matmul"] for one in blackwell)
    assert narrower < wider
    assert predicted(what_if.with_products_in("bf16")(LLAMA)).step_time_s == predicted(LLAMA).step_time_s
    with pytest.raises(InputProblems):
        what_if.with_products_in("int3")


def test_ranks_that_sum_their_gradients_hide_most_of_it():
    alone, many = predicted(LLAMA), predicted(with_data_parallel(8)(LLAMA))
    assert {(one.kind, one.ranks) for one in many.collectives} == {("all-reduce", 8)}
    assert sum(one.bytes * one.count for one in many.collectives) == pytest.approx(2 * 88_085_504, rel=0.01)
    assert 0 < many.phases_s["exposed_communication"] < sum(one.seconds for one in many.collectives)
    assert sum(one.seconds for one in many.modules) == pytest.approx(
        many.step_time_s - many.phases_s["host_wait"], rel=1e-9
    ), "what hides counts to no module"
    assert many.memory.peak_bytes > alone.memory.peak_bytes
    assert many.chips == 8
    eight, alone = (" ".join(one.assumptions) for one in (many, predicted(LLAMA)))
    assert "to power and heat of 8 chips" in eight
    assert "power and heat" not in alone, "as its products reach what one chip alone reaches"
    without = predicted(what_if.without_communication(with_data_parallel(8)(LLAMA)))
    assert without.phases_s["exposed_communication"] == 0
    assert without.step_time_s <= many.step_time_s
    with pytest.raises(InputProblems, match="one rank of 2 already"):
        with_data_parallel(2)(with_data_parallel(2)(LLAMA))


def test_what_other_stages_keep_a_rank_waiting_for_is_said_not_to_be_counted():
    found = traced("llama")
    hidden = Operand(shape=(8, 1024), dtype="bfloat16")
    send = Signature(op="c10d::send", inputs=(hidden,), arguments={"group": 0})
    call = Call(kind="collective", signature=len(found.signatures), phase="forward", stream=0)
    sent = replace(
        found, signatures=(*found.signatures, send), calls=(*found.calls, call), groups=((0, 1),), world_size=2
    )
    said = " ".join(estimate_op_list(sent, cluster_for(sent)).assumptions)
    assert "a pipeline's bubble" in said
    assert "a pipeline's bubble" not in " ".join(predicted(found).assumptions)


def test_what_a_compiler_keeps_out_of_memory_is_a_result_of_its_call_alone():
    """A buffer made just before such a call, as a reducer's buckets are, stays."""
    rows, row = Operand(shape=(1 << 20,), dtype="float32"), Operand(shape=(1,), dtype="float32")
    signatures = (
        Signature(op="aten::exp", inputs=(rows,), outputs=(rows,)),
        Signature(op="aten::sum", inputs=(rows,), outputs=(row,)),
    )
    calls = tuple(Call(kind="kernel", signature=at, phase="forward", compiled=True) for at in range(2))
    result, bucket = Storage(bytes=4 << 20, born=0), Storage(bytes=64 << 20, born=0)

    def peak_bytes(*storages: Storage) -> float:
        found = OpList(source="trace", program="", chip="h200-sxm", signatures=signatures, calls=calls)
        return predicted(replace(found, storages=storages)).memory.by_kind[MemoryKind.TEMPORARIES]

    assert peak_bytes(result) == 0
    assert peak_bytes(result, bucket) == bucket.bytes


@pytest.mark.parametrize("kinds", [("kernel", "collective"), ("collective", "kernel")])
def test_a_collective_from_below_python_costs_the_same_before_a_kernel_and_behind_it(kinds):
    rows = Operand(shape=(8, 8), dtype="bfloat16")
    signatures = (
        Signature(op="aten::mul", inputs=(rows,), outputs=(rows,)),
        Signature(op="c10d::allreduce_", inputs=(rows,), outputs=(rows,), arguments={"group": 0}),
    )
    calls = (
        Call(kind="kernel", signature=0, phase="forward", dispatches=2),
        *(Call(kind=kind, signature=int(kind == "collective"), phase="backward", dispatches=0) for kind in kinds),
    )
    found = OpList(source="trace", program="p", calls=calls, signatures=signatures, chip="h200-sxm", groups=((0, 1),),
                   world_size=2)  # fmt: skip
    e = replace(ideal(efficiencies("hopper")), lower_bound=False, host_launch_s=1.0, host_backward_s=10.0)
    host_s = times_of(recorded(found, cluster_for(found), e, interval=False), e, interval=False).host[0]
    assert dict(zip(kinds, host_s[1:].tolist(), strict=True)) == {"kernel": 1.0, "collective": 10.0}


def test_a_copy_of_pageable_memory_keeps_host_and_device_waiting_and_one_of_pinned_memory_neither():
    images = Operand(shape=(128, 3, 224, 224), dtype="uint8")
    rows = Operand(shape=(4096, 4096), dtype="bfloat16")
    product = Signature(op="aten::mm", inputs=(rows, rows), outputs=(rows,))

    def step_s(awaited: bool, **said: str) -> float:
        sent = Signature(op="aten::_to_copy", outputs=(images,), arguments={"direction": "HtoD", **said})
        copy = Call(kind="kernel", signature=0, stream=1)
        waits = (Call(kind="sync", waits_for=1),) if awaited else ()
        work = (Call(kind="kernel", signature=1, phase="forward"),) * 20
        calls = (Call(kind="sync"), copy, *waits, *work)
        found = OpList(source="trace", program="p", calls=calls, signatures=(sent, product), chip="h200-sxm",
                       streams=("default", "copies"))  # fmt: skip
        return estimate_op_list(found, cluster_for(found)).step_time_s

    pinned_s, pageable_s = step_s(False), step_s(True, host="pageable")
    copied_s = 128 * 3 * 224 * 224 / efficiencies("hopper").host_pageable_bytes_per_s
    assert pageable_s - pinned_s == pytest.approx(copied_s, rel=0.05)
    assert pinned_s < step_s(True) < pageable_s
