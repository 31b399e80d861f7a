"""Step: each part of the critical path by hand, with efficiencies of 1 and no overheads unless a test adds one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import pytest

from estimator.cost.efficiency import Efficiencies, efficiencies
from estimator.cost.price import price
from estimator.estimate.estimate import estimate
from estimator.estimate.host_pace import at_pace
from estimator.estimate.report import Collective, collectives_of, phases_and_breakdown
from estimator.memory.stage_layout import StageKind
from estimator.memory.stage_parameters import stage_parameters
from estimator.operations.op import Op
from estimator.scenario.breakdown import CATEGORIES, PHASES
from estimator.scenario.parameters import parameters
from estimator.scenario.scenario import Scenario, scenario_from_json
from estimator.schedule.schedules import held_up_s
from tests.estimator.examples import ALIKE, GPT, LLAMA, Built, built, document, flawless, scenario

COUNT = parameters(scenario(LLAMA).model)
GRADIENTS = 2 * COUNT
LINK, MEMORY = 1e10, 1e11


@dataclass(frozen=True)
class Found:
    """A priced step as people read it."""

    seconds: float
    critical_stage: int
    phases_s: dict[str, float]
    breakdown_s: dict[str, float]
    wait_s: dict[str, float]
    collectives: tuple[Collective, ...]

    @property
    def sent(self) -> tuple[Collective, ...]:
        """What travels on links: all but copies."""
        return tuple(c for c in self.collectives if c.kind != "copy")


def priced(one: Scenario, e: Efficiencies | None = None) -> Found:
    found = built(one, e)
    phases, breakdown = phases_and_breakdown(found.step, found.rank, found.setting)
    timing = found.step
    return Found(
        seconds=timing.seconds,
        critical_stage=int(timing.critical_stage),
        phases_s=phases,
        breakdown_s=breakdown,
        wait_s={
            "forward": timing.wait_start_s + timing.wait_forward_s,
            "backward": timing.wait_backward_s,
            "optimizer": timing.wait_optimizer_s,
        },
        collectives=collectives_of(timing, found.lines, found.setting),
    )


def run(model=LLAMA, *, e: Efficiencies | None = None, **rest) -> Found:
    return priced(scenario(model, **rest), e)


def executions(found: Built, kind: StageKind) -> list[tuple[Op, float]]:
    """Every op of a stage with how often one micro-batch runs it there."""
    ops = found.rank.ops
    runs = [(block.ops, count) for block, count in zip(ops.blocks, kind.blocks, strict=True)]
    runs += [(ops.embedding, 1.0)] if kind.embedding else []
    runs += [(ops.head, 1.0)] if kind.head else []
    return [(op, times * op.count) for group, times in runs for op in group]


def device_s(found: Built, kind: StageKind, *phases: str) -> float:
    chip = found.setting.cluster.chip
    return sum(price(op, chip, flawless()).seconds * n for op, n in executions(found, kind) if op.phase in phases)


def launches(found: Built, phase: str, *, recomputed: bool = False) -> float:
    return sum(
        (op.launches + op.views) * n
        for op, n in executions(found, found.setting.kinds[0])
        if op.phase == phase and op.recomputed == recomputed
    )


def test_one_chip_computes_and_updates():
    one = built(scenario(LLAMA))
    (stage,) = one.setting.kinds
    found = run()
    assert found.phases_s["forward"] == pytest.approx(device_s(one, stage, "forward"))
    assert found.phases_s["backward"] == pytest.approx(device_s(one, stage, "backward"))
    # 20 accesses of 2 bytes to each parameter.
    assert found.phases_s["optimizer"] == pytest.approx(40 * COUNT / MEMORY)
    assert [found.phases_s[name] for name in PHASES[3:]] == [0, 0, 0]
    assert found.collectives == ()
    assert (
        found.seconds == pytest.approx(sum(found.phases_s.values())) == pytest.approx(sum(found.breakdown_s.values()))
    )
    assert tuple(found.breakdown_s) == CATEGORIES


def test_micro_batches_repeat_both_passes_and_add_up_gradients():
    once, four = run(), run(global_batch=4)
    assert four.phases_s["forward"] == pytest.approx(4 * once.phases_s["forward"])
    accumulation = 3 * 3 * GRADIENTS / MEMORY
    assert four.phases_s["backward"] == pytest.approx(4 * once.phases_s["backward"] + accumulation)
    assert four.phases_s["optimizer"] == once.phases_s["optimizer"]


def data_parallel(sharding: str, **rest) -> Found:
    plan = {"dp": 4, "sharding": sharding, **rest.pop("plan", {})}
    return run(plan=plan, **rest)


def test_without_overlap_ddp_pays_for_its_all_reduce_and_its_copies():
    found = data_parallel("ddp", plan={"overlap": False})
    (exchange,) = found.sent
    assert (exchange.kind, exchange.axis, exchange.ranks) == ("all-reduce", "dp", 4)
    assert exchange.bytes * exchange.count == GRADIENTS
    assert exchange.seconds == exchange.exposed_s == pytest.approx(2 * 3 / 4 * GRADIENTS / LINK)
    # Into the buckets and back: a read and a write of all gradients.
    copies = 2 * GRADIENTS / MEMORY
    assert found.phases_s["exposed_communication"] == pytest.approx(exchange.seconds + copies)
    (row,) = (c for c in found.collectives if c.kind == "copy")
    assert (row.seconds, row.exposed_s) == (pytest.approx(copies), pytest.approx(copies))


def test_without_contention_ddp_hides_behind_a_long_backward():
    found = data_parallel("ddp", seq_len=8192)
    assert 0 < found.collectives[0].seconds < found.phases_s["backward"]
    assert found.collectives[0].exposed_s == 0
    assert found.phases_s["exposed_communication"] == pytest.approx(2 * GRADIENTS / MEMORY), "its copies"


def test_contention_exposes_the_share_of_matrix_products():
    e = flawless(contention_frac=1.0)
    one = built(scenario(LLAMA, plan={"dp": 4}, seq_len=8192))
    (stage,) = one.setting.kinds
    chip = one.setting.cluster.chip
    backward = [(op, price(op, chip, e).seconds * n) for op, n in executions(one, stage) if op.phase == "backward"]
    total = sum(seconds for _, seconds in backward)
    products = sum(seconds for op, seconds in backward if op.category in ("matmul", "attention"))
    found = data_parallel("ddp", seq_len=8192, e=e)
    exchange, copies = found.collectives[0].seconds, 2 * GRADIENTS / MEMORY
    assert found.phases_s["exposed_communication"] == pytest.approx(exchange * products / total + copies)


def test_only_the_last_micro_batchs_backward_hides_ddp():
    # A slow link and a short sequence: all but one backward of exchange and copies is exposed, however many there are.
    one, eight = data_parallel("ddp"), data_parallel("ddp", global_batch=32)
    exchange = 2 * 3 / 4 * GRADIENTS / LINK + 2 * GRADIENTS / MEMORY
    assert one.phases_s["exposed_communication"] == pytest.approx(exchange - one.phases_s["backward"])
    assert eight.phases_s["exposed_communication"] == pytest.approx(one.phases_s["exposed_communication"])


def test_fsdp_hides_behind_each_phase_once():
    # Gather and scatter share the links: together they cannot hide more than backward lasts.
    found = data_parallel("fsdp")
    exchange = 3 * 3 / 4 * GRADIENTS / LINK
    assert sum(c.seconds for c in found.sent) == pytest.approx(exchange)
    passes = found.phases_s["forward"] + found.phases_s["backward"]
    copies = 3 * 2 * GRADIENTS / MEMORY
    assert found.phases_s["exposed_communication"] == pytest.approx(exchange + copies - passes)


def test_fsdp_exchanges_and_hides_in_every_micro_batch():
    once, four = data_parallel("fsdp"), data_parallel("fsdp", global_batch=16)
    expected = 4 * once.phases_s["exposed_communication"]
    assert four.phases_s["exposed_communication"] == pytest.approx(expected)


def test_zero_1_gathers_in_forward_what_ddp_sums_in_backward():
    found = data_parallel("zero1", plan={"overlap": False})
    assert {c.name: c.phase for c in found.sent} == {
        "gradient scatter": "backward",
        "parameter gather": "forward",
    }
    assert sum(c.seconds for c in found.sent) == pytest.approx(2 * 3 / 4 * GRADIENTS / LINK)
    assert found.phases_s["optimizer"] == pytest.approx(40 * COUNT / 4 / MEMORY)


def test_tensor_parallel_collectives_stand_in_line():
    found = run(GPT, plan={"tp": 2}, framework="megatron")
    payload = 128 * 256 * 2
    # Each of 4 blocks sums twice each way; embedding and head once; three scalars of 4 bytes per token in the loss.
    expected = ((4 * 4 + 2) * payload + 3 * 4 * 128) * 2 * 1 / 2 / LINK
    assert found.phases_s["exposed_communication"] == pytest.approx(expected)
    assert {c.axis for c in found.collectives} == {"tp"}
    twice = run(GPT, plan={"tp": 2}, framework="megatron", global_batch=2)
    assert twice.phases_s["exposed_communication"] == pytest.approx(2 * expected)


def test_the_pipeline_waits_once_for_every_other_stage():
    one = built(scenario(LLAMA, plan={"pp": 2}, global_batch=5))
    first, _, last = one.setting.kinds
    found = run(plan={"pp": 2}, global_batch=5)
    passes = [device_s(one, stage, "forward", "backward") for stage in (first, last)]
    assert found.critical_stage == 2, "the last of the three kinds: it has the head"
    assert found.phases_s["bubble"] == pytest.approx(passes[0])
    # Gradients add up and the optimizer runs on the first stage, which ends its backward last.
    held, _, _, _, _ = stage_parameters(one.setting.shard, first)
    accumulation = 4 * 3 * 2 * held / MEMORY
    assert found.phases_s["optimizer"] == pytest.approx(40 * held / MEMORY)
    assert found.phases_s["forward"] + found.phases_s["backward"] == pytest.approx(5 * passes[1] + accumulation)
    # A message each way to fill and drain; of two stages each sends one way only per further micro-batch.
    send = 1e-6 + 128 * 256 * 2 / LINK
    assert found.phases_s["exposed_communication"] == pytest.approx(send * (2 + 4))


def test_stages_on_different_nodes_use_the_network():
    inside = run(plan={"pp": 2})
    across = run(plan={"pp": 2}, chips_per_node=1)
    send = [1e-6 + 128 * 256 * 2 / LINK, 1e-5 + 128 * 256 * 2 / 1e9]
    assert inside.phases_s["exposed_communication"] == pytest.approx(2 * send[0])
    assert across.phases_s["exposed_communication"] == pytest.approx(2 * send[1])


def test_messages_beside_compute_show_while_the_pipeline_fills_and_drains():
    def shown(**plan: object) -> float:
        return run(plan={"pp": 4, **plan}, global_batch=8).phases_s["exposed_communication"]

    send = 1e-6 + 128 * 256 * 2 / LINK
    assert shown(pp_overlap=True) == pytest.approx(2 * 3 * send)
    assert shown(pp_overlap=True) < shown()


def test_sequence_parallel_stages_send_their_share():
    split = run(plan={"pp": 2, "tp": 2, "sequence_parallel": True})
    whole = run(plan={"pp": 2, "tp": 2})
    (sent,), (sent_whole,) = ([c for c in found.collectives if c.axis == "pp"] for found in (split, whole))
    assert sent.bytes == sent_whole.bytes / 2


def test_the_device_waits_for_the_host():
    one = built(scenario(LLAMA))
    e = flawless(host_forward_s=1e-2, host_backward_s=2e-2, host_tensor_s=3e-2, host_step_s=4e-2, **ALIKE)
    found = run(e=e)
    forward, backward = launches(one, "forward") * 1e-2, launches(one, "backward") * 2e-2
    assert found.phases_s["forward"] + found.wait_s["forward"] == pytest.approx(forward + 4e-2)
    assert found.phases_s["backward"] + found.wait_s["backward"] == pytest.approx(backward)
    assert found.wait_s["optimizer"] == pytest.approx(39 * 3e-2)
    assert found.phases_s["host_wait"] == pytest.approx(sum(found.wait_s.values()))
    assert found.breakdown_s["host"] == found.phases_s["host_wait"]


def test_a_host_that_ran_ahead_walks_over_the_tensors_unseen():
    def wait(seq_len: int) -> float:
        return run(seq_len=seq_len, e=flawless(host_tensor_s=1e-4)).wait_s["optimizer"]

    # The host is done at once, so that its lead is all that the device still computes; 39 tensors take 3.9 ms.
    short = run(e=flawless())
    passes = short.phases_s["forward"] + short.phases_s["backward"]
    assert wait(128) == pytest.approx(39e-4 - passes)
    assert wait(8192) == 0.0


def test_recomputed_kernels_are_launched_like_forward():
    one = built(scenario(LLAMA, plan={"recompute": "full"}))
    found = run(plan={"recompute": "full"}, e=flawless(host_forward_s=1e-2, host_backward_s=2e-2, **ALIKE))
    expected = launches(one, "backward") * 2e-2 + launches(one, "backward", recomputed=True) * 1e-2
    assert found.phases_s["backward"] + found.wait_s["backward"] == pytest.approx(expected)


def test_a_host_that_runs_ahead_in_forward_gains_for_backward():
    def waits(host_forward_s: float) -> float:
        e = flawless(host_forward_s=host_forward_s, host_backward_s=1e-6)
        return run(seq_len=8192, e=e).wait_s["backward"]

    assert waits(0.0) == 0.0


def test_a_lead_that_the_head_gives_comes_too_late_for_the_blocks_before_it():
    # Blocks whose host binds forward, though forward with its long head does not, and backward that the device binds
    model = {**LLAMA, "layers": 4, "vocab": 2**18}
    quick, never = (
        built(scenario(model, seq_len=2048), flawless(host_forward_s=each_s, **ALIKE)) for each_s in (1e-4, 0.0)
    )
    (passed,) = quick.passes
    blocks = 4 * float(quick.parts.blocks[0].host_forward_s), 4 * float(quick.parts.blocks[0].forward_s)
    assert passed.part.host_forward_s < passed.part.forward_s, "forward as a whole"
    assert blocks[0] > blocks[1]
    assert passed.wait_forward_s == pytest.approx(blocks[0] - blocks[1], rel=0.05)
    assert quick.step.seconds - never.step.seconds == pytest.approx(float(passed.wait_forward_s), rel=1e-6)
    start = built(scenario(model, seq_len=2048), flawless(host_forward_s=1e-4, host_start_kernels=30.0, **ALIKE))
    assert start.step.seconds == pytest.approx(quick.step.seconds), "blocks that wait for their host have waited for it"


def test_a_loss_and_the_backward_from_it_take_the_host_beside_their_ops():
    late = {"host_forward_s": 1e-3, "host_backward_s": 1e-3, **ALIKE}
    each = {"host_pass_forward_kernels": 20.0, "host_pass_backward_kernels": 30.0}
    without, found = (run(LLAMA, global_batch=4, e=flawless(**late, **more)) for more in ({}, each))
    assert found.seconds - without.seconds == pytest.approx(4 * 50 * 1e-3)


def test_blocking_collectives_cost_the_host_what_the_slowest_rank_is_late():
    e = flawless(host_collective_s=1.0)
    found = run(GPT, plan={"tp": 4}, framework="megatron", e=e)
    # 2 sums in each of 4 blocks, 1 in the embedding, 3 in the loss; backward 2 per block and 1 in the head.
    assert found.phases_s["host_wait"] == pytest.approx((8 + 4 + 8 + 1) * 1.029, rel=0.01)


def test_the_ideal_framework_never_waits():
    found = run(framework="ideal", e=flawless(host_forward_s=1.0, host_step_s=1.0, host_tensor_s=1.0))
    assert found.phases_s["host_wait"] == 0


def test_recomputation_lengthens_backward_only():
    none, full = run(), run(plan={"recompute": "full"})
    assert full.phases_s["forward"] == pytest.approx(none.phases_s["forward"])
    assert full.phases_s["backward"] > none.phases_s["backward"]
    assert full.phases_s["backward"] < none.phases_s["backward"] + none.phases_s["forward"]


def test_three_ways_of_ddp():
    # Naive: tensor by tensor after backward, nothing copied. Flat: one exchange, a copy each way of read and write.
    exchange = 2 * 3 / 4 * GRADIENTS / LINK
    naive, flat = (
        data_parallel("ddp", plan={"ddp_mode": mode}, seq_len=8192).phases_s["exposed_communication"]
        for mode in ("naive", "flat")
    )
    assert naive == pytest.approx(exchange)
    assert flat == pytest.approx(exchange + 4 * GRADIENTS / MEMORY)


def test_hybrid_sharding_sums_its_shards_over_the_copies():
    plan = {"dp": 8, "sharding": "fsdp", "overlap": False}
    hybrid = run(plan={**plan, "shard_ranks": 2}, chips_per_node=2)
    # Scattered over a node's 2 ranks; half of the gradients summed layer by layer over 4 nodes' ports of 1 GB/s.
    copies = next(c for c in hybrid.sent if c.kind == "all-reduce")
    assert (copies.ranks, copies.count, copies.bytes * copies.count) == (4, 4, GRADIENTS / 2)
    assert copies.exposed_s == copies.seconds == pytest.approx(2 * 3 / 4 * GRADIENTS / 2 / 1e9 + 4 * 2 * 2 * 1e-5)
    others = [c for c in hybrid.sent if c.kind != "all-reduce"]
    assert {c.ranks for c in others} == {2}
    assert sum(c.seconds for c in others) == pytest.approx(3 * 1 / 2 * GRADIENTS / LINK)


def test_context_parallel_ranks_share_gradients_too():
    found = run(plan={"dp": 2, "cp": 2, "overlap": False})
    exchange = next(c for c in found.sent if c.axis == "dp")
    assert exchange.ranks == 4
    assert exchange.seconds == pytest.approx(2 * 3 / 4 * GRADIENTS / LINK)


def test_experts_are_exchanged_among_their_copies():
    model = {**LLAMA, "experts": 8, "top_k": 2, "moe_ffn": 512}
    found = run(model, plan={"dp": 4, "ep": 2, "overlap": False})
    ((dense,), (experts,)) = ([c for c in found.sent if c.axis == axis] for axis in ("dp", "edp"))
    held = 4 * 8 * 3 * 256 * 512
    assert (experts.ranks, experts.bytes * experts.count) == (2, 2 * held / 2)
    count = parameters(scenario(model).model) - held
    assert (dense.ranks, dense.bytes * dense.count) == (4, pytest.approx(2 * count))
    # Dispatch and combine in each of 4 blocks, both ways: 128 tokens to 2 experts each; half of them leave the rank.
    sent = [c for c in found.sent if c.axis == "ep"]
    assert sum(c.count for c in sent) == 16
    assert sum(c.seconds for c in sent) == pytest.approx(16 * 128 * 2 * 256 * 2 / 2 / LINK)


@pytest.mark.parametrize(("schedule", "idle"), [("gpipe", 1), ("1f1b", 1), ("interleaved", 1 / 2)])
def test_interleaving_divides_the_bubble(schedule, idle):
    virtual = 2 if schedule == "interleaved" else 1
    plan = {"pp": 4, "schedule": schedule, "virtual_stages": virtual}
    one = built(scenario({**LLAMA, "layers": 8}, plan=plan, global_batch=8))
    first, middle, last = one.setting.kinds
    times = [device_s(one, stage, "forward", "backward") for stage in (first, middle, last)]
    others = times[0] + 2 * times[1] + times[2] - max(times)
    held_up = held_up_s(one.passes[1].times, 4, virtual) if virtual > 1 else 0
    assert one.step.bubble_s == pytest.approx(idle * others + held_up)


def test_zero_bubble_idles_less():
    def bubble(schedule: str) -> float:
        return built(scenario(LLAMA, plan={"pp": 4, "schedule": schedule}, global_batch=8)).step.bubble_s

    assert bubble("zero-bubble") < bubble("1f1b")


def test_an_offloaded_optimizer_works_at_the_hosts_pace():
    data = document(LLAMA, plan={"offload": "optimizer"})
    data["cluster"]["chip"] = {**data["cluster"]["chip"], "host_bytes_per_s": 1e9}
    found = priced(scenario_from_json(data), flawless(host_memory_bytes_per_s=1e10))
    # Gradients down and parameters up, 2 bytes each; 28 bytes of host memory per parameter.
    assert found.phases_s["optimizer"] == pytest.approx(COUNT * (4 / 1e9 + 28 / 1e10))


def test_offloaded_activations_show_what_compute_does_not_hide():
    data = document(LLAMA, plan={"offload": "activations"})
    data["cluster"]["chip"] = {**data["cluster"]["chip"], "host_bytes_per_s": 1e7}
    one = scenario_from_json(data)
    moved = 4 * built(one).setting.shard.blocks[0].kept_bytes / 1e7
    found = priced(one)
    hidden = found.phases_s["forward"] + found.phases_s["backward"]
    assert found.phases_s["exposed_communication"] == pytest.approx(2 * moved - hidden)
    (row,) = found.collectives
    assert (row.axis, row.exposed_s) == ("host", pytest.approx(2 * moved - hidden))


def test_a_tied_table_on_two_stages_is_summed_over_them():
    found = run(GPT, plan={"pp": 2})
    (row,) = (c for c in found.collectives if c.name.startswith("tied"))
    assert (row.kind, row.axis, row.ranks, row.bytes) == ("all-reduce", "pp", 2, 1024 * 256 * 2)
    assert row.exposed_s == pytest.approx(2 * 1 / 2 * row.bytes / LINK)
    assert not [c for c in run(LLAMA, plan={"pp": 2}).collectives if c.name.startswith("tied")]
    folded = run(GPT, plan={"pp": 2, "schedule": "zero-bubble-v"}, global_batch=2)
    assert not [c for c in folded.collectives if c.name.startswith("tied")]


def test_gaps_between_kernels_are_no_wait_for_the_host():
    # However long they are, a step begins with a device that has nothing to do until the host has launched.
    e = flawless(host_start_kernels=1e9, host_forward_s=1e-9, kernel_gap_s=0.01, **ALIKE)
    without, found = (run(LLAMA, e=one) for one in (replace(e, host_start_kernels=0.0), e))
    assert without.wait_s["forward"] > 1.0
    assert found.seconds == pytest.approx(without.seconds + 1.0)


def test_hosts_of_a_pipeline_that_launch_ahead_hide_its_bubble():
    late = {"host_forward_s": 1e-2, "host_backward_s": 1e-2, **ALIKE}
    plan = {"pp": 4, "schedule": "1f1b"}
    one = scenario(LLAMA, plan=plan, global_batch=8)
    alone, uneven, ahead = (built(one, flawless(**e)) for e in (late, {**late, "host_spread": 0.5}, {}))
    assert 0.0 < alone.step.bubble_s < ahead.step.bubble_s, "the last backward goes through all stages"
    host_s = 8 * max(float(passed.part.host_forward_s + passed.part.host_backward_s) for passed in alone.passes)
    assert alone.step.seconds - alone.step.bubble_s == pytest.approx(host_s, rel=0.02)
    # Nobody waits, and the slowest of all four ends the step.
    assert uneven.step.seconds / alone.step.seconds == pytest.approx(1 + 0.5 * 1.029, rel=0.02)


def test_gradients_of_further_micro_batches_are_added_by_kernels_that_the_host_launches():
    e = flawless(host_forward_s=1e-2, host_backward_s=2e-2, **ALIKE)
    once, four = (run(global_batch=batch, e=e) for batch in (1, 4))
    backward = [one.phases_s["backward"] + one.wait_s["backward"] for one in (once, four)]
    assert backward[1] == pytest.approx(4 * backward[0] + 3 * 39 * 2e-2, rel=1e-4)


def test_gradients_are_added_while_the_device_would_wait_for_its_host():
    late = {"host_forward_s": 1e-2, "host_backward_s": 2e-2, **ALIKE}
    slow, quick = (built(scenario(LLAMA, global_batch=4), flawless(memory_frac=frac, **late)) for frac in (0.01, 1.0))
    added_s = slow.step.accumulation_s - quick.step.accumulation_s
    passes_s = [one.step.seconds - one.step.optimizer_s - one.step.wait_optimizer_s for one in (slow, quick)]
    assert passes_s[0] == pytest.approx(passes_s[1], abs=0.01 * added_s), "as long as the host launches"


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero-bubble"])
@pytest.mark.parametrize("stages", [2, 4])
def test_a_late_host_makes_no_pipeline_faster(stages, schedule):
    plan = {"pp": stages, "schedule": schedule}
    # The last stage has a block less and a head, whose few products take long: it has the slowest device, not the host.
    model = {**LLAMA, "layers": 7, "vocab": 2**15}
    one = scenario(model, plan=plan, global_batch=8)
    never = built(one, flawless(**ALIKE)).step.seconds
    each_s = [never * 10 ** (power / 8) for power in range(-48, -16)]
    steps = [built(one, flawless(host_forward_s=s, host_backward_s=s, **ALIKE)).step.seconds for s in each_s]
    assert all(later >= sooner * (1 - 1e-12) for sooner, later in pairwise(steps))
    assert steps[0] >= never * (1 - 1e-12)
    assert steps[-1] > 1.5 * never


def test_a_slower_host_makes_no_pipeline_faster_whichever_stage_is_slowest_then():
    document = {
        "model": "gpt2", "cluster": {"chip": "h200-sxm", "chips_per_node": 4},
        "plan": {"dp": 2, "pp": 2, "micro_batch": 4},
        "training": {"seq_len": 1024, "global_batch": 8, "precision": "bf16-amp"},
    }  # fmt: skip
    one = scenario_from_json(document)
    paces = [at_pace(efficiencies("hopper"), 0.4 + 0.05 * step) for step in range(30)]
    found = [estimate(one, e, interval=False).step_time_s for e in paces]
    # To a thousandth: what is exchanged finds more to hide behind where the device waits.
    assert all(slower > (1 - 1e-3) * faster for faster, slower in pairwise(found))


def test_an_update_tensor_by_tensor_is_taken_apart_by_dtensor():
    each = {"host_tensor_s": 1e-3, "host_dtensor_op_s": 2e-3, "host_sharded_tensor_s": 0.0}
    found = {
        sharding: run(plan={"dp": 2, "sharding": sharding}, e=flawless(**each), optimizer_kernel="for-loop")
        for sharding in ("ddp", "fsdp")
    }
    waits = {sharding: one.phases_s["optimizer"] + one.wait_s["optimizer"] for sharding, one in found.items()}
    assert waits["fsdp"] == pytest.approx(3 * waits["ddp"], rel=1e-2)
