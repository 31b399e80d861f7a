"""Put off: what torch's stages keep between the two halves of a backward, and how many micro-batches wait so."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.distributed.pipelining._backward import stage_backward_input, stage_backward_weight

import runners.model.training as trained
from estimator.estimate.assemble import rank_of
from estimator.estimate.estimate import estimate
from estimator.estimate.report import stage_memories
from estimator.memory.activations import kept_bytes
from estimator.memory.put_off import put_off_bytes
from estimator.scenario.scenario import scenario_from_json
from estimator.schedule.schedules import weights_waiting
from estimator.schedule.simulation.orders import zero_bubble_h1
from runners.job import read_measurement
from runners.model.transformer import Share, build
from runners.parallel.stages import Stage
from tests.estimator.examples import GPT, LLAMA, built, scenario
from tests.estimator.memory.test_memory import E

REFERENCE = Path(__file__).parents[2] / "reference"
SMALL = {"layers": 4, "hidden": 64, "vocab": 96}
LLAMA_SMALL = {**LLAMA, **SMALL, "heads": 4, "kv_heads": 2, "ffn": 176}
GPT_SMALL = {**GPT, **SMALL, "heads": 4, "ffn": 256}
QWEN_SMALL = {**LLAMA_SMALL, "qk_norm": True, "head_dim": 32}
LATENT_SMALL = {**LLAMA_SMALL, "kv_heads": 4, "q_lora_rank": 24, "kv_lora_rank": 16, "qk_rope_head_dim": 8,
                "head_dim": 16, "v_head_dim": 16}  # fmt: skip


def put_off_by_torch(one, blocks: range, *, head: bool) -> int:
    """Bytes of all gradients that a stage's weights wait with, each storage once."""
    share = Share(blocks=blocks, embedding=False, head=head)
    context = partial(trained.autocast, one.training, "cpu")
    stage = Stage(build(one.model, one.training, one.plan, "cpu", share), context)
    rows = one.plan.micro_batch, one.training.seq_len
    width = torch.bfloat16 if one.training.precision == "bf16" else torch.float32
    x = torch.randn(*rows, one.model.hidden, dtype=width, requires_grad=True)
    y = stage(x)
    given = [torch.randn_like(y)]
    if head:
        with context():
            y = F.cross_entropy(y.flatten(0, 1), torch.zeros(rows, dtype=torch.long).flatten())
        given = None
    _, groups = stage_backward_input([y], given, [x], stage.parameters())
    kept = [one for group in groups for each in group["grads"] for one in each if one is not None]
    return sum({one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in kept}.values())


@pytest.mark.parametrize(
    ("model", "precision"),
    [(LLAMA_SMALL, "fp32"), (LLAMA_SMALL, "bf16-amp"), (GPT_SMALL, "bf16"), (GPT_SMALL, "bf16-amp"),
     (QWEN_SMALL, "bf16-amp"), (LATENT_SMALL, "fp32"), (LATENT_SMALL, "bf16-amp")],
)  # fmt: skip
def test_weights_wait_with_the_gradients_that_torchs_stages_keep(model, precision):
    one = scenario(model, plan={"pp": 2, "schedule": "zero-bubble", "micro_batch": 2}, precision=precision,
                   seq_len=32, global_batch=8, attention="sdpa")  # fmt: skip
    setting = built(one).setting
    for kind, blocks in ((setting.kinds[1], range(2)), (setting.kinds[2], range(2, 4))):
        whole, own = put_off_bytes(setting.shard, kind, 1.0)
        assert whole == own == put_off_by_torch(one, blocks, head=kind.head)


@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 2), (2, 8), (4, 4), (4, 9)])
def test_as_many_wait_as_the_order_has_put_off(stages, micro_batches):
    for stage in range(stages):
        waiting = most = 0
        for work in zero_bubble_h1(stage, stages, micro_batches, 1):
            most = max(most, waiting) if work.kind == "B" else most
            waiting += {"F": 0, "B": 1, "W": -1}[work.kind]
        assert weights_waiting("zero-bubble", stage, micro_batches) == most


@pytest.mark.parametrize("stages", [2, 4])
def test_a_stage_holds_more_the_more_of_its_weights_wait(stages):
    def found(schedule: str, framework: str = "pytorch-eager"):
        plan = {"pp": stages, "schedule": schedule}
        one = scenario({**LLAMA, "layers": 8}, plan=plan, global_batch=8, framework=framework)
        return built(one).setting, stage_memories(built(one).setting, E)

    setting, held = found("zero-bubble")
    block, message = setting.shard.blocks[0].put_off_bytes, setting.shard.message_bytes
    # The first stage has no inputs to send gradients for, and runs its backward whole.
    assert held[0].peak_bytes == found("1f1b")[1][0].peak_bytes
    for one, after in pairwise(held[1:-1]):
        assert after.moment == one.moment == "first block's attention backward"
        assert after.peak_bytes - one.peak_bytes == pytest.approx(8 / stages * block + message)
    last = held[-1]
    whole, own = put_off_bytes(setting.shard, setting.kinds[-1], 1.0)
    if last.moment == "first block's attention backward":
        least = (stages - 1) * whole + own
        assert last.by_kind["temporaries"] == least + setting.shard.blocks[0].ended_bytes
        assert last.by_kind["logits"] == setting.shard.logits_end_bytes + setting.shard.handed_logits_bytes
    # Megatron's own stages hold nothing of the kind.
    assert "loss backward" in {one.moment for one in found("zero-bubble", "megatron")[1]}


@pytest.mark.parametrize("model", [LLAMA_SMALL, GPT_SMALL, QWEN_SMALL, LATENT_SMALL])
def test_torchs_stages_run_a_checkpointed_block_again_for_each_of_its_weights(model):
    one = scenario(model, plan={"pp": 2, "schedule": "zero-bubble", "micro_batch": 2, "recompute": "full"},
                   precision="fp32", seq_len=32, global_batch=8, attention="sdpa")  # fmt: skip
    share = Share(blocks=range(2, 3), embedding=False, head=False)
    module = build(one.model, one.training, one.plan, "cpu", share)
    entered = []
    for block in module.blocks.values():
        block.attention.register_forward_pre_hook(lambda *_: entered.append(1))
    x = torch.randn(one.plan.micro_batch, one.training.seq_len, one.model.hidden, requires_grad=True)
    y = Stage(module, partial(trained.autocast, one.training, "cpu"))(x)
    assert len(entered) == 1
    _, groups = stage_backward_input([y], [torch.randn_like(y)], [x], module.parameters())
    assert len(entered) == 2
    stage_backward_weight(module.parameters(), groups)
    work = rank_of(one, E).blocks[0]
    assert len(entered) - 2 == len(groups) == work.products + work.norms + work.head_norms


@pytest.mark.parametrize("model", [LLAMA_SMALL, QWEN_SMALL, LATENT_SMALL])
def test_a_block_stays_as_often_as_it_runs_again(model):
    one = scenario(model, plan={"pp": 2, "schedule": "zero-bubble", "micro_batch": 2, "recompute": "full"},
                   precision="fp32", seq_len=32, global_batch=8, attention="sdpa")  # fmt: skip
    rank = rank_of(one, E)
    (ops,), (work,), (block,) = rank.ops.blocks, rank.blocks, rank.shard.blocks
    without = [replace(op, saved_bytes=0.0) if op.kind == "gemm" else op for op in ops.plain]
    activated = [op.m * op.k * 4.0 for op in without if op.name == "down projection" and op.phase == "forward"]
    each = kept_bytes(tuple(without)) - sum(activated)
    assert block.redone_apart_bytes == (work.products + work.norms + work.head_norms) * each


def test_what_weights_recompute_stays_until_the_last_has_its_gradient():
    step = (
        REFERENCE / "h200_drawn" / "sixth" / "2" / "steps" / "pp-zero-bubble-qwen3-0.6b-7-bf16-4096-4-4-full-sdpa.json"
    )
    measured = read_measurement(step)
    first, last = estimate(scenario_from_json(measured.scenario)).memory.stages
    found = measured.samples["peak_bytes_by_rank"]
    assert first.peak_bytes == pytest.approx(found[0], rel=0.02)
    assert (last.moment, last.peak_bytes) == ("weights' gradients", pytest.approx(found[1], rel=0.06))
