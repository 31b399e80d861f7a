"""Mixture of experts: rows that experts multiply, what tokens are copied to and from, and what is kept."""

import pytest

from estimator.operations import moe
from tests.estimator.operations.shapes import DEEPSEEK, MIXTRAL, dims_of, flops, kept, named


def ops_of(model=MIXTRAL, plan=None, **training):
    return moe.expert_part(dims_of(model, plan, **training), "layer")


def test_flops_are_six_per_active_parameter_and_token():
    active = 256 * 8 + 2 * 3 * 256 * 704
    assert flops(ops_of()) == 6 * 128 * active
    shared = 256 * 16 + 4 * 3 * 256 * 96 + 3 * 256 * 192
    assert flops(ops_of(DEEPSEEK)) == 6 * 128 * shared


def test_every_expert_multiplies_its_even_share():
    op = named(ops_of())["expert gate, up projections"]
    assert (op.batch, op.m, op.n, op.k) == (8, 32, 2 * 704, 256)
    local = named(ops_of(plan={"ep": 4}))["expert gate, up projections"]
    assert (local.batch, local.m) == (2, 128)


def test_a_capacity_pads_or_drops():
    for factor in (0.5, 1.0, 1.25):
        ops = named(ops_of({**MIXTRAL, "capacity_factor": factor}))
        assert ops["expert down projection"].m == 32 * factor


def test_all_wait_for_the_fullest_rank():
    ops = named(ops_of(plan={"ep": 4}, expert_imbalance=1.5))
    assert ops["expert down projection"].m == 128 * 1.5
    even = named(ops_of(plan={"ep": 4}))
    assert ops["router"] == even["router"]
    assert ops["expert permutation"] == even["expert permutation"]


def test_an_expert_split_in_two_gathers_the_tokens_of_both_halves():
    op = named(ops_of(plan={"ep": 2, "expert_tp": 2}))["expert down projection"]
    assert (op.batch, op.m, op.k) == (4, 128, 352)


def test_tensor_parallel_ranks_route_their_share_of_the_tokens():
    ops = named(ops_of(plan={"tp": 4, "sequence_parallel": True}))
    assert ops["router"].m == 32
    assert (ops["expert down projection"].m, ops["expert down projection"].k) == (8, 704)
    # Shared experts are split like a dense network and see the gathered tokens.
    shared = named(ops_of(DEEPSEEK, {"tp": 4, "sequence_parallel": True}))["shared gate, up projections"]
    assert (shared.m, shared.n) == (128, 2 * 192 / 4)


def test_tokens_are_copied_to_their_experts_and_summed_back():
    ops = named(ops_of())
    assert ops["expert permutation"].bytes == 2 * 2 * 128 * 2 * 256
    assert ops["expert combine"].bytes == 2 * (2 + 1) * 128 * 256
    assert "expert sort" not in ops
    assert named(ops_of(plan={"ep": 4}))["expert sort"].bytes == 2 * 2 * 128 * 2 * 256


def test_kept_are_the_input_its_copies_and_the_experts_inside():
    scores = 128 * 8 * 4
    assert kept(ops_of()) == 2 * 128 * 256 + scores + 2 * 128 * 2 * (256 + 3 * 704)
    # Eager PyTorch weighs the experts' outputs, keeps them for the gradient of the weights, and what it adds up.
    eager = named(ops_of(framework="pytorch-eager"))
    assert eager["expert combine"].saved_bytes == 2 * 2 * 128 * 2 * 256
    assert named(ops_of())["expert combine"].saved_bytes == 0


def test_shared_experts_do_not_keep_the_input_twice():
    ops = named(ops_of(DEEPSEEK))
    assert ops["router"].saved_bytes == 2 * 128 * 256
    assert ops["shared gate, up projections"].saved_bytes == 0
    # Each rank of tp routes a quarter of the tokens but needs all of them for its share of the shared experts.
    plain = named(ops_of(DEEPSEEK, {"tp": 4}))
    assert plain["router"].saved_bytes + plain["shared gate, up projections"].saved_bytes == 2 * 128 * 256


@pytest.mark.parametrize(("framework", "launches"), [("megatron", 1), ("pytorch-eager", 8)])
def test_eager_pytorch_goes_through_experts_one_by_one(framework, launches):
    ops = named(ops_of(framework=framework))
    assert ops["expert down projection"].launches == launches


@pytest.mark.parametrize(("compiled", "experts", "launches"), [(False, "grouped", 1), (True, "loop", 8)])
def test_who_says_how_experts_run_is_heard(compiled, experts, launches):
    ops = named(ops_of(experts=experts, compile=compiled))
    assert ops["expert down projection"].launches == launches


@pytest.mark.parametrize(
    ("framework", "experts", "apart"),
    [
        ("megatron", "default", True),
        ("megatron", "grouped", False),
        ("pytorch-eager", "default", True),
        ("pytorch-eager", "grouped", False),
        ("pytorch-compile", "default", False),
        ("xla", "default", False),
    ],
)
def test_experts_are_multiplied_one_after_another_where_no_kernel_takes_them_all(framework, experts, apart):
    # Of ranks with an expert each, too: what runs does not hang on how many there are.
    ops = ops_of(framework=framework, experts=experts) + ops_of(plan={"ep": 8}, framework=framework, experts=experts)
    ops = [op for op in ops if op.kind == "gemm" and op.name.startswith("expert ")]
    assert len(ops) == 12
    assert {op.apart for op in ops} == {apart}
    torchs = not apart and framework != "xla"
    assert {op.grouped for op in ops} == {torchs}


def test_experts_are_quantised_one_after_another_where_they_are_multiplied_so():
    def batches(**training):
        ops = ops_of(precision="fp8", framework="megatron", **training)
        return {op.batch for op in ops if op.name.startswith("expert ") and "quantisation" in op.name}

    assert batches() == {8}
    assert batches(experts="grouped") == {1}


def test_the_router_is_not_multiplied_in_fp8():
    ops = named(ops_of(DEEPSEEK, precision="fp8"))
    assert ops["router"].precision == "bf16"
    assert ops["expert down projection"].precision == ops["shared down projection"].precision == "fp8"


@pytest.mark.parametrize(("model", "forward", "backward"), [(MIXTRAL, 35, 10), (DEEPSEEK, 54, 24)])
def test_routing_that_is_not_fused_is_kernels_of_plain_pytorch_and_exchanges(model, forward, backward):
    def plain(framework, **plan):
        ops = ops_of(model, plan, framework=framework)
        listed = {op.name: op.launches for op in ops if op.name.startswith("router scores")}
        return {op.name: op.plain + listed[op.name] for op in ops if op.plain}

    one, two = (plain("megatron-unfused", **plan) for plan in ({}, {"dp": 2, "ep": 2}))
    assert plain("megatron") == {}
    assert one == {"router scores": forward, "router scores gradient": backward}
    # Rows, their weights, results and how many each rank sends; back all but the last.
    more = {name: two[name] - one[name] for name in one}
    assert more == pytest.approx(dict(zip(one, (4 * moe.EXCHANGE_KERNELS, 3 * moe.EXCHANGE_KERNELS), strict=True)))


def test_a_gate_scales_shared_experts():
    ops = named(ops_of({**DEEPSEEK, "shared_expert_gate": True}))
    assert ops["shared gate"].flops == 2 * 128 * 256
    plain = named(ops_of(DEEPSEEK))
    assert ops["shared sum"].bytes - plain["shared sum"].bytes == 2 * 128 * 256
    assert ops["shared sum"].saved_bytes == 2 * 128 * 256
    assert plain["shared sum"].saved_bytes == 0


def test_gradients_of_the_input_meet_from_router_experts_and_shared_experts():
    ops = named(ops_of(DEEPSEEK))
    for name in ("router gradient sum", "shared sum gradient"):
        assert ops[name].bytes == 3 * 2 * 128 * 256


def test_one_product_of_gate_and_up_leaves_halves_to_strided_kernels():
    apart, joined = (named(ops_of(framework="pytorch-eager", experts=experts)) for experts in ("default", "grouped"))
    rows, width = 2 * 128, 704
    assert apart["expert activation"].strided_elements == 0
    assert joined["expert activation"].strided_elements == 2 * rows * width
    assert joined["expert activation gradient"].strided_elements == 2 * rows * width
    assert "expert gate, up projections gradient sum" in apart
    assert "expert gate, up projections gradient sum" not in joined
    one, two = joined["expert gate, up projections"], apart["expert gate, up projections"]
    assert one.flops == two.flops * two.count


def test_rows_are_added_up_by_turns_in_eager_kernels_only():
    copies = 2 * 128 * 256
    for name in ("expert permutation gradient", "expert combine"):
        assert named(ops_of(framework="pytorch-eager"))[name].mixed_elements >= moe.ADDED_PASSES * copies
        assert named(ops_of())[name].mixed_elements == 0


def test_what_arrives_is_sorted_and_what_goes_back_is_copied_by_index():
    plan, rows = {"ep": 4}, 128 * 4 * 256
    eager = named(ops_of(DEEPSEEK, plan, framework="pytorch-eager", precision="bf16-amp"))
    # Gradients of gathered rows are added up onto zeros; results are in the products' type, into a copy of their place.
    assert eager["expert sort"].stream_bytes == rows * (4 + 4)
    assert eager["expert sort gradient"].mixed_elements == moe.ADDED_PASSES * rows
    assert (eager["expert unsort"].launches, eager["expert unsort"].strided_elements) == (2, rows)
    assert eager["expert unsort gradient"].stream_bytes == rows * (2 + 2)
    fused = named(ops_of(DEEPSEEK, plan))
    assert {fused[f"expert {name}"].stream_bytes for name in ("sort", "unsort")} == {rows * 4}
    assert fused["expert sort gradient"].mixed_elements == 0


def test_who_sends_a_token_to_each_rank_once_copies_it_there():
    plain, once, alone = (
        named(ops_of(DEEPSEEK, {"ep": ep, "ep_dispatch": way}))
        for ep, way in ((4, "to-experts"), (4, "to-nodes"), (1, "to-nodes"))
    )
    assert "expert permutation" in plain
    assert "expert permutation" not in once
    assert "expert combine" not in once
    assert alone["expert permutation"] == named(ops_of(DEEPSEEK))["expert permutation"]
    # Four experts of sixteen on four ranks: 4·(1 − (3/4)⁴) rows arrive for four that are written, and back.
    written = 128 * 4 * 256
    assert once["expert sort"].stream_bytes == pytest.approx(2 * written * (1 + 1 - (3 / 4) ** 4))
    assert plain["expert sort"].stream_bytes == 2 * written * 2
    # Weights that are no part of the experts are still multiplied.
    assert "expert combine" in named(ops_of(DEEPSEEK, {"ep": 4, "ep_dispatch": "to-nodes"}, framework="torchtitan"))


BIASED = {**DEEPSEEK, "ffn_bias": True, "clamped_ffn": True}


def test_biases_of_experts_are_weighed_and_added_by_kernels_of_their_own():
    rows = 128 * 4 * 256
    ops = named(ops_of(BIASED))
    # w·b written, added to y in fp32; all rows joined, and cast back.
    assert ops["expert bias"].bytes == (4 + (4 + 2 + 4) + 8 + 6) * rows
    assert ops["expert bias"].mixed_elements == 2 * rows
    assert "expert bias" not in named(ops_of(DEEPSEEK))
    for other in ({"framework": "pytorch-compile"}, {"precision": "fp8", "experts": "fused"}):
        assert "expert bias" not in named(ops_of(BIASED, **other))


def test_what_cuts_gate_and_up_off_runs_before_the_activation():
    halves = 128 * 4 * 2 * 96
    ops = named(ops_of(BIASED))
    assert ops["expert clamp"].strided_elements == ops["expert clamp gradient"].strided_elements == 2 * halves
    assert ops["expert clamp"].saved_bytes == 2 * halves
    assert "expert clamp" in named(ops_of(BIASED, framework="pytorch-eager"))
    assert "expert clamp" not in named(ops_of(BIASED, framework="pytorch-compile"))
    assert "expert clamp" not in named(ops_of(DEEPSEEK))


def test_fused_experts_activate_and_quantise_in_their_products():
    apart, fused = (named(ops_of(DEEPSEEK, precision="fp8", experts=way)) for way in ("grouped", "fused"))
    assert {name for name in apart if name not in fused} == {
        "expert down projection input quantisation", "expert gate, up projections gradient quantisation"
    }  # fmt: skip
    for name in ("expert activation", "expert activation gradient"):
        assert fused[name].bytes == fused[name].launches == 0
    # What is kept for backward is the same.
    assert fused["expert activation"].saved_bytes == apart["expert activation"].saved_bytes > 0
    rows, width = 128 * 4, 96
    up, down = fused["expert gate, up projections"], fused["expert down projection input gradient"]
    # The result in 2 bytes; of each activated number two narrow copies.
    assert up.bytes - apart["expert gate, up projections"].bytes == rows * width * 2
    # Gate and up are read, two narrow copies of the gradient of each written, for a gradient of 2 bytes.
    assert down.bytes - apart["expert down projection input gradient"].bytes == rows * width * (2 * (2 + 2) - 2)
    assert sum(op.bytes for op in fused.values()) < sum(op.bytes for op in apart.values())
    shared = "shared down projection input quantisation"
    assert fused[shared] == apart[shared]


def test_tokens_that_choose_groups_arrive_at_fewer_ranks():
    grouped = {**DEEPSEEK, "expert_groups": 4, "top_groups": 2}
    ops = named(ops_of(grouped, {"ep": 4, "ep_dispatch": "to-nodes"}))
    written = 128 * 4 * 256
    # Two of four ranks hold the chosen groups: 2·(1 − 1/2⁴) rows arrive for four.
    assert ops["expert sort"].stream_bytes == pytest.approx(2 * written * (1 + 2 * (1 - 1 / 2**4) / 4))
    assert named(ops_of(grouped)) == named(ops_of({**grouped, "top_groups": 0}))
