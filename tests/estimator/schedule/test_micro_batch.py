"""Micro-batch: parts from device and host, collectives in line, and the stages that they make."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from estimator.communication.context import context_messages
from estimator.communication.message import Message, PricedMessage
from estimator.cost.device_time import Work, work_of
from estimator.cost.host import (
    ALL_TO_ALL_LAUNCHES,
    BIAS_PRODUCTS,
    HEAD_NORM_PRODUCTS,
    NORM_KERNEL_PRODUCTS,
    NORM_PRODUCTS,
    P2P_LAUNCHES,
    SENT_AFTER_OPS,
    SENT_OPS,
)
from estimator.operations.rank_sizes import rank_sizes
from estimator.operations.transformer import network
from estimator.scenario.training import Training
from estimator.schedule.micro_batch import Part, Stages, StageTimes, part_of, slowest, stage_pass, total, with_messages
from tests.estimator.examples import ALIKE, GPT, LLAMA, flawless, scenario

E = flawless()
HOST = flawless(host_forward_s=1.0, host_backward_s=2.0, host_collective_s=10.0, **ALIKE)
EAGER = Training(seq_len=1, global_batch=1)
WORK = Work(
    products=0.0,
    norm_launches={"forward": 1.0, "backward": 3.0},
    seconds={"forward": [1.0, 2.0, 3.0, 4.0, 5.0], "input": [6.0, 0.0, 0.0, 0.0, 7.0], "weight": [8.0, 0, 0, 0, 9.0]},
    launches={"forward": 1.0, "recomputed": 2.0, "input": 3.0, "weight": 4.0},
    priced=(),
)


def message(phase: str, *, count: float, host: float = 1.0) -> Message:
    return Message(name="x", kind="all-reduce", axis="tp", group="tp", phase=phase, payload_bytes=1.0, count=count,
                   host=host)  # fmt: skip


def test_directions_add_their_components():
    found = part_of(WORK, [], EAGER, HOST)
    assert (found.forward_s, found.input_s, found.weight_s) == (15.0, 13.0, 17.0)
    # All but the memory-bound kernels fill the chip.
    assert (found.products_forward_s, found.products_backward_s) == (10.0, 14.0)


def test_recomputed_kernels_are_launched_like_forward_and_belong_to_backward():
    found = part_of(WORK, [], EAGER, HOST)
    assert (found.launches_forward, found.launches_backward) == (1.0, 9.0)
    assert (found.host_forward_s, found.host_backward_s) == (1.0, 2.0 + 7 * 2.0)


def test_plain_pytorch_goes_through_views_as_through_kernels():
    host = replace(HOST, host_forward_dispatches_per_kernel=2.0, host_backward_dispatches_per_kernel=4.0)
    views = {"forward": 5.0, "recomputed": 6.0, "input": 1.0, "weight": 4.0}
    found = part_of(replace(WORK, views=views), [], EAGER, host)
    assert found.host_forward_s == (1 + 5) / 2 * 1.0
    assert found.host_backward_s == (2 + 6) / 2 * 1.0 + (7 + 5) / 4 * 2.0
    assert found.launches_forward == 1.0, "no kernel of the device"
    for other in (replace(EAGER, framework="megatron"), replace(EAGER, framework="pytorch-compile")):
        assert part_of(replace(WORK, views=views), [], other, host) == part_of(WORK, [], other, host)


def test_kernels_of_plain_pytorch_cost_any_framework_what_they_cost_there():
    megatron = replace(EAGER, framework="megatron")
    plain = {"forward": 5.0, "recomputed": 6.0, "input": 1.0, "weight": 4.0}
    found, without = (part_of(work, [], megatron, HOST) for work in (replace(WORK, plain=plain), WORK))
    assert found.host_forward_s == without.host_forward_s + 5 * HOST.host_forward_s
    more_s = 6 * HOST.host_forward_s + 5 * HOST.host_backward_s
    assert found.host_backward_s == without.host_backward_s + more_s
    assert found.launches_forward == without.launches_forward + 5
    assert found.launches_backward == without.launches_backward + 11


def test_products_of_sizes_that_a_router_chose_keep_the_host_longer():
    new = replace(WORK, new_s={"forward": 7.0, "backward": 9.0})
    found, plain = (part_of(work, [], EAGER, HOST) for work in (new, WORK))
    assert found.host_forward_s == plain.host_forward_s + 7.0
    assert found.host_backward_s == plain.host_backward_s + 9.0
    megatron = replace(EAGER, framework="megatron")
    assert part_of(new, [], megatron, HOST) == part_of(WORK, [], megatron, HOST)


def test_a_host_that_waits_for_a_router_has_no_lead():
    work = replace(WORK, expert_calls=12.0, experts_s=[1.0, 0.0, 0.0, 0.0, 2.0])
    loop, grouped = (replace(EAGER, experts=way) for way in ("loop", "grouped"))
    read = part_of(work, [], loop, HOST)
    assert (read.reads, read.read_host_s, read.read_device_s) == (1.0, 12.0, 3.0)
    assert part_of(work, [], grouped, HOST).reads == 0.0, "its host need not know how many rows there are"
    sent = replace(message("forward", count=2.0), axis="ep", sized=2.0)
    away = part_of(work, [sent], grouped, HOST)
    assert away.reads == 1.0
    sends = replace(HOST, host_forward_s=0.0)
    assert part_of(work, [sent], grouped, sends).host_forward_s == part_of(work, [], grouped, sends).host_forward_s
    for way, ops in SENT_OPS.items():
        found = [getattr(part_of(work, messages, grouped, HOST), f"host_{way}_s") for messages in ([sent], [])]
        assert found[0] - found[1] == ops, "beside what blocks in the exchange, which is nothing here"
    assert away.sent_after_s == SENT_AFTER_OPS
    priced = with_messages(away, [PricedMessage(message=sent, ranks=2, seconds=9.0, exposed_s=4.0)])
    assert priced.read_device_s == 3.0 + 4.0
    # The device, which takes 15 in all, waits 12 − 3 for the experts whatever it did before, and the host 12.
    quick = replace(read, host_forward_s=13.0)
    assert stage_pass(quick, E).wait_forward_s == 9.0
    assert stage_pass(replace(quick, reads=0.0, read_host_s=0.0, read_device_s=0.0), E).wait_forward_s == 0.0
    # Nor has it one of the micro-batch before, however far it had run ahead of that one's backward.
    many = [stage_pass(quick, E, in_a_row=often) for often in (1.0, 4.0)]
    assert many[1].lead_s > 9.0
    assert many[1].wait_forward_s == many[0].wait_forward_s
    # A start without a lead is the first micro-batch's alone.
    assert stage_pass(replace(quick, host_forward_s=26.0), E, in_a_row=4.0).wait_forward_s == 9.0 + 2.0 / 4


def test_experts_take_the_device_what_a_variant_says_of_their_components():
    work = replace(WORK, expert_calls=12.0, experts_s=[1.0, 0.0, 0.0, 0.0, 2.0])
    scale = np.array([[1.0, 3.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 0.5]])
    found = part_of(work, [], replace(EAGER, experts="loop"), HOST, scale)
    assert found.read_device_s.tolist() == [3.0, 4.0]


def test_kernels_that_add_gradients_run_while_the_host_is_late():
    part = Part(forward_s=1.0, input_s=2.0, host_forward_s=1.0, host_backward_s=9.0)
    alone, beside = (stage_pass(part, E, added_s=added_s) for added_s in (0.0, 4.0))
    assert (alone.wait_backward_s, beside.wait_backward_s) == (7.0, 3.0)
    assert alone.window_backward_s == beside.window_backward_s == 9.0, "exchanges hide beside both"
    ahead = stage_pass(part, E, added_s=20.0)
    assert (ahead.lead_s, ahead.window_backward_s) == (2.0 + 20.0 - 9.0, 9.0)


def test_pytorchs_host_launches_each_batch_of_sends_and_receives():
    launch = flawless(host_launch_s=1.0)
    ring = replace(message("backward", count=3.0), kind="p2p", batches=2.0)
    found = part_of(WORK, [ring, message("backward", count=5.0)], EAGER, launch)
    assert (found.host_forward_s, found.host_backward_s) == (0.0, 3 * 2 * P2P_LAUNCHES)
    assert part_of(WORK, [ring], replace(EAGER, framework="megatron"), launch).host_backward_s == 0.0


def test_collectives_cost_the_host_as_often_as_they_run():
    found = part_of(WORK, [message("forward", count=3.0, host=4.0), message("backward", count=2.0)], EAGER, HOST)
    # Three blocking collectives wait for the slowest of four ranks; one rank alone waits for nobody.
    assert found.host_forward_s == pytest.approx(1.0 + 3 * 10.0 * 1.029)
    assert found.host_backward_s == 2.0 + 7 * 2.0
    assert (found.inline_forward_s, found.inline_backward_s) == (0.0, 0.0), "priced where the group stands"


def test_products_that_are_recomputed_go_through_dtensor_once_more():
    host = replace(HOST, host_dtensor_s=6.0)
    met = message("forward", count=1.0, host=2.0)
    plain = part_of(replace(WORK, products=4.0), [met], EAGER, host)
    again = part_of(replace(WORK, products=4.0, products_again=3.0), [met], EAGER, host)
    assert again.host_forward_s == plain.host_forward_s
    assert again.host_backward_s == plain.host_backward_s + 3 * 6.0


def test_norms_of_a_split_sequence_go_through_dtensor():
    host = replace(HOST, host_dtensor_s=6.0)
    scatter = replace(message("forward", count=1.0, host=2.0), kind="reduce-scatter")
    work = replace(WORK, norms=2.0)
    found, plain = (part_of(work, [one], EAGER, host) for one in (scatter, replace(scatter, kind="all-reduce")))
    norms, kernel = 2 * NORM_PRODUCTS, NORM_KERNEL_PRODUCTS
    assert found.host_forward_s == pytest.approx(plain.host_forward_s + 6.0 * (norms + 1 * kernel))
    assert found.host_backward_s == pytest.approx(plain.host_backward_s + 6.0 * (norms + 3 * kernel))
    megatron = replace(EAGER, framework="megatron")
    its, whole = (part_of(work, [one], megatron, host) for one in (scatter, replace(scatter, kind="all-reduce")))
    assert (its.host_forward_s, its.host_backward_s) == (whole.host_forward_s, whole.host_backward_s)
    layer = part_of(work, [scatter], EAGER, host, norm_tensors=2.0)
    assert layer.host_forward_s == pytest.approx(found.host_forward_s + 6.0 * norms), "a weight and a bias"
    assert (found.summed_norms, layer.summed_norms, plain.summed_norms) == (2.0, 4.0, 0.0)


def test_norms_of_split_heads_and_biases_of_split_products_go_through_dtensor():
    host = replace(HOST, host_dtensor_s=6.0)
    met = message("forward", count=1.0, host=2.0)
    plain = part_of(replace(WORK, products=4.0), [met], EAGER, host)
    biased = part_of(replace(WORK, products=4.0, biased=2.0), [met], EAGER, host)
    assert biased.host_forward_s - plain.host_forward_s == pytest.approx(6.0 * 2 * BIAS_PRODUCTS)
    heads = part_of(replace(WORK, products=4.0, head_norms=2.0, head_norms_again=1.0), [met], EAGER, host)
    of = HEAD_NORM_PRODUCTS
    assert heads.host_forward_s - plain.host_forward_s == pytest.approx(6.0 * 2 * of["forward"])
    assert heads.host_backward_s - plain.host_backward_s == pytest.approx(6.0 * (2 * of["backward"] + of["forward"]))
    assert heads.summed_norms == 2.0
    alone = part_of(replace(WORK, products=4.0, head_norms=2.0), [], EAGER, host)
    assert alone.host_forward_s == part_of(WORK, [], EAGER, host).host_forward_s, "nothing is split"


def test_what_shows_of_priced_messages_stands_in_line():
    part = part_of(WORK, [], EAGER, HOST)
    priced = [
        PricedMessage(message=message(phase, count=count), ranks=4, seconds=100.0, exposed_s=exposed_s)
        for phase, count, exposed_s in (("forward", 3.0, 6.0), ("backward", 2.0, 0.5), ("backward", 1.0, 0.25))
    ]
    # Seconds are of all executions already.
    assert with_messages(part, priced) == replace(part, inline_forward_s=6.0, inline_backward_s=0.75)


def test_components_can_be_scaled():
    found = part_of(WORK, [], EAGER, HOST, np.array([2.0, 2.0, 1.0, 0.0, 10.0]))
    assert found.forward_s == 2 + 4 + 3 + 0 + 50
    assert found.products_forward_s == 2 + 4 + 3
    assert found.host_forward_s == 1.0


def test_a_total_takes_each_part_as_often_as_it_runs():
    one, other = Part(forward_s=1.0, launches_forward=2.0), Part(forward_s=10.0, weight_s=3.0)
    assert total([(one, 4.0), (other, 0.5)]) == Part(forward_s=9.0, weight_s=1.5, launches_forward=8.0)
    many = total([(one, np.array([1.0, 2.0])), (other, 1.0)])
    assert many.forward_s == pytest.approx([11.0, 12.0])


PART = Part(
    forward_s=4.0, input_s=5.0, weight_s=3.0, products_forward_s=1.0, products_backward_s=6.0,
    host_forward_s=2.0, host_backward_s=6.0, launches_forward=10.0, launches_backward=20.0,
    inline_forward_s=0.5, inline_backward_s=0.25,
)  # fmt: skip


def test_a_host_that_runs_ahead_leaves_device_and_collectives():
    found = stage_pass(PART, E)
    assert (found.wait_forward_s, found.wait_backward_s) == (0.0, 0.0)
    assert found.backward_s == 8.0
    times = found.times
    assert (times.forward_s, times.input_s, times.weight_s) == (4.5, 5.25, 3.0)
    assert times.seconds == 12.75
    # Ahead by what the device takes longer: 4.5 − 2 in forward, 8.25 − 6 in backward.
    assert found.lead_s == 4.75


def test_a_slow_host_sets_the_pace():
    found = stage_pass(Part(forward_s=4.0, host_forward_s=10.0, input_s=5.0, host_backward_s=7.0), E)
    assert found.window_forward_s == 10.0
    assert found.window_backward_s == 7.0
    assert found.lead_s == 0.0


@pytest.mark.parametrize(
    ("host_forward_s", "host_backward_s", "waited_s"),
    [
        (10.0, 5.0, 6.0),  # 6 s late in the first forward; then 3 s of lead for 6 s of lag, and 3 s are waited for
        (10.0, 1.0, 6.0),  # a lead of 7 s covers the lag of all but the first
        (10.0, 9.0, 6.0),  # backward leaves no lead: each forward waits
        (3.0, 4.0, 0.0),
    ],
)
def test_micro_batches_in_a_row_begin_with_the_lead_of_the_one_before(host_forward_s, host_backward_s, waited_s):
    part = Part(forward_s=4.0, host_forward_s=host_forward_s, input_s=8.0, host_backward_s=host_backward_s)
    one, many = stage_pass(part, E), stage_pass(part, E, in_a_row=5.0)
    assert one.wait_forward_s == waited_s
    # Played out: the host launches one pass after the other, and the device ends none before it is launched.
    host_s = device_s = 0.0
    for launching_s, running_s in [(host_forward_s, 4.0), (host_backward_s, 8.0)] * 5:
        host_s += launching_s
        device_s = max(device_s + running_s, host_s)
    assert 5 * (many.window_forward_s + many.window_backward_s) == pytest.approx(device_s)


def test_collectives_in_line_cover_a_host_that_lags():
    found = stage_pass(Part(forward_s=4.0, inline_forward_s=5.0, host_forward_s=10.0), E)
    assert found.wait_forward_s == 1.0
    assert found.times.forward_s == 10.0


def test_every_launch_leaves_a_gap():
    found = stage_pass(PART, flawless(kernel_gap_s=0.01))
    assert found.wait_forward_s == pytest.approx(0.1)
    assert found.wait_backward_s == pytest.approx(0.2)


def test_products_are_a_share_of_the_window():
    found = stage_pass(PART, E)
    assert found.products_forward_frac == 1 / 4
    assert found.products_backward_frac == 6 / 8
    assert stage_pass(Part(), E).products_forward_frac == 0.0


def test_offload_shows_what_compute_does_not_hide():
    found = stage_pass(PART, E, offload_s=5.0)
    assert (found.transfer_forward_s, found.transfer_backward_s) == (1.0, 0.0)
    assert found.times.forward_s == 5.5


def test_the_slowest_stage_sets_the_pace_and_the_first_among_equals():
    passes = [stage_pass(Part(forward_s=seconds), E) for seconds in (1.0, 3.0, 3.0)]
    assert slowest(passes) == (1, passes[1])


def test_each_of_many_plans_has_its_own_slowest_stage():
    columns = ([1.0, 5.0, 2.0], [2.0, 2.0, 2.0], [3.0, 1.0, 2.0])
    passes = [stage_pass(Part(forward_s=np.array(column)), E) for column in columns]
    index, one = slowest(passes)
    assert list(index) == [2, 0, 0]
    assert list(one.times.forward_s) == [3.0, 5.0, 2.0]


def times(seconds) -> StageTimes:
    return StageTimes(forward_s=seconds / 4, input_s=seconds / 2, weight_s=seconds / 4)


def test_a_stage_is_forward_and_both_halves_of_backward():
    assert StageTimes(forward_s=1.0, input_s=2.0, weight_s=4.0).seconds == 7.0


def test_two_stages_have_no_middle_that_sets_the_pace():
    assert [Stages(first=times(2.0), middle=times(8.0), last=times(4.0), count=n).slowest_s for n in (2, 3)] == [
        4.0,
        8.0,
    ]
    found = Stages(first=times(2.0), middle=times(8.0), last=times(4.0), count=np.array([2, 3]))
    assert list(found.slowest_s) == [4.0, 8.0]


def test_all_stages_together():
    total = Stages(first=times(2.0), middle=times(8.0), last=times(4.0), count=5).total
    assert (total.forward_s, total.input_s, total.weight_s) == (7.5, 15.0, 7.5)
    assert total.seconds == 2 + 3 * 8 + 4


def test_a_checkpointed_region_keeps_the_host_beside_the_ops_that_run_again():
    regions = {"host_region_ops": 30.0, "host_region_backward_ops": 40.0, "host_packed_ops": 1.0,
               "host_packed_backward_ops": 3.0}  # fmt: skip
    host, plain = replace(HOST, **regions), replace(HOST, **dict.fromkeys(regions, 0.0))
    work = replace(WORK, regions=0.5, packed=7.0)
    more, none = part_of(work, [], EAGER, host), part_of(work, [], EAGER, plain)
    assert more.host_forward_s - none.host_forward_s == 0.5 * 30 + 7 * 1
    assert more.host_backward_s - none.host_backward_s == 0.5 * 40 + 7 * 3
    for other in (replace(EAGER, framework="megatron"), replace(EAGER, framework="pytorch-compile")):
        assert part_of(work, [], other, host) == part_of(work, [], other, plain), "they have their own"


@pytest.mark.parametrize("model", [GPT, LLAMA])
def test_a_reentrant_forward_takes_what_one_without_autograd_does_whatever_views_it_has(model):
    host = replace(HOST, host_forward_dispatches_per_kernel=2.0, host_unrecorded_frac=0.75)
    training = replace(EAGER, framework="transformers")

    def forward_s(recompute: str) -> float:
        one = scenario(model, plan={"recompute": recompute}, framework="transformers")
        return float(part_of(work_of(network(rank_sizes(one)).blocks[0].ops, one.cluster.chip, E), [], training, host)
                     .host_forward_s)  # fmt: skip

    assert forward_s("full") == pytest.approx(0.75 * forward_s("none"))


def test_regions_are_of_all_blocks_that_one_checkpoint_takes_together():
    def regions(**plan: Any) -> list[float]:
        one = scenario(plan=plan)
        return [work_of(block.ops, one.cluster.chip, E).regions for block in network(rank_sizes(one)).blocks]

    assert regions() == [0.0]
    assert regions(recompute="full") == regions(recompute="selective") == [1.0]
    assert regions(recompute="full", recompute_every=2) == [0.5]


@pytest.mark.parametrize(("cp_kind", "forward"), [
    ("ulysses", 4 * ALL_TO_ALL_LAUNCHES), ("ring", P2P_LAUNCHES), ("all-gather", P2P_LAUNCHES),
])  # fmt: skip
def test_what_ranks_of_a_sequence_exchange_is_handed_over_by_the_host(cp_kind, forward):
    def handed(cp: int) -> float:
        sent = context_messages(
            cp_kind=cp_kind, cp=cp, tokens=8, query_width=8, key_width=8, value_width=8, output_width=8,
            element_bytes=2.0,
        )  # fmt: skip
        host = replace(HOST, host_launch_s=3.0)
        more, none = (part_of(WORK, messages, EAGER, host) for messages in (sent, []))
        return (more.host_forward_s - none.host_forward_s) / 3.0

    assert handed(2) == forward
    assert handed(1) == 0.0
