"""What a traced step says: the kernels of a GPU, with phases, modules, memory and streams."""

import json
from collections import Counter
from pathlib import Path

import pytest
import torch

from estimator.operations.aten import kernels_of
from estimator.scenario.breakdown import MemoryKind
from estimator.scenario.op_list import OpList, from_json
from tests.runners.program.conftest import PROGRAMS

OPS = Path(__file__).parents[2] / "reference" / "ops"


def ops(found, **wanted):
    return [
        found.of(call).op.removeprefix("aten::")
        for call in found.calls
        if call.kind == "kernel" and all(getattr(call, name) == value for name, value in wanted.items())
    ]


def bytes_of(found, kind):
    """Bytes of a kind that are there when the step ends."""
    return sum(one.bytes for one in found.storages if one.kind == kind and one.died == -1)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_reference_lists_are_what_their_programs_give(traced, name):
    found = traced(OPS / f"{name}.py", "--chip", "h200-sxm")
    kept = from_json(json.loads((OPS / f"{name}.json").read_text()))
    assert (found.calls, found.signatures, found.storages) == (kept.calls, kept.signatures, kept.storages)
    assert (found.parameters, found.modules, found.chip) == (kept.parameters, kept.modules, "h200-sxm")


def test_products_and_attention_of_a_bf16_step(traced):
    found = traced(OPS / "llama.py", "--chip", "h200-sxm")
    forward, backward = Counter(ops(found, phase="forward")), Counter(ops(found, phase="backward"))
    assert (forward["mm"], backward["mm"]) == (2 * 7 + 1, 2 * (2 * 7 + 1))
    assert forward["_scaled_dot_product_cudnn_attention"] == 2
    assert backward["_scaled_dot_product_cudnn_attention_backward"] == 2
    assert backward["silu_backward"] == 2
    attention = next(s for s in found.signatures if s.op == "aten::_scaled_dot_product_cudnn_attention")
    assert attention.arguments == {"backend": "cudnn", "is_causal": True, "mask": False, "dropout": 0.0}
    assert [o.shape for o in attention.inputs] == [(2, 16, 1024, 64), (2, 4, 1024, 64), (2, 4, 1024, 64)]
    of_optimizer = ops(found, phase="optimizer")
    assert of_optimizer[0] == "_foreach_mul_.Scalar"
    assert "_foreach_addcdiv_.ScalarList" in of_optimizer


def test_memory_of_a_step_is_weights_gradients_and_two_moments(traced):
    found = traced(OPS / "llama.py", "--chip", "h200-sxm")
    weights = 2 * found.parameters
    assert bytes_of(found, MemoryKind.PARAMETERS) == weights
    assert bytes_of(found, MemoryKind.GRADIENTS) == weights
    assert bytes_of(found, MemoryKind.OPTIMIZER) == 2 * weights
    last = len(found.calls)
    for one in found.storages:
        assert one.died == -1 or -1 <= one.born < one.died <= last


def test_an_op_of_the_backward_belongs_to_its_forwards_module(traced):
    found = traced(OPS / "llama.py", "--chip", "h200-sxm")
    modules = {
        phase: Counter(
            found.modules[call.module]
            for call in found.calls
            if call.phase == phase and found.of(call).op == "aten::mm"
        )
        for phase in ("forward", "backward")
    }
    assert set(modules["forward"]) == set(modules["backward"])
    assert modules["backward"] == {name: 2 * count for name, count in modules["forward"].items()}


def test_autocast_casts_each_weight_once_and_fuses_the_optimizer(traced):
    found = traced(OPS / "gpt2.py", "--chip", "h200-sxm")
    casts = [
        found.of(call)
        for call in found.calls
        if call.phase == "forward" and found.of(call).op == "aten::_to_copy" and found.of(call).inputs
    ]
    weights = Counter(
        s.inputs[0].shape for s in casts if len(s.inputs[0].shape) == 2 and s.inputs[0].dtype == "float32"
    )
    assert weights[(50304, 768)] == 1
    assert weights[(2304, 768)] == 2
    assert ops(found, phase="optimizer").count("_fused_adamw_") == 1
    assert "native_dropout" in ops(found)
    assert found.of(next(c for c in found.calls if c.kind == "kernel")).arguments.get("direction") in ("HtoD", None)


@pytest.mark.parametrize(("workers", "own"), [("0", True), ("2", False)])
def test_what_workers_load_costs_the_program_s_own_process_nothing(traced, workers, own):
    found = traced(PROGRAMS / "loads.py", "--", workers)
    assert (max(call.dispatches for call in found.calls) > 100 * 16) == own
    assert any("data loader" in text for text in found.assumptions)


def test_what_autograd_gives_a_compiled_graph_lives_as_long_as_the_graph_runs(traced):
    found = traced(PROGRAMS / "loads.py", "--", "2")
    zeros = next(at for at, call in enumerate(found.calls) if found.of(call).op == "aten::zeros")
    last = max(at for at, call in enumerate(found.calls) if call.phase == "backward" and call.kind == "kernel")
    (held,) = [one for one in found.storages if one.born == zeros]
    assert held.bytes == 16 * 512 * 4
    assert zeros < last < held.died


def test_recomputation_is_marked_and_the_scaler_lets_the_optimizer_step(traced):
    found = traced(PROGRAMS / "checkpointed.py")
    again = ops(found, recomputed=True)
    assert again.count("addmm") == 4 - 2  # the last product's result is nobody's: recomputation stops before it
    assert {call.phase for call in found.calls if call.recomputed} == {"backward"}
    assert "_amp_foreach_non_finite_check_and_unscale_" in ops(found)
    assert ops(found, phase="optimizer") != []
    assert any(call.kind == "sync" for call in found.calls)
    (said,) = [text for text in found.assumptions if "placeholders" in text]
    lines = (PROGRAMS / "checkpointed.py").read_text().splitlines()
    item, written = (next(at for at, text in enumerate(lines, 1) if one in text) for one in (".item()", "{loss:.1f}"))
    assert said.endswith(f"; it reads them in checkpointed.py, lines {item}, {written}"), "the program's, not torch's"


def test_ddp_reduces_its_buckets_beside_the_backward(traced):
    found = traced(PROGRAMS / "parallel.py", "--world-size", "16", "--rank", "9", "--", "ddp")
    exchanges = [call for call in found.calls if call.kind == "collective"]
    sizes = [found.of(call).inputs[0].shape[0] for call in exchanges]
    assert sum(sizes) == found.parameters
    assert len(sizes) == 2  # the last layers fill the first bucket, of 1 MiB; the rest stays below 25 MiB
    assert sizes[0] == 16 * 1025 + 1024 * 1025
    assert {found.streams[call.stream] for call in exchanges} == {"collectives of group 0"}
    assert found.groups == (tuple(range(16)),)
    waits = [call for call in found.calls if call.kind == "wait" and call.stream == 0]
    assert [found.calls[call.waits_for] for call in waits] == exchanges
    assert found.rank == 9
    assert found.follows_on, "nothing in its loop waits for the device"


def test_fsdp_gathers_ahead_on_streams_of_its_own(traced):
    found = traced(PROGRAMS / "parallel.py", "--world-size", "16", "--rank", "9", "--", "fsdp")
    names = Counter(found.of(call).op for call in found.calls if call.kind == "collective")
    assert names == {"c10d::_allgather_base_": 3 + 2, "c10d::_reduce_scatter_base_": 3}
    assert all(call.stream for call in found.calls if call.kind == "collective")
    assert found.parameters == 2 * 1024 * 1025 + 16 * 1025
    assert bytes_of(found, MemoryKind.PARAMETERS) == 4 * found.parameters // 16


def test_a_program_that_starts_its_ranks_is_traced_as_one_of_them(traced):
    found = traced(PROGRAMS / "spawns.py", "--rank", "1", "--world-size", "2", "--", "4")
    assert (found.world_size, found.rank) == (4, 1)
    (exchange,) = [found.of(call) for call in found.calls if call.kind == "collective"]
    assert exchange.inputs[0].shape == (16 * 17,)
    assert found.groups == ((0, 1, 2, 3),)


@pytest.mark.parametrize("more", [(), ("original",)])
def test_flat_parameters_are_gathered_as_torchs_own_fsdp_does(traced, more):
    """Its notes: a unit is gathered before forward and backward, the root once; one reduce-scatter each."""
    found = traced(PROGRAMS / "parallel.py", "--world-size", "16", "--rank", "9", "--", "flat", *more)
    exchanges = [found.of(call) for call in found.calls if call.kind == "collective"]
    names = Counter(one.op for one in exchanges)
    assert names == {"c10d::_allgather_base_": 3 + 2, "c10d::_reduce_scatter_base_": 3}
    own = [1024 * 1025 // 16] * 2 + [16 * 1025 // 16]
    gathered = [one.inputs[0].shape[0] for one in exchanges if "allgather" in one.op]
    assert sorted(gathered, reverse=True) == sorted([*own, *own[:2]], reverse=True)
    assert {one.inputs[0].dtype for one in exchanges} == {"bfloat16"}
    assert all(call.stream for call in found.calls if call.kind == "collective")
    assert found.parameters == 2 * 1024 * 1025 + 16 * 1025
    assert bytes_of(found, MemoryKind.PARAMETERS) == 4 * found.parameters // 16


def test_tensor_parallel_halves_meet_in_an_all_reduce(traced):
    found = traced(PROGRAMS / "parallel.py", "--world-size", "8", "--rank", "5", "--", "tensor")
    exchanges = [call for call in found.calls if call.kind == "collective"]
    assert [found.of(call).op for call in exchanges] == ["_c10d_functional::all_reduce"] * len(exchanges) != []
    assert found.groups[-1] == (4, 5, 6, 7)
    products = {s.outputs[0].shape for s in found.signatures if s.op == "aten::addmm"}
    assert (8, 256) in products
    waits = {call.waits_for for call in found.calls if call.kind == "wait" and call.stream == 0}
    assert waits == {found.calls.index(call) for call in exchanges}


def test_a_split_loss_has_the_products_of_its_rank_alone(traced):
    """DTensor runs each op on whole shapes, on no device, to learn what it returns: no kernels, no memory."""
    found = traced(PROGRAMS / "parallel.py", "--world-size", "8", "--steps", "1", "--", "loss")
    made = [found.of(call) for call in found.calls if call.kind == "kernel"]
    products = [one.outputs[0].shape for one in made if one.op == "aten::addmm"]
    assert products == [(8, 128), (8, 1024), (8, 2)] * 2
    assert (8, 2) in {one.inputs[0].shape for one in made if one.op == "aten::exp"}, "classes are split"
    of_loss = {"exp", "log", "sum", "neg", "where", "div", "gather", "amax"}
    first = ops(found, phase="forward")
    assert of_loss <= {*first}, "its ops run below distributed tensors, in no module"
    assert not of_loss & {*ops(found, phase="")}


def test_compiled_calls_are_marked_and_the_assumption_is_stated(traced):
    found = traced(PROGRAMS / "parallel.py", "--world-size", "2", "--", "ddp", "compile")
    marked = [call for call in found.calls if call.compiled and call.kind == "kernel"]
    assert {call.phase for call in marked} == {"forward", "backward"}
    assert not any(call.compiled for call in found.calls if call.phase == "optimizer")
    assert sum(call.graphs for call in found.calls) == 2, "DDP's first bucket ends one graph, the rest is another"
    assert all(call.phase == "forward" for call in found.calls if call.graphs)
    bare = Counter(found.of(call).op for call in found.calls if call.kind == "kernel" and not call.dispatches)
    assert set(bare) <= {"aten::mul", "aten::div_", "aten::copy_"}, "DDP's reducer copies below Python"
    assert sum(bare.values()) >= 6
    assert any("compiled" in text for text in found.assumptions)


def test_a_program_of_one_step_is_recorded_up_to_its_end(traced):
    found = traced(PROGRAMS / "once.py")
    assert ops(found, phase="optimizer") == ["_foreach_add_.List"]
    assert "addmm" in ops(found, phase="forward")
    assert any("after 1 of 2 steps" in text for text in found.assumptions)


def test_a_program_without_an_optimizer_has_a_step_from_backward_to_backward(traced):
    found = traced(PROGRAMS / "by_hand.py")
    assert ops(found, phase="optimizer") == ["add_"] * (1 + 2 * 4 + 2)
    assert (
        ops(found, phase="forward").count("_cudnn_rnn")
        == ops(found, phase="backward").count("_cudnn_rnn_backward")
        == 1
    )
    assert any("makes no optimizer" in text for text in found.assumptions)
    assert bytes_of(found, MemoryKind.GRADIENTS) >= 4 * found.parameters


def test_a_recurrent_layer_is_one_call_of_cudnn_with_the_products_of_its_steps(traced):
    """2·T·B·4H·(I + H) of each layer forward, twice that backward (inputs and weights)."""
    found = traced(PROGRAMS / "by_hand.py")
    steps, batch, hidden = 7, 4, 24
    per_pass = sum(2 * steps * batch * 4 * hidden * (inputs + hidden) for inputs in (32, hidden))
    for name, passes in (("_cudnn_rnn", 1), ("_cudnn_rnn_backward", 2)):
        (one,) = [s for s in found.signatures if s.op == f"aten::{name}"]
        products = [op for op in kernels_of(one) if op.kind == "gemm"]
        assert sum(op.flops * op.count for op in products) == passes * per_pass
        assert sum(op.count for op in products) == 2 * (steps + (1 if passes == 1 else 3))


def test_indices_of_the_host_are_sent_and_what_torch_knows_no_shape_of_is_run_on_zeros(traced):
    found = traced(PROGRAMS / "by_hand.py")
    sent = [s for s in found.signatures if s.op == "aten::_to_copy" and s.arguments.get("direction") == "HtoD"]
    assert (7,) in {s.outputs[0].shape for s in sent}
    (packed,) = [s for s in found.signatures if s.op == "aten::_pack_padded_sequence"]
    assert packed.outputs[0].shape == (7 + 5 + 3 + 2, 24)
    (lost,) = [s for s in found.signatures if s.op == "aten::_ctc_loss_backward"]
    assert lost.outputs[0].shape == (7, 4, 50)


def varying(found: OpList) -> list[int]:
    """Sizes of products that follow from data, in the order of the calls."""
    return [call.varies for call in found.calls if call.varies and found.of(call).op == "aten::mm"]


def test_a_causal_bias_chooses_the_kernel_that_sees_from_its_corner(traced):
    found = traced(PROGRAMS / "causal_bias.py")
    attended = [found.of(call) for call in found.calls if "attention" in found.of(call).op and call.phase == "forward"]
    assert [one.arguments["backend"] for one in attended] == ["flash", "cudnn"]
    assert [kernels_of(one)[0].visible_frac for one in attended] == [0.75, 0.25]


def test_grouped_products_without_a_kernel_are_a_loop_that_reads_where_groups_end(traced):
    fast, slow = (traced(PROGRAMS / "experts.py", "--", dtype) for dtype in ("bfloat16", "float32"))
    assert Counter(ops(fast))["_grouped_mm"] == 2  # the batch wants no gradient
    assert not any(call.kind == "sync" for call in fast.calls)
    assert Counter(ops(slow))["mm"] == 2 * 4
    assert sum(call.kind == "sync" for call in slow.calls) == 2
    made = [slow.of(call).inputs for call in slow.calls if call.kind == "kernel" and slow.of(call).op == "aten::mm"]
    assert {tuple(one.shape for one in inputs[:2]) for inputs in made} == {((16, 64), (64, 32)), ((64, 16), (16, 32))}
    assert not fast.problems
    assert not slow.problems
    assert not varying(slow)
    drawn = traced(PROGRAMS / "experts.py", "--", "float32", "drawn")
    assert varying(drawn) == [16] * 2 * 4
    assert [(one.field, "equally many" in one.message) for one in drawn.problems] == [("aten::_grouped_mm", True)]
    assert Counter(ops(drawn))["mm"] == 2 * 4


@pytest.mark.parametrize(
    ("how", "op"), [("writing", "c10d::alltoall_base_"), ("functional", "_c10d_functional::all_to_all_single")]
)
def test_experts_of_other_ranks_get_equally_many_rows(traced, how, op):
    found = traced(PROGRAMS / "routed.py", "--world-size", "4", "--rank", "1", "--", how)
    exchanges = [found.of(call) for call in found.calls if call.kind == "collective"]
    # Of 96 tokens two choices each: counts of 8 experts, all rows there and back, and their gradients back.
    assert [(one.op, one.inputs[0].shape, one.outputs[0].shape) for one in exchanges] == [
        (op, (8,), (8,)), *[(op, (192, 64), (192, 64))] * 3,
    ]  # fmt: skip
    products = [found.of(call).inputs[0].shape for call in found.calls if found.of(call).op == "aten::mm"]
    assert products == [(96, 64)] * 2 + [(64, 96)] * 2 + [(8, 96)]
    assert varying(found) == [96] * 4, "of the experts, not of the router"
    # Counts at once or one by one, room for the rows' experts, and how many rows each has (bincount, and its list)
    assert sum(call.kind == "sync" for call in found.calls) == 4
    assert any("equally often" in text for text in found.assumptions)
    assert not any("placeholders" in text for text in found.assumptions)
    # Gradients of what was picked are written to zeros in place, as they are but for subclasses of tensors
    assert {"_index_put_impl_", "scatter_"} <= {*ops(found, phase="backward")}
    assert not {"index_put", "scatter"} & {*ops(found, phase="backward")}


def test_experts_in_a_loop_get_the_rows_of_their_mask(traced):
    found = traced(PROGRAMS / "routed.py", "--world-size", "2", "--", "loop")
    products = [found.of(call).inputs[0].shape for call in found.calls if found.of(call).op == "aten::mm"]
    assert products == [(24, 64)] * 8 + [(64, 24)] * 8 + [(8, 96)]
    assert varying(found) == [24] * 16
    assert (
        sum(call.kind == "sync" for call in found.calls) == 1 + 1 + 8
    )  # which are hit, as a list, and each one's rows
    assert [(one.field, "equally often" in one.message) for one in found.problems] == [("aten::nonzero", True)]


def test_a_step_is_that_of_the_outermost_optimizer_without_what_was_evaluated_before(traced):
    found = traced(PROGRAMS / "evaluates.py")
    assert found.parameters == 64 * 8 + 8
    assert Counter(ops(found))["addmm"] == 1
    assert Counter(ops(found, phase="optimizer"))["_foreach_add_.List"] == 1
    assert not any("ended" in text for text in found.assumptions)
    assert any("that repeat 3 others" in text for text in found.assumptions)


def test_what_libraries_do_around_a_step(traced):
    """A closure's ops are no optimizer's, flags come back as they were sent, and taking the model down is no step."""
    found = traced(PROGRAMS / "habits.py")
    forward, backward = ops(found, phase="forward"), ops(found, phase="backward")
    assert "addmm" in forward
    assert "mm" in backward
    assert set(ops(found, phase="optimizer")) == {"_foreach_add_.List"}
    assert ops(found)[-1] == "_foreach_add_.List"


def test_frozen_parameters_are_counted_and_told_apart(traced):
    found = traced(PROGRAMS / "habits.py")
    assert (found.parameters, found.trained_parameters) == (64 * 64 + 64, 64 * 64)
    assert "64 of 4,160 parameters are frozen: they have no gradient and no moments" in found.assumptions
    assert sorted(one.trains for one in found.weights) == [False, True]


@pytest.mark.parametrize(("whose", "held"), [("part", 64 * 65 // 2 + 8 * 65 // 2), ("whole", 0)])
def test_the_models_parameters_count_whatever_an_optimizer_holds_of_them(traced, whose, held):
    """Copies in fp32 of which this rank has a part, and a tensor that another optimizer holds and nothing trains."""
    found = traced(PROGRAMS / "in_parts.py", "--", whose)
    assert (found.parameters, found.trained_parameters) == (64 * 65 + 8 * 65,) * 2
    share = f"of 4,680 trained parameters this rank's optimizer updates {held:,}"
    assert [text for text in found.assumptions if "updates" in text] == ([share] if held else [])


def test_gradients_of_rows_that_the_host_picked_are_written_on_the_device(traced):
    found = traced(PROGRAMS / "picked.py")
    assert Counter(ops(found, phase="backward"))["_index_put_impl_"] == 1
    (written,) = (found.of(call) for call in found.calls if found.of(call).op.endswith("_index_put_impl_"))
    assert written.outputs[0].shape == (32, 8)


def test_a_kernel_of_triton_is_recorded_with_what_it_reads_and_writes(traced):
    found = traced(PROGRAMS / "own_kernel.py")
    (launched,) = (found.of(call) for call in found.calls if found.of(call).op == "triton::squared")
    assert [one.shape for one in launched.inputs] == [(8, 64)] * 2
    (of_cuda,) = (found.of(call) for call in found.calls if found.of(call).op == "nvrtc::halved")
    assert [one.shape for one in of_cuda.inputs] == [(8, 64)]


def test_flex_attention_is_one_kernel_each_way_of_half_or_all_its_scores(traced):
    found = traced(PROGRAMS / "flexible.py")
    attends = [found.of(call) for call in found.calls if "_flash_attention" in found.of(call).op]
    assert [(s.op.endswith("backward"), s.arguments["is_causal"]) for s in attends] == [
        (False, True), (False, False), (True, False), (True, True),
    ]  # fmt: skip
    assert "flex_attention is taken as flash attention of half its scores" in found.assumptions
    assert not found.problems


def test_a_file_of_tensors_is_read_to_the_device(traced, tmp_path):
    torch.save({"model": {"weight": torch.ones(64, 64)}, "step": 3}, tmp_path / "kept.pt")
    found = traced(PROGRAMS / "kept.py", "--", str(tmp_path / "kept.pt"))
    assert (found.parameters, ops(found)[-1]) == (64 * 64, "_foreach_add_.List")


def _ops(found, phase):
    return [found.of(call) for call in found.calls if call.kind == "kernel" and call.phase == phase]


def test_a_logged_line_parts_a_compiled_region_into_two_graphs(traced):
    """transformers' GPT-2 logs before its loss, whose graph takes the logits and so gives their gradient."""
    found = traced(PROGRAMS / "broken_graph.py")
    assert sum(call.graphs for call in found.calls) == 2
    zeros = [one.outputs[0].shape for one in _ops(found, "backward") if one.op == "aten::zeros"]
    assert (2, 64, 512) not in zeros, "logits and loss are of different graphs"


def test_a_compiler_makes_numbers_of_a_mask_once_for_all_layers(traced):
    found = traced(PROGRAMS / "broken_graph.py")
    assert [one.op for one in _ops(found, "forward")].count("aten::where") == 1


def test_a_compiler_leaves_a_part_of_no_size_out_of_a_concatenation(traced):
    """Phi-3's heads lie as the product made them, and so does what attention makes of them."""
    ops = [one.op for one in _ops(traced(PROGRAMS / "broken_graph.py"), "forward")]
    assert "aten::cat" not in ops
    assert ops.count("aten::clone") >= 2


def test_the_backward_of_a_compiled_region_runs_under_its_autocast(traced):
    """H100: compiled BERT's products of attention are of fp32 in forward, bf16 in backward."""
    found = traced(PROGRAMS / "broken_graph.py")
    forward, backward = (
        {one.inputs[0].dtype for one in _ops(found, phase) if one.op == "aten::bmm"}
        for phase in ("forward", "backward")
    )
    assert forward == {"float32"}
    assert backward == {"bfloat16"}


def test_pageable_memory_is_said_and_holds_the_host_as_what_blocks_does(traced):
    found = traced(PROGRAMS / "sends.py")
    copies = {}
    for call, after in zip(found.calls, found.calls[1:], strict=False):
        if call.kind == "kernel" and "direction" in (said := found.of(call)).arguments:
            (moved,) = said.inputs or said.outputs
            copies[moved.shape] = (said.arguments.get("host", ""), after.kind == "sync")
    wide = 1 << 15
    assert copies == {
        (wide,): ("pageable", True),
        (8,): ("pageable", False),  # goes along with its launch
        (8, 2): ("pageable", True),
        (wide, 1): ("", False),
        (wide, 2): ("", False),
        (4, wide): ("", False),
        (wide - 1, 1): ("", True),
        (wide - 1, 2): ("pageable", True),  # cast on the host first
        (3, wide): ("", False),
        (5, wide): ("pageable", True),
    }
