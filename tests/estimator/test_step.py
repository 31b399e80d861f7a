"""Step: each part of the critical path by hand, with efficiencies of 1 and no overheads unless a test adds one."""

from __future__ import annotations

import pytest

from estimator.breakdown import CATEGORIES, PHASES
from estimator.cost.roofline import price
from estimator.efficiency import Efficiencies
from estimator.model import parameters
from estimator.networks.dims import dims
from estimator.networks.transformer import network
from estimator.scenario import Scenario
from estimator.stages import Stage, stages
from estimator.step import Step, step
from tests.estimator.examples import GPT, LLAMA, flawless, scenario

COUNT = parameters(scenario(LLAMA).model)
GRADIENTS = 2 * COUNT
LINK, MEMORY = 1e10, 1e11


def layout(one: Scenario) -> list[Stage]:
    return stages(one, network(dims(one)))


def run(model=LLAMA, *, e: Efficiencies | None = None, **rest) -> Step:
    one = scenario(model, **rest)
    return step(one, layout(one), e or flawless())


def device_s(one: Scenario, stage: Stage, phase: str) -> float:
    return sum(
        float(price(op, one.cluster.chip, flawless()).seconds * op.count) * times
        for op, times in stage.executions()
        if op.phase == phase
    )


def launches(stage: Stage, phase: str, *, recomputed: bool = False) -> float:
    return sum(
        float(op.launches * op.count) * times
        for op, times in stage.executions()
        if op.phase == phase and op.recomputed == recomputed
    )


def test_one_chip_computes_and_updates():
    one = scenario(LLAMA)
    (stage,) = layout(one)
    found = run()
    assert found.phases_s["forward"] == pytest.approx(device_s(one, stage, "forward"))
    assert found.phases_s["backward"] == pytest.approx(device_s(one, stage, "backward"))
    # 21 accesses of 2 bytes to each parameter.
    assert found.phases_s["optimizer"] == pytest.approx(42 * COUNT / MEMORY)
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


def data_parallel(sharding: str, **rest) -> Step:
    plan = {"dp": 4, "sharding": sharding, **rest.pop("plan", {})}
    return run(plan=plan, **rest)


def test_without_overlap_ddp_pays_for_its_all_reduce_and_its_copies():
    found = data_parallel("ddp", plan={"overlap": False})
    (exchange,) = found.collectives
    assert (exchange.kind, exchange.axis, exchange.ranks) == ("all-reduce", "dp", 4)
    assert exchange.bytes * exchange.count == GRADIENTS
    assert exchange.seconds == exchange.exposed_s == pytest.approx(2 * 3 / 4 * GRADIENTS / LINK)
    # Into the buckets and back: a read and a write of all gradients.
    assert found.phases_s["exposed_communication"] == pytest.approx(exchange.seconds + 2 * GRADIENTS / MEMORY)


def test_without_contention_ddp_hides_behind_a_long_backward():
    found = data_parallel("ddp", seq_len=8192)
    assert 0 < found.collectives[0].seconds < found.phases_s["backward"]
    assert found.phases_s["exposed_communication"] == 0


def test_contention_exposes_the_share_of_matrix_products():
    e = flawless(contention_frac=1.0)
    one = scenario(LLAMA, plan={"dp": 4}, seq_len=8192)
    (stage,) = layout(one)
    priced = [(price(op, one.cluster.chip, e), times) for op, times in stage.executions() if op.phase == "backward"]
    total = sum(float(p.seconds * p.op.count) * times for p, times in priced)
    products = sum(float(p.seconds * p.op.count) * times for p, times in priced
                   if p.op.category in ("matmul", "attention"))  # fmt: skip
    found = data_parallel("ddp", seq_len=8192, e=e)
    hidden_in_part = found.collectives[0].seconds + 2 * GRADIENTS / MEMORY
    assert found.phases_s["exposed_communication"] == pytest.approx(hidden_in_part * products / total)


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
    assert sum(c.seconds for c in found.collectives) == pytest.approx(exchange)
    passes = found.phases_s["forward"] + found.phases_s["backward"]
    copies = 3 * 2 * GRADIENTS / MEMORY
    assert found.phases_s["exposed_communication"] == pytest.approx(exchange + copies - passes)


def test_fsdp_exchanges_and_hides_in_every_micro_batch():
    once, four = data_parallel("fsdp"), data_parallel("fsdp", global_batch=16)
    expected = 4 * once.phases_s["exposed_communication"]
    assert four.phases_s["exposed_communication"] == pytest.approx(expected)


def test_zero_1_gathers_in_forward_what_ddp_sums_in_backward():
    found = data_parallel("zero1", plan={"overlap": False})
    assert {c.name: c.phase for c in found.collectives} == {
        "gradient scatter": "backward",
        "parameter gather": "forward",
    }
    assert sum(c.seconds for c in found.collectives) == pytest.approx(2 * 3 / 4 * GRADIENTS / LINK)
    assert found.phases_s["optimizer"] == pytest.approx(42 * COUNT / 4 / MEMORY)


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
    one = scenario(LLAMA, plan={"pp": 2}, global_batch=5)
    first, last = layout(one)
    found = run(plan={"pp": 2}, global_batch=5)
    passes = [sum(device_s(one, stage, phase) for phase in ("forward", "backward")) for stage in (first, last)]
    assert found.pace == 1
    assert found.phases_s["bubble"] == pytest.approx(passes[0])
    accumulation = 4 * 3 * 2 * last.parameters / MEMORY
    assert found.phases_s["forward"] + found.phases_s["backward"] == pytest.approx(5 * passes[1] + accumulation)
    # Activations forward and gradients back: one message each at the fill, one each per further micro-batch.
    send = 1e-6 + 128 * 256 * 2 / LINK
    assert found.phases_s["exposed_communication"] == pytest.approx(2 * send * (1 + 4))


def test_stages_on_different_nodes_use_the_network():
    inside = run(plan={"pp": 2})
    across = run(plan={"pp": 2}, chips_per_node=1)
    send = [1e-6 + 128 * 256 * 2 / LINK, 1e-5 + 128 * 256 * 2 / 1e9]
    assert inside.phases_s["exposed_communication"] == pytest.approx(2 * send[0])
    assert across.phases_s["exposed_communication"] == pytest.approx(2 * send[1])


def test_sequence_parallel_stages_send_their_share():
    split = run(plan={"pp": 2, "tp": 2, "sequence_parallel": True})
    whole = run(plan={"pp": 2, "tp": 2})
    (sent,), (sent_whole,) = ([c for c in found.collectives if c.axis == "pp"] for found in (split, whole))
    assert sent.bytes == sent_whole.bytes / 2


def test_the_device_waits_for_the_host():
    one = scenario(LLAMA)
    (stage,) = layout(one)
    e = flawless(host_forward_s=1e-2, host_backward_s=2e-2, host_tensor_s=3e-2, host_step_s=4e-2)
    found = run(e=e)
    forward, backward = launches(stage, "forward") * 1e-2, launches(stage, "backward") * 2e-2
    assert found.phases_s["forward"] + found.host_wait_by_phase_s["forward"] == pytest.approx(forward)
    assert found.phases_s["backward"] + found.host_wait_by_phase_s["backward"] == pytest.approx(backward)
    assert found.host_wait_by_phase_s["optimizer"] == pytest.approx(stage.tensors * 3e-2 + 4e-2)
    assert found.phases_s["host_wait"] == pytest.approx(sum(found.host_wait_by_phase_s.values()))
    assert found.breakdown_s["host"] == found.phases_s["host_wait"]


def test_a_host_that_ran_ahead_walks_over_the_tensors_unseen():
    def wait(seq_len: int) -> float:
        return run(seq_len=seq_len, e=flawless(host_tensor_s=1e-4)).host_wait_by_phase_s["optimizer"]

    # The host is done at once, so that its lead is all that the device still computes; 39 tensors take 3.9 ms.
    short = run(e=flawless())
    passes = short.phases_s["forward"] + short.phases_s["backward"]
    assert wait(128) == pytest.approx(39e-4 - passes)
    assert wait(8192) == 0.0


def test_recomputed_kernels_are_launched_like_forward():
    one = scenario(LLAMA, plan={"recompute": "full"})
    (stage,) = layout(one)
    found = run(plan={"recompute": "full"}, e=flawless(host_forward_s=1e-2, host_backward_s=2e-2))
    expected = launches(stage, "backward") * 2e-2 + launches(stage, "backward", recomputed=True) * 1e-2
    assert found.phases_s["backward"] + found.host_wait_by_phase_s["backward"] == pytest.approx(expected)


def test_a_host_that_runs_ahead_in_forward_gains_for_backward():
    def waits(host_forward_s: float) -> float:
        e = flawless(host_forward_s=host_forward_s, host_backward_s=1e-6)
        return run(seq_len=8192, e=e).host_wait_by_phase_s["backward"]

    assert waits(0.0) == 0.0


def test_blocking_collectives_cost_the_host_per_further_rank():
    e = flawless(host_collective_s=1.0)
    found = run(GPT, plan={"tp": 4}, framework="megatron", e=e)
    # 2 sums in each of 4 blocks, 1 in the embedding, 3 in the loss; backward 2 per block and 1 in the head.
    assert found.phases_s["host_wait"] == pytest.approx((8 + 4 + 8 + 1) * 3, rel=0.01)


def test_the_ideal_framework_never_waits():
    found = run(framework="ideal", e=flawless(host_forward_s=1.0, host_step_s=1.0, host_tensor_s=1.0))
    assert found.phases_s["host_wait"] == 0


def test_recomputation_lengthens_backward_only():
    none, full = run(), run(plan={"recompute": "full"})
    assert full.phases_s["forward"] == pytest.approx(none.phases_s["forward"])
    assert full.phases_s["backward"] > none.phases_s["backward"]
    assert full.phases_s["backward"] < none.phases_s["backward"] + none.phases_s["forward"]
