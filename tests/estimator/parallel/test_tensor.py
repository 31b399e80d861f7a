"""Tensor parallelism: the collectives of Shoeybi 2019 and Korthikanti 2022, and equal traffic either way."""

import pytest

from estimator.cost.collectives import TRAFFIC
from estimator.networks.dims import dims
from estimator.parallel.tensor import block_exchanges, edge_exchanges
from tests.estimator.examples import GPT, LLAMA, scenario

PAYLOAD = 128 * 256 * 2
"""s·b·h of 2 bytes."""


def exchanges(model=GPT, *, sequence_parallel=False, framework="megatron", recompute="none", precision="bf16"):
    plan = {"tp": 2, "sequence_parallel": sequence_parallel, "recompute": recompute}
    return block_exchanges(
        dims(scenario(model, plan=plan, framework=framework, precision=precision)), sequence_parallel=sequence_parallel
    )


def traffic(found, phase: str) -> float:
    return sum(one.payload_bytes * one.count * TRAFFIC[one.kind] for one in found if one.phase == phase)


def test_two_all_reduces_forward_and_two_backward():
    found = exchanges()
    assert [(one.kind, one.phase, one.count) for one in found] == [
        ("all-reduce", "forward", 2), ("all-reduce", "backward", 2)
    ]  # fmt: skip
    assert {one.payload_bytes for one in found} == {PAYLOAD}


def test_sequence_parallelism_sends_the_same_bytes_forward():
    # Korthikanti 2022, section 4.2.2: a reduce-scatter and an all-gather are an all-reduce.
    split = exchanges(sequence_parallel=True)
    assert {one.kind for one in split} == {"all-gather", "reduce-scatter"}
    assert traffic(split, "forward") == traffic(exchanges(), "forward") == 4 * PAYLOAD


def test_sequence_parallelism_gathers_the_inputs_again_for_the_weight_gradients():
    # The same section: only the rank's own part of the inputs is kept, at the price of one gather for each product.
    assert traffic(exchanges(sequence_parallel=True), "backward") == traffic(exchanges(), "backward") + 2 * PAYLOAD


def test_unfused_projections_reduce_the_gradient_of_each_of_them():
    # DTensor: q, k, v, gate and up each give a partial gradient of their input.
    (_, backward) = exchanges(LLAMA, framework="pytorch-eager")
    assert backward.count == 5
    (_, backward) = exchanges({**LLAMA, "gated_ffn": False}, framework="pytorch-eager")
    assert backward.count == 4


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_full_recomputation_repeats_exchanges_in_backward(sequence_parallel):
    none = exchanges(sequence_parallel=sequence_parallel)
    full = exchanges(sequence_parallel=sequence_parallel, recompute="full")
    again = traffic(full, "backward") - traffic(none, "backward")
    assert 0 < again <= traffic(none, "forward")
    assert traffic(full, "forward") == traffic(none, "forward")


def test_fp32_sends_twice_the_bytes_of_bf16():
    assert traffic(exchanges(precision="fp32", framework="pytorch-eager"), "forward") == 2 * traffic(
        exchanges(precision="bf16", framework="pytorch-eager"), "forward"
    )


def test_a_vocabulary_parallel_head_sums_three_scalars_per_token_and_one_gradient():
    # Shoeybi 2019, section 3: maximum, sum of exponentials and target logit are reduced, never the logits.
    embedding, head = edge_exchanges(dims(scenario(GPT, plan={"tp": 2}, framework="megatron")), sequence_parallel=False)
    assert [(one.kind, one.payload_bytes) for one in embedding] == [("all-reduce", PAYLOAD)]
    assert [(one.phase, one.payload_bytes * one.count) for one in head] == [
        ("forward", 3 * 4 * 128), ("backward", PAYLOAD)
    ]  # fmt: skip


def test_a_replicated_head_exchanges_nothing():
    assert edge_exchanges(dims(scenario(GPT, plan={"tp": 2}, framework="pytorch-eager")), sequence_parallel=False) == (
        [],
        [],
    )


def test_sequence_parallel_edges_send_the_same_bytes_forward():
    d = dims(scenario(GPT, plan={"tp": 2, "sequence_parallel": True}, framework="megatron"))
    summed, split = (edge_exchanges(d, sequence_parallel=value) for value in (False, True))
    assert [traffic([x for part in found for x in part], "forward") for found in (summed, split)] == [
        2 * PAYLOAD + 2 * 3 * 4 * 128
    ] * 2
    # Korthikanti 2022, section 4.2.2: backward gathers the head's input once more.
    assert traffic(split[1], "backward") == traffic(summed[1], "backward")
    assert {one.kind for part in split for one in part if one.name != "loss sums"} == {"all-gather", "reduce-scatter"}
