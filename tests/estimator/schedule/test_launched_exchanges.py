"""Launched exchanges: what sending gradients, parameters, norms, rows and messages takes the host of a step."""

from __future__ import annotations

import pytest

from estimator.cost.host import EXCHANGE_LAUNCHES, P2P_LAUNCHES, SENT_AFTER_OPS, SUMMED_LAUNCHES, SUMS_OF_ADAM
from tests.estimator.examples import ALIKE, LLAMA, MIXTRAL, built, flawless, scenario


def test_the_host_scatters_zero_2s_buckets_in_every_micro_batch():
    e = flawless(host_launch_s=1.0)
    first, again = (
        built(scenario(LLAMA, plan={"dp": 4, "sharding": sharding}, global_batch=8), e)
        for sharding in ("zero2", "zero1")
    )
    # The tables' gradients of 2 bytes share buckets of 25 MiB with all others: one in all.
    assert first.passes[0].part.host_backward_s == pytest.approx(EXCHANGE_LAUNCHES)
    assert again.passes[0].part.host_backward_s == pytest.approx(EXCHANGE_LAUNCHES / 2)
    after = built(scenario(LLAMA, plan={"dp": 4, "sharding": "zero2", "overlap": False}, global_batch=8), e)
    assert after.passes[0].part.host_backward_s == 0, "no hook does it beside backward"


def test_the_host_sums_gradients_beside_backward_in_buckets_and_after_it_all_at_once_or_one_by_one():
    def sent(mode: str, **plan) -> tuple[float, float]:
        e = flawless(host_launch_s=1.0)
        found = built(scenario(LLAMA, plan={"dp": 4, "ddp_mode": mode, **plan}), e)
        return found.passes[0].part.host_backward_s, found.step.wait_optimizer_s

    tensors = 1 + 4 * 9 + 1 + 1
    assert sent("bucketed") == pytest.approx((EXCHANGE_LAUNCHES, 0.0))
    for mode, exchanges, plan in (("flat", 1, {}), ("naive", tensors, {}), ("bucketed", 1, {"overlap": False})):
        assert sent(mode, **plan) == pytest.approx((0.0, exchanges * EXCHANGE_LAUNCHES), rel=1e-3), mode


@pytest.mark.parametrize("kernel", ["default", "for-loop"])
def test_gradients_of_norms_on_split_sequences_are_summed_however_the_optimizer_runs(kernel):
    e = flawless(host_launch_s=1.0)
    found = {}
    for dp in (1, 2):
        plan = {"tp": 2, "dp": dp, "sequence_parallel": True}
        found[dp] = built(scenario(LLAMA, plan=plan, optimizer_kernel=kernel, global_batch=dp), e).step
    norms = 2 * LLAMA["layers"] + 1
    alone, meets = (found[dp].wait_optimizer_s for dp in (1, 2))
    # Launches of seconds: no lead that backward leaves is any of it.
    assert alone == pytest.approx(norms * SUMS_OF_ADAM * SUMMED_LAUNCHES, rel=1e-3)
    assert meets == pytest.approx(norms * SUMMED_LAUNCHES, rel=1e-3)


@pytest.mark.parametrize("sharding", ["ddp", "zero1", "zero2"])
def test_buckets_of_experts_that_no_other_rank_holds_are_not_sent(sharding):
    e = flawless(host_launch_s=1.0)
    for ep, buckets in ((1, 2), (2, 2), (4, 1)):  # of dense parameters, and of experts where two ranks hold each
        plan = {"dp": 4, "ep": ep, "sharding": sharding}
        one, none = (
            built(scenario(MIXTRAL, plan={**plan, "overlap": overlap}, experts="grouped"), e)
            for overlap in (True, False)
        )
        asked = one.passes[0].part.host_backward_s - none.passes[0].part.host_backward_s
        assert asked == pytest.approx(buckets * EXCHANGE_LAUNCHES), ep


def test_the_device_waits_where_the_host_sends_rows_to_other_ranks_experts():
    e = flawless(host_forward_s=1e-6, **ALIKE)
    away, here = (
        built(scenario(MIXTRAL, plan={"dp": 2, "ep": ep}, experts="grouped", global_batch=4), e) for ep in (2, 1)
    )
    assert (away.passes[0].part.reads, here.passes[0].part.reads) == (4, 0), "once a block"
    assert away.passes[0].wait_forward_s >= 4 * SENT_AFTER_OPS * 1e-6
    megatron = built(scenario(MIXTRAL, plan={"dp": 2, "ep": 2}, framework="megatron", global_batch=4), e)
    assert megatron.passes[0].part.reads == 0


def test_a_rings_host_launches_keys_forward_and_gradients_as_well_backward():
    one = built(scenario(LLAMA, plan={"cp": 4}), flawless(host_launch_s=1.0)).passes[0].part
    # Backward also asks for the sum of the one bucket of gradients.
    backward = 4 * 2 * 3 * P2P_LAUNCHES + EXCHANGE_LAUNCHES
    assert (one.host_forward_s, one.host_backward_s) == (4 * 3 * P2P_LAUNCHES, backward)


def test_the_first_stage_puts_no_weight_gradient_off():
    e = flawless(host_put_off_s=1.0)
    for schedule, first in (("zero-bubble", 0), ("zero-bubble-v", (14 + 1) / 2)):
        one = built(scenario({**LLAMA, "layers": 8}, plan={"pp": 4, "schedule": schedule}, global_batch=8), e)
        found = [each.part.host_backward_s for each in one.passes]
        # Two blocks of seven products each, of the fold one of two stages; there the first rank has the head as well.
        assert found[:2] == pytest.approx([first, 14]), schedule
    plain = built(scenario({**LLAMA, "layers": 8}, plan={"pp": 4}, global_batch=8), e)
    assert [each.part.host_backward_s for each in plain.passes] == [0, 0, 0]


@pytest.mark.parametrize(("schedule", "chunks", "messages"), [("1f1b", 1, [1, 2, 1]), ("interleaved", 2, [3, 4, 3]),
                                                              ("zero-bubble-v", 2, [2, 4, 4])])  # fmt: skip
def test_the_host_launches_each_message_between_pytorchs_stages(schedule, chunks, messages):
    plan = {"pp": 4, "schedule": schedule, "virtual_stages": chunks if schedule == "interleaved" else 1}
    model = {**LLAMA, "layers": 8}
    one = built(scenario(model, plan=plan, global_batch=8), flawless(host_launch_s=1.0))
    for way in ("host_forward_s", "host_backward_s"):
        assert [getattr(each.part, way) for each in one.passes] == pytest.approx([P2P_LAUNCHES * n for n in messages])
    megatron = built(scenario(model, plan=plan, global_batch=8, framework="megatron"), flawless(host_launch_s=1.0))
    assert [each.part.host_forward_s for each in megatron.passes] == [0, 0, 0]
