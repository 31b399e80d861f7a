"""Legality: every refusal names its field and has a remedy, and following the remedy helps."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.scenario import catalog
from estimator.scenario.legality import (
    chunk_counts,
    chunk_problems,
    context_problems,
    expert_problems,
    legality,
    pipeline_problems,
    spreads,
    tensor_problems,
)
from estimator.scenario.model import Model
from estimator.scenario.plan import Plan
from estimator.scenario.training import Training
from tests.estimator.examples import GPT, LLAMA, MIXTRAL

DENSE, TIED, EXPERTS = Model(**LLAMA), Model(**GPT), Model(**MIXTRAL)
LATENT = catalog.model("deepseek-v3")
TRAINING = Training(seq_len=128, global_batch=64)


def fields_of(model: Model = DENSE, *, seq_len: int = 128, global_batch: int = 64, **plan) -> list[str]:
    problems = legality(model, Plan(**plan), Training(seq_len=seq_len, global_batch=global_batch))
    assert all(problem.message and problem.remedy for problem in problems)
    return [problem.field for problem in problems]


@pytest.mark.parametrize(
    "plan",
    [
        {"dp": 4, "tp": 4, "sequence_parallel": True},
        {"tp": 2, "cp": 2},
        {"cp": 8},
        {"tp": 2, "cp": 2, "cp_kind": "ulysses"},
        {"tp": 4, "tp_kind": "2d"},
        {"tp": 8, "tp_kind": "2.5d", "tp_depth": 2},
        {"tp": 8, "tp_kind": "3d"},
        {"pp": 4, "schedule": "zero-bubble"},
        {"pp": 2, "schedule": "interleaved", "virtual_stages": 2},
        {"pp": 3},
        {"dp": 8, "sharding": "fsdp", "shard_ranks": 4},
        {"recompute": "full", "recompute_every": 2},
    ],
)
def test_what_is_modelled_passes(plan):
    assert fields_of(**plan) == []


@pytest.mark.parametrize("plan", [{"dp": 8, "ep": 8}, {"dp": 4, "tp": 2, "ep": 4, "expert_tp": 2}, {"tp": 2, "cp": 2}])
def test_experts_pass(plan):
    assert fields_of(EXPERTS, **plan) == []


@pytest.mark.parametrize(
    ("model", "plan", "field"),
    [
        (DENSE, {"tp": 3}, "plan.tp"),
        (DENSE, {"tp": 16}, "plan.tp"),
        (DENSE, {"tp_depth": 2}, "plan.tp_depth"),
        (DENSE, {"tp": 6, "tp_kind": "2d"}, "plan.tp"),
        (DENSE, {"tp": 4, "tp_kind": "2d", "sequence_parallel": True}, "plan.sequence_parallel"),
        (DENSE, {"tp": 4, "tp_kind": "2d", "cp": 2}, "plan.cp"),
        (EXPERTS, {"tp": 4, "tp_kind": "2d"}, "plan.tp_kind"),
        (LATENT, {"tp": 4, "tp_kind": "2d"}, "plan.tp_kind"),
        (DENSE, {"cp": 3}, "plan.cp"),
        (DENSE, {"cp": 16, "cp_kind": "ulysses"}, "plan.cp"),
        (DENSE, {"dp": 2, "ep": 2}, "plan.ep"),
        (DENSE, {"expert_tp": 2}, "plan.expert_tp"),
        (EXPERTS, {"dp": 2, "ep": 4}, "plan.ep"),
        (EXPERTS, {"dp": 3, "ep": 3}, "plan.ep"),
        (EXPERTS, {"dp": 3, "expert_tp": 3}, "plan.expert_tp"),
        (DENSE, {"pp": 5}, "plan.pp"),
        (DENSE, {"pp": 2, "virtual_stages": 2}, "plan.virtual_stages"),
        (DENSE, {"pp": 4, "virtual_stages": 2, "schedule": "interleaved"}, "plan.virtual_stages"),
        (DENSE, {"dp": 8, "shard_ranks": 3, "sharding": "fsdp"}, "plan.shard_ranks"),
        (DENSE, {"dp": 8, "shard_ranks": 4}, "plan.shard_ranks"),
        (DENSE, {"recompute_every": 2}, "plan.recompute_every"),
        (DENSE, {"recompute_every": 5, "recompute": "full"}, "plan.recompute_every"),
    ],
)
def test_a_refusal_names_its_field(model, plan, field):
    assert field in fields_of(model, **plan)


PLANS = [
    {"tp": 3}, {"tp": 16}, {"tp": 5, "sequence_parallel": True}, {"tp": 6, "tp_kind": "2d"}, {"tp": 9, "tp_kind": "2d"},
    {"tp_depth": 2}, {"tp": 8, "tp_kind": "2d", "tp_depth": 2}, {"tp": 8, "tp_kind": "3d", "tp_depth": 4},
    {"tp": 9, "tp_kind": "2.5d", "tp_depth": 2}, {"tp": 16, "tp_kind": "2.5d", "tp_depth": 3},
    {"tp": 18, "tp_kind": "3d", "tp_depth": 2}, {"pp": 4, "virtual_stages": 3, "schedule": "interleaved"},
    {"dp": 6, "sharding": "fsdp", "shard_ranks": 4},
]  # fmt: skip


@pytest.mark.parametrize("plan", PLANS)
def test_every_value_that_a_remedy_names_is_legal_for_its_field(plan):
    """“Set tp_depth to 1 and tp to 4 or 9” is followed word for word; what it leads to has no tensor problem."""
    model = Model(**LLAMA | {"layers": 16})
    for problem in legality(model, Plan(**plan), Training(seq_len=120, global_batch=48)):
        followed = list(_followed(problem.remedy, plan))
        assert followed, problem.remedy
        for changes in followed:
            again = legality(model, Plan(**plan | changes), Training(seq_len=120, global_batch=48))
            assert problem.field not in [one.field for one in again], (problem, changes)


def _followed(remedy: str, plan: dict):
    """Yield the changes that a remedy names: every value of every alternative."""
    numbers = r"\d+(?:, \d+)*(?: or \d+)?"
    joint = re.match(rf"Set tp_depth to 1 and tp to ({numbers})\.", remedy)
    if joint:
        yield from ({"tp_depth": 1, "tp": int(value)} for value in re.findall(r"\d+", joint[1]))
        return
    for name, values in re.findall(rf"(tp_depth|tp_kind|tp|virtual_stages|shard_ranks|sequence_parallel)"
                                   rf"(?: to| =)? (1d|2\.5d|false|{numbers})(?![\d·])", remedy):  # fmt: skip
        if name in ("tp_kind", "sequence_parallel"):
            yield {name: False if values == "false" else values}
        else:
            yield from ({name: int(value)} for value in re.findall(r"\d+", values))


def test_layers_spread_over_chunks_or_the_accepted_numbers_are_named():
    (problem,) = pipeline_problems(Model(**LLAMA | {"layers": 16}), "interleaved", 4, 3, 8)
    assert problem.remedy == "With pp = 4 choose virtual_stages 1, 2 or 4."
    assert "at most one for each of the 4 stages is accepted" in problem.message


def test_a_tensor_parallel_degree_is_named_that_heads_and_widths_all_allow():
    model = Model(**LLAMA | {"heads": 8, "kv_heads": 8, "hidden": 64, "ffn": 12})
    assert {one.remedy for one in tensor_problems(model, Plan(tp=3), TRAINING)} == {"Choose tp 2 or 4."}
    assert {one.remedy for one in tensor_problems(model, Plan(tp=8), TRAINING)} == {"Choose tp 4."}
    (problem,) = tensor_problems(DENSE, Plan(tp=4, sequence_parallel=True), Training(seq_len=130, global_batch=1))
    assert problem.remedy == "Choose a seq_len that is a multiple of 4, or set sequence_parallel to false."


def test_interleaving_takes_micro_batches_in_groups_of_the_stages():
    plan = {"pp": 2, "virtual_stages": 2, "schedule": "interleaved"}
    assert fields_of(**plan, global_batch=3) == ["training.global_batch"]
    assert fields_of(**plan, global_batch=4) == []


def test_ulysses_needs_heads_that_divide_and_says_so():
    # 8 heads and tp 2 leave 4 heads: cp 8 cannot share them, and the remedy names what can.
    (problem,) = context_problems(DENSE, Plan(tp=2, cp=8, cp_kind="ulysses"), TRAINING)
    assert problem.field == "plan.cp"
    assert "heads" in problem.message
    assert "8" in problem.message
    assert "cp 4" in problem.remedy
    assert context_problems(DENSE, Plan(tp=2, cp=4, cp_kind="ulysses"), TRAINING) == []
    # A ring shares tokens, not heads.
    assert context_problems(DENSE, Plan(tp=2, cp=8), TRAINING) == []


def test_latent_attention_makes_keys_for_every_head():
    assert context_problems(LATENT, Plan(cp=128, cp_kind="ulysses"), Training(seq_len=4096, global_batch=1)) == []


def test_sequence_parallel_context_ranks_split_tokens_twice():
    plan = Plan(tp=2, cp=2, sequence_parallel=True)
    assert tensor_problems(DENSE, plan, Training(seq_len=132, global_batch=1)) == []
    (problem,) = tensor_problems(DENSE, plan, Training(seq_len=130, global_batch=1))
    assert problem.message.startswith("tp·cp = 4")


def test_blocks_spread_over_chunks_nearly_evenly():
    assert pipeline_problems(DENSE, "1f1b", 4, 1, 8) == []
    assert pipeline_problems(DENSE, "1f1b", 3, 1, 8) == []
    assert [p.field for p in pipeline_problems(DENSE, "1f1b", 5, 1, 8)] == ["plan.pp"]
    assert pipeline_problems(DENSE, "1f1b", 1, 1, 1) == []


def test_experts_share_the_ranks_of_a_stage():
    assert expert_problems(EXPERTS, Plan(dp=2, cp=2, tp=2, ep=8)) == []
    (problem,) = expert_problems(EXPERTS, Plan(dp=2, cp=2, ep=8))
    assert "dp·cp·tp" in problem.remedy


@pytest.mark.parametrize(
    ("layers", "stages", "counts"),
    [(16, 4, [1, 2, 4]), (16, 5, [1, 2]), (126, 16, [1, 2, 4]), (62, 4, [1, 2, 4, 8]), (4, 4, [1])],
)
def test_every_count_of_chunks_that_is_accepted(layers, stages, counts):
    assert chunk_counts(layers, stages) == counts


def test_the_refusal_names_the_counts_and_the_reason():
    (problem,) = chunk_problems("interleaved", 4, 3, 16)
    assert problem.field == "plan.virtual_stages"
    assert problem.message == (
        "16 layers in pp·virtual_stages = 4·3 = 12 chunks of 2 fall 8 short, "
        "and at most one for each of the 4 stages is accepted"
    )
    assert problem.remedy == "With pp = 4 choose virtual_stages 1, 2 or 4."
    (problem,) = chunk_problems("interleaved", 4, 5, 16)
    assert "20 chunks need more than 16 layers" in problem.message
    assert problem.remedy == "With pp = 4 choose virtual_stages 1, 2 or 4."


def test_two_chunks_by_themselves_are_a_matter_of_the_stages():
    (problem,) = chunk_problems("zero-bubble-v", 6, 1, 16)
    assert problem.field == "plan.pp"
    assert "2·pp = 2·6 = 12 chunks of 2 fall 8 short" in problem.message
    assert problem.remedy == "Choose pp 5 or 8, or set schedule to zero-bubble."
    (problem,) = chunk_problems("zero-bubble-v", 9, 2, 16)
    assert problem.remedy == "Choose pp 8, or set schedule to zero-bubble."


@given(st.sampled_from(["interleaved", "zero-bubble-v"]), st.integers(2, 40), st.integers(1, 40), st.integers(2, 200))
def test_remedies_are_accepted(schedule, stages, virtual_stages, layers):
    for problem in chunk_problems(schedule, min(stages, layers), virtual_stages, layers):
        stages = min(stages, layers)
        chosen = problem.remedy.partition("choose virtual_stages " if schedule == "interleaved" else "Choose pp ")[2]
        numbers = [int(word) for word in chosen.replace(",", " ").replace(".", " ").split() if word.isdigit()]
        assert numbers
        for number in numbers:
            pair = (stages, number) if schedule == "interleaved" else (number, virtual_stages)
            assert chunk_problems(schedule, *pair, layers) == []


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zero-bubble"])
def test_one_chunk_per_rank_always_spreads(schedule):
    assert all(spreads(layers, stages, 1) for layers in range(1, 40) for stages in range(1, layers + 1))
    assert chunk_problems(schedule, 4, 3, 16) == []


def test_tensor_parallel_overlap_needs_sequence_parallelism():
    training = Training(seq_len=128, global_batch=4)
    beside = Plan(tp=2, tp_overlap=True, sequence_parallel=True)
    assert tensor_problems(DENSE, beside, training) == []
    alone = tensor_problems(DENSE, Plan(tp=2, tp_overlap=True), training)
    assert [one.field for one in alone] == ["plan.tp_overlap"]


@pytest.mark.parametrize(
    ("training", "words"),
    [
        ({"framework": "pytorch-eager", "precision": "fp8"}, "PyTorch eager has no fused products of experts"),
        ({"framework": "megatron", "precision": "bf16"}, "not bf16"),
        ({"framework": "megatron", "precision": "fp8"}, ""),
        ({"framework": "megatron", "precision": "fp4"}, ""),
    ],
)
def test_fused_experts_need_narrow_numbers_and_who_weighs_rows_inside_them(training, words):
    given = Training(seq_len=128, global_batch=8, experts="fused", **training)
    found = legality(catalog.model("mixtral-8x7b"), Plan(), given)
    assert [problem.field for problem in found] == ["training.experts"] * bool(words)
    assert words in "".join(problem.message for problem in found)
    assert legality(catalog.model("llama3-8b"), Plan(), given) == []
