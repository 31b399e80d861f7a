"""Tensor parallelism: the collectives of Shoeybi 2019 and Korthikanti 2022, and equal traffic either way."""

import pytest

from estimator.communication.tensor import tensor_messages, vocabulary_messages
from estimator.cost.collectives import TRAFFIC
from estimator.operations.rank_sizes import rank_sizes
from tests.estimator.examples import GPT, LLAMA, MIXTRAL, scenario

PAYLOAD = 128 * 256 * 2
"""s·b·h of 2 bytes."""


def sent(model=GPT, *, sequence_parallel=False, framework="megatron", recompute="none", precision="bf16"):
    plan = {"tp": 2, "sequence_parallel": sequence_parallel, "recompute": recompute}
    return tensor_messages(
        rank_sizes(scenario(model, plan=plan, framework=framework, precision=precision)),
        sequence_parallel=sequence_parallel,
    )


def traffic(found, phase: str) -> float:
    return sum(one.payload_bytes * one.count * TRAFFIC[one.kind] for one in found if one.phase == phase)


def test_two_all_reduces_forward_and_two_backward():
    found = sent()
    assert [(one.kind, one.phase, one.count) for one in found] == [
        ("all-reduce", "forward", 2), ("all-reduce", "backward", 2)
    ]  # fmt: skip
    assert {one.payload_bytes for one in found} == {PAYLOAD}


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_a_block_of_experts_alone_sums_nothing_over_tensor_ranks(sequence_parallel):
    d = rank_sizes(scenario({**MIXTRAL, "network": "ffn"}, plan={"tp": 2}))
    assert tensor_messages(d, sequence_parallel=sequence_parallel, attention=False, ffn=False) == []


def test_sequence_parallelism_sends_the_same_bytes_forward():
    # Korthikanti 2022, section 4.2.2: a reduce-scatter and an all-gather are an all-reduce.
    split = sent(sequence_parallel=True)
    assert {one.kind for one in split} == {"all-gather", "reduce-scatter"}
    assert traffic(split, "forward") == traffic(sent(), "forward") == 4 * PAYLOAD


def test_sequence_parallelism_gathers_the_inputs_again_for_the_weight_gradients():
    # The same section: only the rank's own part of the inputs is kept, at the price of one gather for each product.
    assert traffic(sent(sequence_parallel=True), "backward") == traffic(sent(), "backward") + 2 * PAYLOAD


def test_unfused_projections_reduce_the_gradient_of_each_of_them():
    # DTensor: q, k, v, gate and up each give a partial gradient of their input.
    (_, backward) = sent(LLAMA, framework="pytorch-eager")
    assert backward.count == 5
    (_, backward) = sent({**LLAMA, "gated_ffn": False}, framework="pytorch-eager")
    assert backward.count == 4


REPEATED = {
    # Megatron's CheckpointFunction runs the whole block again (megatron/core/tensor_parallel/random.py).
    "megatron": {"all-reduce": 2, "all-gather": 2, "reduce-scatter": 2},
    # torch.utils.checkpoint stops early, XLA drops what nothing reads: the last sum feeds only the next block.
    "pytorch-eager": {"all-reduce": 1, "all-gather": 2, "reduce-scatter": 1},
    "xla": {"all-reduce": 1, "all-gather": 2, "reduce-scatter": 1},
    "ideal": {"all-reduce": 1, "all-gather": 2, "reduce-scatter": 1},
}


@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("framework", REPEATED)
def test_full_recomputation_repeats_what_the_frameworks_checkpoint_runs_again(framework, sequence_parallel):
    none, full = (
        sent(sequence_parallel=sequence_parallel, recompute=recompute, framework=framework)
        for recompute in ("none", "full")
    )
    again = {x.kind: x.count for x in full if x.name.endswith(" again")}
    assert again == {kind: count for kind, count in REPEATED[framework].items() if kind in again}
    assert len(again) == (2 if sequence_parallel else 1)
    assert [x for x in full if not x.name.endswith(" again")] == none


def test_a_block_that_ends_in_experts_sums_attentions_output_again():
    d = rank_sizes(scenario(MIXTRAL, plan={"tp": 2, "recompute": "full"}, framework="pytorch-eager"))
    (again,) = (x for x in tensor_messages(d, sequence_parallel=False, ffn=False) if x.name.endswith(" again"))
    assert again.count == 1


def test_dtensor_keeps_what_it_gathered():
    # Each linear saves its whole input, so that backward gathers the gradients of the two outputs alone.
    def gathers(framework: str) -> float:
        return traffic([x for x in sent(sequence_parallel=True, framework=framework) if x.kind == "all-gather"],
                       "backward")  # fmt: skip

    assert gathers("megatron") == 2 * gathers("pytorch-eager") == 4 * PAYLOAD


def parallel(framework: str, **rest) -> dict[tuple[str, str], float]:
    model = {**GPT, "parallel_residual": True, **rest.pop("model", {})}
    return {(x.kind, x.phase): x.count for x in sent(model, framework=framework, **rest)}


def test_parallel_attention_and_network_are_summed_together():
    # gpt-neox, megatron/model/transformer.py: one reduce of both outputs; each column linear sums its own gradient.
    assert parallel("megatron") == {("all-reduce", "forward"): 1, ("all-reduce", "backward"): 2}
    # A compiler adds both gradients of one norm before it sums them; two norms have one each.
    assert parallel("xla") == {("all-reduce", "forward"): 1, ("all-reduce", "backward"): 2}
    assert parallel("xla", model={"norms_per_layer": 1}) == {
        ("all-reduce", "forward"): 1,
        ("all-reduce", "backward"): 1,
    }
    # DTensor sums the output of every row linear.
    assert parallel("pytorch-eager")["all-reduce", "forward"] == 2


def test_parallel_attention_and_network_under_sequence_parallelism():
    found = sent({**GPT, "parallel_residual": True}, sequence_parallel=True)
    assert {x.name: x.count for x in found} == {
        "sequence gather": 2, "sequence scatter": 1, "gradient gather": 1, "input gather for weights": 2,
        "gradient scatter": 2,
    }  # fmt: skip


LATENT = {**LLAMA, "kv_heads": 0, "head_dim": 48, "kv_lora_rank": 64, "q_lora_rank": 96, "qk_rope_head_dim": 16,
          "v_head_dim": 32}  # fmt: skip


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_latent_attention_sends_its_latents_both_ways(sequence_parallel):
    # Up-projections read 96 + 64 + 16 columns, and their gradients are that wide; the network's are 256 wide.
    found = {x.name: x for x in sent(LATENT, sequence_parallel=sequence_parallel)}
    columns = 128 * 2 * (96 + 64 + 16 + 256)
    names = ["tensor parallel gradient all-reduce"]
    if sequence_parallel:
        names = ["sequence gather", "input gather for weights", "gradient scatter"]
    for name in names:
        assert found[name].payload_bytes * found[name].count == columns, name
    rows = "gradient gather" if sequence_parallel else "tensor parallel all-reduce"
    assert found[rows].payload_bytes == PAYLOAD


def test_fp32_sends_twice_the_bytes_of_bf16():
    assert traffic(sent(precision="fp32", framework="pytorch-eager"), "forward") == 2 * traffic(
        sent(precision="bf16", framework="pytorch-eager"), "forward"
    )


def test_a_vocabulary_parallel_head_sums_three_scalars_per_token_and_one_gradient():
    # Shoeybi 2019, section 3: maximum, sum of exponentials and target logit are reduced, never the logits.
    embedding, head = vocabulary_messages(
        rank_sizes(scenario(GPT, plan={"tp": 2}, framework="megatron")), sequence_parallel=False
    )
    assert [(one.kind, one.payload_bytes) for one in embedding] == [("all-reduce", PAYLOAD)]
    assert [(one.phase, one.payload_bytes * one.count) for one in head] == [
        ("forward", 3 * 4 * 128), ("backward", PAYLOAD)
    ]  # fmt: skip


def test_a_replicated_head_exchanges_nothing():
    assert vocabulary_messages(
        rank_sizes(scenario(GPT, plan={"tp": 2}, framework="pytorch-eager")), sequence_parallel=False
    ) == (
        [],
        [],
    )


def test_a_replicated_head_gathers_a_split_stream():
    d = rank_sizes(scenario(GPT, plan={"tp": 2, "sequence_parallel": True}, framework="pytorch-eager"))
    embedding, head = vocabulary_messages(d, sequence_parallel=True)
    assert [(x.kind, x.phase, x.payload_bytes) for x in embedding] == [("all-gather", "backward", PAYLOAD)]
    assert [(x.kind, x.phase, x.payload_bytes) for x in head] == [("all-gather", "forward", PAYLOAD)]


def test_sequence_parallel_edges_send_the_same_bytes_forward():
    d = rank_sizes(scenario(GPT, plan={"tp": 2, "sequence_parallel": True}, framework="megatron"))
    summed, split = (vocabulary_messages(d, sequence_parallel=value) for value in (False, True))
    assert [traffic([x for part in found for x in part], "forward") for found in (summed, split)] == [
        2 * PAYLOAD + 2 * 3 * 4 * 128
    ] * 2
    # Korthikanti 2022, section 4.2.2: backward gathers the head's input once more.
    assert traffic(split[1], "backward") == traffic(summed[1], "backward")
    assert {one.kind for part in split for one in part if one.name != "loss sums"} == {"all-gather", "reduce-scatter"}
