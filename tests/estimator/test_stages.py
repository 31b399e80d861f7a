"""Stages: who holds the embedding, the head and how many parameters, and what each executes."""

import pytest

from estimator import catalog
from estimator.model import parameters
from estimator.networks.dims import dims
from estimator.networks.transformer import network
from estimator.stages import Stage, stages
from tests.estimator.examples import GPT, LLAMA, scenario


def layout(model=LLAMA, **rest) -> list[Stage]:
    one = scenario(model, **rest)
    return stages(one, network(dims(one)))


@pytest.mark.parametrize("name", ["gpt2", "llama3-8b", "qwen3-0.6b", "mpt-1b"])
def test_one_stage_holds_the_whole_model(name):
    (stage,) = layout(name)
    assert stage.parameters == parameters(catalog.model(name), 128)
    assert stage.first
    assert stage.last


def test_stages_together_hold_the_model_once():
    found = layout(LLAMA, plan={"pp": 4})
    assert sum(stage.parameters for stage in found) == parameters(scenario(LLAMA).model)
    assert [stage.layers for stage in found] == [1, 1, 1, 1]
    assert [stage.first for stage in found] == [True, False, False, False]
    assert [stage.last for stage in found] == [False, False, False, True]


def test_a_tied_head_on_another_stage_is_a_second_copy_of_the_table():
    found = layout(GPT, plan={"pp": 2})
    table = GPT["vocab"] * GPT["hidden"]
    assert sum(stage.parameters for stage in found) == parameters(scenario(GPT).model, 128) + table


def test_tensor_parallel_ranks_split_matrices_and_repeat_norms():
    one, two = layout(LLAMA), layout(LLAMA, plan={"tp": 2}, framework="megatron")
    norms = (2 * 4 + 1) * 256
    assert 2 * two[0].parameters - one[0].parameters == norms
    # PyTorch's plan leaves embedding and head whole on every rank.
    eager = layout(LLAMA, plan={"tp": 2})
    assert eager[0].parameters - two[0].parameters == 1024 * 256


def test_ranks_beyond_the_key_value_heads_hold_copies():
    # 2 key/value heads of 32: at tp 4 every rank has one, twice what an even split would give.
    per_rank = [layout(LLAMA, plan={"tp": tp})[0].linear_parameters - 1024 * 256 for tp in (1, 2, 4)]
    assert per_rank[1] == per_rank[0] / 2
    assert per_rank[2] == per_rank[1] / 2 + 4 * 256 * 2 * 32 / 2


def test_each_stage_executes_its_blocks_and_only_the_ends_the_rest():
    first, middle, last = layout({**LLAMA, "layers": 6}, plan={"pp": 3})
    runs = [{op.name: times for op, times in stage.executions()} for stage in (first, middle, last)]
    assert all(found["output projection"] == 2.0 for found in runs)
    assert ["embedding" in found for found in runs] == [True, False, False]
    assert ["logits" in found for found in runs] == [False, False, True]


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
    (stage,) = layout(model, framework=framework)
    assert stage.tensors == 4 * per_layer + ends


@pytest.mark.parametrize(("sharding", "share"), [("ddp", 1.0), ("zero1", 0.25), ("fsdp", 0.25)])
def test_sharding_divides_the_optimizers_work(sharding, share):
    (stage,) = layout(LLAMA, plan={"dp": 4, "sharding": sharding})
    (whole,) = layout(LLAMA)
    assert stage.once[0].bytes == whole.once[0].bytes * share


@pytest.mark.parametrize(("sharding", "share"), [("ddp", 1.0), ("zero1", 1.0), ("zero2", 0.25), ("fsdp", 0.25)])
def test_only_sharded_gradients_accumulate_in_shares(sharding, share):
    (stage,) = layout(LLAMA, plan={"dp": 4, "sharding": sharding})
    (whole,) = layout(LLAMA)
    assert stage.accumulation[0].bytes == whole.accumulation[0].bytes * share
