"""What-if questions of an op list: one kernel for written-out attention, no communication, and every named change."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from estimator.estimate import expected, what_if
from estimator.estimate.layout.data_parallel import with_data_parallel
from estimator.estimate.layout.lay_out import laying_of
from estimator.estimate.of_op_list import estimate_op_list
from estimator.estimate.recorded import phases_of
from estimator.scenario import catalog
from estimator.scenario.breakdown import MemoryKind, Phase
from estimator.scenario.op_list import Call, Operand, OpList, Signature, Storage
from estimator.scenario.problems import InputProblems
from tests.estimator.estimate.lists import GPT2, LLAMA, predicted
from tests.estimator.examples import cluster

B, H, S, D = 2, 16, 512, 64


def eager_attention(mask: tuple[int, ...] = (S, S)) -> OpList:
    """Forward and backward of attention with its scores in memory, as PyTorch's autograd runs it."""
    q, scores = Operand(shape=(B * H, S, D), dtype="bfloat16"), Operand(shape=(B * H, S, S), dtype="bfloat16")
    four = Operand(shape=(B, H, S, S), dtype="float32")
    made = [
        ("forward", "bmm", (q, q), scores),
        ("forward", "mul", (scores,), scores),
        (
            "forward",
            "add",
            (Operand(shape=(B, H, S, S), dtype="bfloat16"), Operand(shape=mask, dtype="bfloat16")),
            scores,
        ),
        ("forward", "_to_copy", (scores,), four),
        ("forward", "_softmax", (four,), four),
        ("forward", "_to_copy", (four,), scores),
        ("forward", "bmm", (scores, q), q),
        ("backward", "bmm", (scores, q), q),
        ("backward", "bmm", (q, q), scores),
        ("backward", "_to_copy", (scores,), four),
        ("backward", "_softmax_backward_data", (four, four), four),
        ("backward", "_to_copy", (four,), scores),
        ("backward", "mul", (scores,), scores),
        ("backward", "bmm", (q, scores), q),
        ("backward", "bmm", (scores, q), q),
    ]
    signatures = tuple(Signature(op=f"aten::{op}", inputs=given_, outputs=(out,)) for _, op, given_, out in made)
    calls = tuple(Call(kind="kernel", signature=index, phase=phase) for index, (phase, *_) in enumerate(made))
    kept = Storage(bytes=B * H * S * S * 2, born=5, died=9, kind=MemoryKind.ACTIVATIONS)
    return OpList(
        source="trace", program="p", chip="h200-sxm", calls=calls, signatures=signatures, storages=(kept,)
    )  # fmt: skip


def test_scores_and_what_touches_them_are_attention():
    breakdown = predicted(eager_attention()).breakdown_s
    assert breakdown["matmul"] == breakdown["elementwise"] == 0
    assert breakdown["attention"] > 0


def test_eager_attention_becomes_one_kernel_each_way():
    changed = what_if.with_fused_attention(eager_attention())
    assert [changed.of(call).op for call in changed.calls] == [
        "aten::_scaled_dot_product_cudnn_attention",
        "aten::_scaled_dot_product_cudnn_attention_backward",
    ]
    assert [call.phase for call in changed.calls] == ["forward", "backward"]
    assert not changed.storages
    before, after = predicted(eager_attention()), predicted(changed)
    assert after.breakdown_s["attention"] < 0.3 * before.breakdown_s["attention"]
    assert what_if.with_fused_attention(LLAMA) == LLAMA, "nothing to fuse"


def test_written_out_attention_of_a_cpu_becomes_its_own_kernel_and_gains():
    """A layer of 4 heads of 64 over 4 x 256 tokens on one core of an EPYC: 15.1 ms written out, 13.0 fused."""
    q, scores = Operand(shape=(16, 256, 64), dtype="float32"), Operand(shape=(16, 256, 256), dtype="float32")
    across, mask = replace(q, shape=(16, 64, 256)), Operand(shape=(1, 1, 256, 256), dtype="bool")
    square = replace(scores, shape=(4, 4, 256, 256))
    made = [
        ("forward", "bmm", (q, across), scores), ("forward", "div", (square,), square),
        ("forward", "masked_fill", (square, mask), square), ("forward", "_softmax", (square,), square),
        ("forward", "clone", (q,), q), ("forward", "bmm", (scores, q), q),
        ("backward", "bmm", (scores, q), q), ("backward", "bmm", (q, across), scores),
        ("backward", "_softmax_backward_data", (square, square), square),
        ("backward", "masked_fill", (square, mask), square), ("backward", "div", (square,), square),
        ("backward", "bmm", (across, scores), across), ("backward", "bmm", (scores, q), q),
    ]  # fmt: skip
    signatures = tuple(Signature(op=f"aten::{op}", inputs=given_, outputs=(out,)) for _, op, given_, out in made)
    calls = tuple(Call(kind="kernel", signature=index, phase=phase) for index, (phase, *_) in enumerate(made))
    core = {"kind": "cpu", "efficiency": "cpu", "fp32_flops_per_s": 104e9, "memory_bytes_per_s": 21e9,
            "l2_bytes": 2.0**25, "compute_units": 1, "clock_hz": 2.6e9, "name": "cpu"}  # fmt: skip
    cpu = replace(catalog.chip("h200-sxm"), **core)
    found = OpList(source="profile", program="p", chip="cpu", calls=calls, signatures=signatures)
    changed = what_if.with_fused_attention(found)
    kernel = "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert [changed.of(call).op for call in changed.calls] == [kernel, f"{kernel}_backward"]
    before, after = (estimate_op_list(one, replace(cluster(), chip=cpu)) for one in (found, changed))
    assert before.step_time_s == pytest.approx(15.1e-3, rel=0.1)
    assert after.step_time_s == pytest.approx(13.0e-3, rel=0.1)
    assert after.step_time_s < before.step_time_s


@pytest.mark.parametrize(
    ("mask", "causal"),
    [((S, S), True), ((B, 1, S, S), True), ((1, H, S, S), False), ((B, 1, 1, S), False)],
    ids=["all", "each sequence", "bias of each head", "keys"],
)
def test_a_fused_kernel_is_causal_where_a_mask_was_both_ways(mask, causal):
    changed = what_if.with_fused_attention(eager_attention(mask))
    assert [changed.of(call).arguments["is_causal"] for call in changed.calls] == [causal, causal]
    assert ("causal" in changed.assumptions[-1]) == causal


def test_calls_that_go_leave_waits_and_storages_in_place():
    calls = (
        Call(kind="kernel", signature=0),
        Call(kind="collective", signature=0, stream=1),
        Call(kind="wait", waits_for=1),
        Call(kind="kernel", signature=0),
    )
    signature = Signature(op="aten::relu", inputs=(Operand(shape=(8,), dtype="float32"),))
    storages = (Storage(bytes=4, born=1, died=2), Storage(bytes=8, born=0, died=3), Storage(bytes=16, born=3))
    found = OpList(
        source="trace",
        program="p",
        calls=calls,
        signatures=(signature,),
        storages=storages,
        streams=("default", "other"),
    )
    changed = what_if.without_communication(found)
    assert [call.kind for call in changed.calls] == ["kernel", "wait", "kernel"]
    assert changed.calls[1].waits_for == 0
    assert changed.storages == (Storage(bytes=8, born=0, died=2), Storage(bytes=16, born=2))


@pytest.mark.parametrize("name", what_if.CHANGES)
def test_every_named_change_leaves_a_list_that_is_priced(name):
    changed = what_if.CHANGES[name].of(GPT2)
    assert predicted(changed).step_time_s > 0
    assert catalog.chip("h200-sxm").name == changed.chip


def unfused(kernel: str) -> OpList:
    """GPT-2's list as AdamW's other kernels update it: over lists of tensors, or over one after another."""
    counts, update = GPT2.calls[-2:]
    inputs = GPT2.of(update).inputs
    many = len(inputs) // 5
    parameters, gradients = inputs[:many], inputs[many : 2 * many]
    both = [(one, grad) for one, grad in zip(parameters, gradients, strict=True)]
    groups = [(parameters, gradients)] if kernel == "foreach" else [((one,), (grad,)) for one, grad in both]
    calls, signatures, storages = list(GPT2.calls[:-2]), list(GPT2.signatures), list(GPT2.storages)
    for own, grads in groups:
        start = len(calls)
        for name, given_, made in (
            ("mul_", own, ()), ("lerp_", own + grads, ()), ("mul_", own, ()), ("addcmul_", own + grads + grads, ()),
            ("sqrt", own, own), ("div_", own, ()), ("add_", own, ()), ("addcdiv_", own + own + own, ()),
        ):  # fmt: skip
            op = f"aten::_foreach_{name}" if kernel == "foreach" else f"aten::{name}"
            calls.append(replace(counts, signature=len(signatures), dispatches=3))
            signatures.append(Signature(op=op, inputs=given_, outputs=made))
        storages += [Storage(bytes=4 * math.prod(one.shape), born=start + 4, died=start + 8) for one in own]
    return replace(GPT2, calls=tuple(calls), signatures=tuple(signatures), storages=tuple(storages))


@pytest.mark.parametrize("kernel", ["foreach", "for-loop"])
def test_a_fused_update_is_what_a_program_with_it_is_traced_to(kernel):
    before = unfused(kernel)
    changed = what_if.with_fused_update(before)
    ops = [[found.of(call).op for call in found.calls] for found in (changed, GPT2)]
    assert ops[0] == ops[1]
    assert [changed.of(call).inputs for call in changed.calls[-2:]] == [
        GPT2.of(call).inputs for call in GPT2.calls[-2:]
    ]
    assert predicted(changed).step_time_s == predicted(GPT2).step_time_s < predicted(before).step_time_s
    assert predicted(changed).memory.peak_bytes == predicted(GPT2).memory.peak_bytes


def test_only_adam_can_be_updated_by_a_fused_kernel():
    before = unfused("foreach")
    assert what_if.with_fused_update(GPT2) == GPT2, "it is fused"
    last = before.of(before.calls[-1])
    other = replace(before, signatures=(*before.signatures[:-1], replace(last, op="aten::_foreach_add_.List")))
    assert what_if.with_fused_update(other) == other, "no second moments"
    largest = [replace(s, op="aten::_foreach_maximum_") if s.op.endswith("_sqrt") else s for s in before.signatures]
    kept = replace(before, signatures=tuple(largest))
    assert what_if.with_fused_update(kept) == kept, "AMSGrad has a list more"


def test_a_vocabulary_is_filled_up_where_its_rows_are_odd():
    words, tokens, hidden = 50_257, 8192, 768
    table = Operand(shape=(words, hidden), dtype="float32")
    narrow, across = (
        Operand(shape=shape, strides=strides, dtype="bfloat16")
        for shape, strides in (((words, hidden), None), ((hidden, words), (1, hidden)))
    )
    x, logits = Operand(shape=(tokens, hidden), dtype="bfloat16"), Operand(shape=(tokens, words), dtype="bfloat16")
    made = [
        ("forward", "embedding", (table, Operand(shape=(tokens,), dtype="int64")), replace(x, dtype="float32")),
        ("forward", "mm", (x, across), logits),
        ("backward", "mm", (logits, narrow), x),
    ]
    signatures = tuple(Signature(op=f"aten::{op}", inputs=given_, outputs=(out,)) for _, op, given_, out in made)
    calls = tuple(Call(kind="kernel", signature=index, phase=phase) for index, (phase, *_) in enumerate(made))
    found = OpList(source="trace", program="p", chip="h100-sxm", calls=calls, signatures=signatures)
    assert "filled-vocabulary" in {one.key for one in expected.what_if(found, ()).offered}
    changed = what_if.with_vocabulary_filled_up(found)
    assert [s.inputs[1].shape for s in changed.signatures[1:]] == [(hidden, 50_304), (50_304, hidden)]
    assert changed.signatures[1].inputs[1].strides == (1, hidden)
    assert changed.assumptions[-1].startswith("Vocabularies are taken filled up (50,257 as 50,304)")
    assert predicted(changed).breakdown_s["matmul"] < 0.5 * predicted(found).breakdown_s["matmul"]
    assert what_if.with_vocabulary_filled_up(changed) is changed, "nothing is left to fill up"


def test_tf32_is_asked_of_fp32_products_and_the_precision_of_products_is_told():
    fp32 = what_if.with_products_in("fp32")(GPT2)
    for found, asked, told in ((fp32, True, "fp32"), (what_if.with_products_in("tf32")(GPT2), False, "tf32")):
        assert ("tf32-products" in {one.key for one in expected.what_if(found, ()).offered}) == asked
        said = predicted(found).assumptions[0]
        assert f"products in {told} reach " in said
        assert f" of the dense {told} peak, contiguous kernels " in said


def test_compiling_gains_nothing_where_a_forward_pass_is_compiled():
    once = what_if.compiled(GPT2)
    calls = tuple(
        replace(call, compiled=call.compiled and phase == Phase.FORWARD)
        for call, phase in zip(once.calls, phases_of(once), strict=True)
    )
    accumulating = replace(once, calls=calls)  # what runs in backward beside the regions is autograd's own
    assert what_if.compiled(accumulating) is accumulating
    for found, asked in ((GPT2, True), (once, False), (accumulating, False)):
        assert ("compile" in {one.key for one in expected.what_if(found, ()).offered}) == asked


def test_a_list_that_is_compiled_in_part_is_asked_for_the_rest_alone():
    once = what_if.compiled(GPT2)
    *_, last = (
        at
        for at, (call, phase) in enumerate(zip(once.calls, phases_of(once), strict=True))
        if phase == Phase.FORWARD and call.compiled and any(math.prod(one.shape) > 1 for one in once.of(call).inputs)
    )
    loss = replace(
        once, calls=tuple(replace(one, compiled=one.compiled and at != last) for at, one in enumerate(once.calls))
    )
    for found, label in ((GPT2, "compiled"), (loss, "the rest compiled, too")):
        assert {one.key: one.label for one in expected.what_if(found, ()).offered}["compile"] == label


def test_what_a_list_can_be_spread_over_is_answered_and_the_rest_has_its_reason():
    asked = expected.what_if(LLAMA, [], laying=laying_of({"dp": 8}))
    assert asked.estimate.step_time_s == predicted(with_data_parallel(8)(LLAMA)).step_time_s
    assert {way.key for way in asked.layouts if not way.reason} == {"dp", "sharding", "tp", "pp"}
    spread = expected.what_if(with_data_parallel(2)(LLAMA), [])
    assert all("trace it" in way.reason for way in spread.layouts)
    with pytest.raises(InputProblems, match=r"plan\.dp: 0 is out of range"):
        laying_of({"dp": 0})


@pytest.mark.usefixtures("catalogue_as_before")
def test_what_if_is_told_beside_the_list_as_it_is_by_the_same_measurement_of_its_chip():
    fast = catalog.chip("h100-sxm")
    slow = replace(fast, memory_bytes_per_s=fast.memory_bytes_per_s / 50)
    found = replace(LLAMA, chip="mine")
    own = []
    for chip in (slow, fast):
        catalog.add(
            "chips", catalog.CatalogEntry(key="mine", label="Mine", value=replace(chip, name="mine"), sources={})
        )
        own.append(predicted(found).step_time_s)
        asked = expected.what_if(found, ["compile"])
        assert asked.before.step_time_s == own[-1] != asked.estimate.step_time_s
        assert expected.what_if(found, []).before.step_time_s == own[-1]
    assert own[0] > own[1]
    assert expected.what_if(replace(found, chip="nobody's"), [], "mine").before is None


def test_a_question_of_a_unit_that_the_chip_lacks_says_so():
    reasons = {
        chip: {one.key: one.reason for one in expected.what_if(LLAMA, [], chip).offered}
        for chip in ("h200-sxm", "b200")
    }
    assert "no matrix unit for fp4" in reasons["h200-sxm"]["fp4-products"]
    assert not reasons["h200-sxm"]["fp8-products"]
    assert not reasons["b200"]["fp4-products"]
    with pytest.raises(InputProblems, match="no matrix unit for fp4"):
        expected.what_if(LLAMA, ["fp4-products"], "h200-sxm")
