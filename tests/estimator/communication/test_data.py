"""Data parallelism: the shares and the traffic of the ZeRO paper (arXiv 1910.02054)."""

from dataclasses import replace

import pytest

from estimator.communication.data import StateShares, buckets_of, data_messages, shares
from estimator.communication.message import Message
from estimator.cost.collectives import TRAFFIC
from estimator.scenario.plan import SHARDINGS, Plan
from estimator.scenario.precision import byte_widths
from estimator.scenario.training import Training

PSI = 1000.0
"""Parameters of a rank's stage."""


def sent(sharding: str, *, precision="bf16", **changes) -> list[Message]:
    training = Training(seq_len=1, global_batch=1, precision=precision)
    sizes = {"parameters": PSI, "layers": 4, "tensors": 9, "micro_batches": 1, "bucket_bytes": 500.0}
    return data_messages(
        sharding=sharding, numbers=byte_widths(training, Plan(sharding=sharding)), **{**sizes, **changes}
    )


def total_bytes(message: Message) -> float:
    """Payload of all executions."""
    return message.payload_bytes * message.count


def traffic(sharding: str, **rest) -> float:
    """Elements that a rank sends, in units of (n − 1)/n; 2 bytes each."""
    return sum(total_bytes(message) * TRAFFIC[message.kind] for message in sent(sharding, **rest)) / 2


@pytest.mark.parametrize(
    ("sharding", "expected"),
    [
        ("ddp", StateShares(parameters=1.0, gradients=1.0, optimizer=1.0)),
        ("zero1", StateShares(parameters=1.0, gradients=1.0, optimizer=1 / 8)),
        ("zero2", StateShares(parameters=1.0, gradients=1 / 8, optimizer=1 / 8)),
        ("zero3", StateShares(parameters=1 / 8, gradients=1 / 8, optimizer=1 / 8)),
        ("fsdp", StateShares(parameters=1 / 8, gradients=1 / 8, optimizer=1 / 8)),
    ],
)
def test_what_each_stage_of_zero_shards(sharding, expected):
    assert shares(sharding, 8) == expected
    assert shares(sharding, 1) == StateShares(parameters=1.0, gradients=1.0, optimizer=1.0)


def test_zeros_table_of_7_5_billion_parameters_on_64_ranks():
    # Figure 1 of the paper: 2 + 2 + 12 bytes per parameter; 120, 31.4, 16.6 and 1.9 GB.
    def gigabytes(sharding: str) -> float:
        found = shares(sharding, 64)
        return 7.5 * (2 * found.parameters + 2 * found.gradients + 12 * found.optimizer)

    printed = {"ddp": 120, "zero1": 31.4, "zero2": 16.6, "zero3": 1.9}
    assert {name: gigabytes(name) for name in printed} == pytest.approx(printed, abs=0.05)


def test_zero_1_and_2_send_what_ddp_sends():
    # Section 7: an all-reduce is a reduce-scatter and an all-gather, 2Ψ in all.
    assert traffic("ddp") == traffic("zero1") == traffic("zero2") == 2 * PSI


@pytest.mark.parametrize("sharding", ["ddp", "zero1", "zero2"])
def test_gradients_in_the_buffers_that_travel_are_not_copied(sharding):
    plain, in_place = sent(sharding), sent(sharding, in_place=True)
    if sharding == "ddp":
        assert sum(message.copies_bytes for message in plain) == 2 * PSI * 2
    assert sum(message.copies_bytes for message in in_place) == 0
    assert [message.payload_bytes for message in in_place] == [message.payload_bytes for message in plain]


@pytest.mark.parametrize(
    ("sharding", "micro_batches", "scattered", "gathered"),
    # Zeroed and filled 3; a quarter divided 2/4; from the second on added 3/4; a quarter copied before its gather 2/4.
    [("zero1", 1, 3.5, 0.5), ("zero1", 4, 3.5, 0.5), ("zero2", 4, 4 * 3 + 3 * 0.75 + 0.5, 0.5)],
)
def test_zeros_buckets_are_zeroed_filled_and_divided_and_a_part_is_copied_before_it_is_gathered(
    sharding, micro_batches, scattered, gathered
):
    scatter, gather = sent(sharding, micro_batches=micro_batches, shard_ranks=4)
    assert (scatter.copies_bytes, gather.copies_bytes) == (scattered * PSI * 2, gathered * PSI * 2)


def test_a_tensor_larger_than_a_bucket_is_one_alone_and_smaller_ones_share():
    # Three of 30 numbers are a bucket each, four of 4 and what is in none of them share buckets of 10.
    large = ((30.0, 3.0), (4.0, 4.0))
    assert buckets_of(90 + 16 + 8, 1.0, 20, 10.0, large) == 3 + 3
    assert buckets_of(90 + 16 + 8, 1.0, 20, 10.0) == 12, "of tensors that are not known"
    assert buckets_of(90 + 16 + 8, 1.0, 5, 10.0, large) == 5
    assert buckets_of(1, 1.0, 1, 10.0, ((1.0, 1.0),)) == 1


def test_fsdp_gathers_twice_and_scatters_once():
    assert traffic("fsdp") == 3 * PSI
    # Without resharding after forward the gathered parameters serve backward too.
    assert traffic("zero3") == 2 * PSI


def test_only_ddp_and_zero_1_wait_for_the_last_micro_batch():
    assert traffic("ddp", micro_batches=4) == traffic("ddp")
    assert traffic("zero1", micro_batches=4) == traffic("zero1")
    assert traffic("zero2", micro_batches=4) == 4 * PSI + PSI
    assert traffic("fsdp", micro_batches=4) == 4 * traffic("fsdp")


def test_fsdps_mixed_precision_gathers_2_bytes_and_scatters_4():
    found = sent("fsdp", precision="bf16-amp")
    assert [(message.kind, total_bytes(message)) for message in found] == [
        ("all-gather", 2 * PSI), ("all-gather", 2 * PSI), ("reduce-scatter", 4 * PSI)
    ]  # fmt: skip


@pytest.mark.parametrize(("bucket_bytes", "messages"), [(500.0, 4), (2000.0, 1), (1e9, 1), (300.0, 7), (1.0, 9)])
def test_buckets_are_as_many_as_are_needed(bucket_bytes, messages):
    (message,) = sent("ddp", bucket_bytes=bucket_bytes)
    assert message.count == messages
    assert total_bytes(message) == pytest.approx(2 * PSI)


def test_fsdp_sends_one_message_per_layer():
    assert {message.count for message in sent("fsdp", layers=6, micro_batches=2)} == {12}


def test_gradients_are_exchanged_beside_backward_and_parameters_before_they_are_used():
    assert {message.name: (message.phase, message.hides_behind) for message in sent("zero1")} == {
        "gradient scatter": ("backward", "compute"), "parameter gather": ("forward", "compute")
    }  # fmt: skip
    assert [message.phase for message in sent("fsdp")] == ["forward", "backward", "backward"]


def test_hybrid_sharding_sums_the_shards_over_the_copies_beside_backward():
    plain, hybrid = sent("fsdp", micro_batches=3), sent("fsdp", micro_batches=3, shard_ranks=8, hybrid=True)
    assert hybrid[:-1] == plain
    copies = hybrid[-1]
    # Once a step, layer by layer, whatever the micro-batches: one rank's shard of the gradients.
    assert (copies.kind, copies.group, copies.phase) == ("all-reduce", "replica", "backward")
    assert (copies.count, copies.hides_behind) == (4, "compute")
    assert total_bytes(copies) == 2 * PSI / 8


@pytest.mark.parametrize(
    ("mode", "messages", "copied", "behind"), [("bucketed", 4, 2, "compute"), ("flat", 1, 4, ""), ("naive", 9, 0, "")]
)
def test_the_three_ways_of_ddp_send_the_same_bytes(mode, messages, copied, behind):
    # Naive: tensor by tensor, no copies. Flat: one buffer, filled before and emptied after. Both wait for backward.
    (message,) = sent("ddp", ddp_mode=mode)
    assert (message.count, message.hides_behind) == (messages, behind)
    assert total_bytes(message) == pytest.approx(2 * PSI)
    assert message.copies_bytes == copied * 2 * PSI


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_experts_send_what_dense_parameters_do_among_their_own_copies(sharding):
    dense, experts = sent(sharding), sent(sharding, axis="edp")
    assert {message.axis for message in dense} == {"dp"}
    assert [replace(message, axis="edp", group="expert_data") for message in dense] == experts
