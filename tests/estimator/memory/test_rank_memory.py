"""Shard: who holds how many parameters, tensors and bytes of a block, the embedding and the head."""

from dataclasses import replace

import pytest

from estimator.estimate.estimate import estimate
from estimator.memory.stage_parameters import stage_parameters
from estimator.scenario import catalog
from estimator.scenario.parameters import parameters
from tests.estimator.examples import GPT, LLAMA, MIXTRAL, Built, built, scenario

TABLE = 1024 * 256


def layout(model=LLAMA, **rest) -> Built:
    return built(scenario(model, **rest))


def held(found: Built) -> list[float]:
    """Parameters of one rank of each kind of stage."""
    return [sum(stage_parameters(found.setting.shard, kind)[:2]) for kind in found.setting.kinds]


def all_stages(found: Built) -> float:
    counts = held(found)
    return counts[0] if len(counts) == 1 else counts[0] + (found.setting.stages - 2) * counts[1] + counts[2]


@pytest.mark.parametrize("name", ["gpt2", "llama3-8b", "qwen3-0.6b", "mpt-1b", "mixtral-8x7b", "deepseek-v3"])
def test_one_stage_holds_the_whole_model(name):
    assert held(layout(name)) == [parameters(catalog.model(name), 128)]


def test_stages_together_hold_the_model_once():
    assert all_stages(layout(LLAMA, plan={"pp": 4})) == parameters(scenario(LLAMA).model)


@pytest.mark.parametrize("schedule", ["1f1b", "zero-bubble-v"])
def test_a_tied_head_on_another_stage_is_a_second_copy_of_the_table(schedule):
    count = parameters(scenario(GPT).model, 128)
    # Zero-bubble V folds the pipeline: head and embedding are on the same rank and share the table.
    extra = 0 if schedule == "zero-bubble-v" else TABLE
    assert all_stages(layout(GPT, plan={"pp": 2, "schedule": schedule}, global_batch=2)) == count + extra


def test_tensor_parallel_ranks_split_matrices_and_repeat_norms():
    (one,), (two,) = held(layout(LLAMA)), held(layout(LLAMA, plan={"tp": 2}, framework="megatron"))
    norms = (2 * 4 + 1) * 256
    assert 2 * two - one == norms
    # PyTorch's plan leaves embedding and head whole on every rank.
    (eager,) = held(layout(LLAMA, plan={"tp": 2}))
    assert eager - two == TABLE


def test_ranks_beyond_the_key_value_heads_hold_copies():
    # 2 key/value heads of 32: at tp 4 every rank has one, twice what an even split would give.
    per_rank = [4 * layout(LLAMA, plan={"tp": tp}).setting.shard.blocks[0].cast_parameters for tp in (1, 2, 4)]
    assert per_rank[1] == per_rank[0] / 2
    assert per_rank[2] == per_rank[1] / 2 + 4 * 256 * 2 * 32 / 2


@pytest.mark.parametrize(("plan", "share"), [({"dp": 8, "ep": 8}, 8), ({"dp": 4, "ep": 2}, 2), ({"tp": 2}, 1)])
def test_experts_are_divided_by_ep_alone(plan, share):
    whole = layout(MIXTRAL).setting.shard.blocks[0]
    block = layout(MIXTRAL, plan=plan).setting.shard.blocks[0]
    assert whole.expert_parameters == 8 * 3 * 256 * 512
    assert block.expert_parameters == whole.expert_parameters / share
    assert block.expert_tensors == whole.expert_tensors / share


def test_split_experts_are_divided_once_more():
    block = layout(MIXTRAL, plan={"dp": 4, "tp": 2, "ep": 2, "expert_tp": 2}).setting.shard.blocks[0]
    assert block.expert_parameters == 8 * 3 * 256 * 512 / 4


@pytest.mark.parametrize(
    ("model", "framework", "per_layer", "ends"),
    [
        # q, k, v, o, gate, up, down and two norms; embedding, final norm, head.
        (LLAMA, "pytorch-eager", 9, 3),
        # Megatron fuses q, k, v and gate, up.
        (LLAMA, "megatron", 6, 3),
        # Hugging Face's GPT-2: 12 tensors in a block.
        (GPT, "pytorch-eager", 12, 3),
    ],
)
def test_tensors_that_the_optimizer_walks_over(model, framework, per_layer, ends):
    found = layout(model, framework=framework)
    _, _, _, tensors, experts = stage_parameters(found.setting.shard, found.setting.kinds[0])
    assert (tensors, experts) == (4 * per_layer + ends, 0)


def test_stages_send_the_residual_stream():
    assert layout(LLAMA, plan={"micro_batch": 2}).setting.shard.message_bytes == 2 * 128 * 256 * 2
    split = layout(LLAMA, plan={"tp": 2, "sequence_parallel": True})
    assert split.setting.shard.message_bytes == 128 * 256 * 2 / 2
    assert layout(LLAMA, plan={"cp": 4}).setting.shard.message_bytes == 128 * 256 * 2 / 4
    assert layout(LLAMA, plan={"tp": 4, "tp_kind": "2d"}).setting.shard.message_bytes == 128 * 256 * 2 / 4


def test_one_checkpoint_for_several_blocks_keeps_one_input_and_holds_them_all_when_they_run_again():
    one, two = (
        layout(LLAMA, plan={"recompute": "full", "recompute_every": every}).setting.shard.blocks[0] for every in (1, 2)
    )
    assert two.kept_bytes == one.kept_bytes / 2
    assert two.plain_bytes == 2 * one.plain_bytes


def test_a_recomputed_block_is_whole_again_in_its_backward():
    none = layout(LLAMA).setting.shard
    full = layout(LLAMA, plan={"recompute": "full"}).setting.shard
    assert (none.recomputed, full.recomputed) == (False, True)
    assert full.blocks[0].plain_bytes == none.blocks[0].plain_bytes == none.blocks[0].kept_bytes
    # All that a checkpoint keeps is the block's input.
    assert full.blocks[0].kept_bytes == 128 * 256 * 2


@pytest.mark.parametrize("network", ["ffn", "attention"])
def test_bare_stacks_have_no_ends(network):
    found = layout({**LLAMA, "network": network, "vocab": 0}).setting.shard
    assert (found.embedding_parameters, found.head_parameters, found.norm_parameters) == (0, 0, 0)
    assert (found.logits_end_bytes, found.logits_peak_bytes, found.head_kept_bytes) == (0, 0, 0)


def test_kinds_of_blocks_stand_apart():
    model = {**MIXTRAL, "layers": 6, "dense_layers": 2}
    found = layout(model).setting.shard
    assert (found.layers, found.leading) == ((2, 4), (True, False))
    assert [block.expert_parameters > 0 for block in found.blocks] == [False, True]


def test_a_cpu_has_no_segments_of_a_caching_allocator():
    model = {**LLAMA, "vocab": 23_000}
    gpu = scenario(model, optimizer="adamw")
    cpu = replace(gpu, cluster=replace(gpu.cluster, chip=replace(gpu.cluster.chip, kind="cpu")))
    count = parameters(gpu.model)
    for name, values in (("parameters", 1), ("gradients", 1), ("optimizer", 2)):
        held = [estimate(one, interval=False).memory.by_kind[name] for one in (cpu, gpu)]
        assert held[0] == pytest.approx(2 * values * count)
        assert held[1] > held[0]
