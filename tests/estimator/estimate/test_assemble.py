"""Assemble: a scenario's ops, messages and layout, and many degrees at once."""

import numpy as np
import pytest

from estimator.estimate.assemble import lines_of, parts_of, rank_of, setting_of
from tests.estimator.examples import LLAMA, MIXTRAL, built, flawless, scenario

E = flawless()


def test_each_kind_of_block_has_its_work_and_its_messages():
    found = rank_of(scenario({**MIXTRAL, "dense_layers": 1}, plan={"dp": 4, "ep": 4}), E)
    assert len(found.blocks) == len(found.block_messages) == len(found.ops.blocks) == 2
    assert [bool(messages) for messages in found.block_messages] == [False, True]


def test_data_ranks_are_those_of_dp_and_cp():
    found = built(scenario(LLAMA, plan={"dp": 2, "cp": 4, "sharding": "fsdp"})).setting
    assert found.policy.data_ranks == 8
    assert found.policy.dense.parameters == 1 / 8


def test_hybrid_sharding_shares_a_copy_among_fewer():
    found = built(scenario(LLAMA, plan={"dp": 8, "sharding": "fsdp", "shard_ranks": 2})).setting
    assert found.policy.dense.parameters == 1 / 2
    assert (found.groups.shard.ranks, found.groups.replica.ranks) == (2, 4)


@pytest.mark.parametrize(("offload", "expected"), [("none", (False, False)), ("both", (True, True))])
def test_offload_is_two_policies(offload, expected):
    one = scenario(LLAMA)
    plan = type(one.plan)(offload=offload)
    setting = setting_of(type(one)(model=one.model, cluster=one.cluster, plan=plan, training=one.training),
                         rank_of(one, E))  # fmt: skip
    assert (setting.policy.offload_optimizer, setting.policy.offload_activations) == expected


@pytest.mark.parametrize(
    ("schedule", "virtual", "chunks", "head_on"),
    [("1f1b", 1, 1, "last"), ("interleaved", 2, 2, "last"), ("zero-bubble-v", 1, 2, "first")],
)
def test_the_schedule_decides_chunks_and_where_the_head_is(schedule, virtual, chunks, head_on):
    one = scenario(LLAMA, plan={"pp": 2, "schedule": schedule, "virtual_stages": virtual}, global_batch=4)
    found = built(one).setting
    assert found.virtual_stages == chunks
    assert [kind.name for kind in found.kinds if kind.head] == [head_on]


def test_scaled_components_scale_their_seconds():
    one = built(scenario(LLAMA))
    scale = np.full((5, 1), 3.0)
    scaled = parts_of(one.rank, one.setting.training, E, scale)
    assert scaled.blocks[0].forward_s == pytest.approx(3 * one.parts.blocks[0].forward_s)
    assert scaled.head.weight_s == pytest.approx(3 * one.parts.head.weight_s)


def test_many_degrees_at_once_are_each_of_them_alone():
    rows = [(1, 1, 1), (2, 1, 2), (1, 4, 1), (4, 2, 3), (8, 1, 2)]
    tp, cp, size = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    # Degrees above 1 in the base, so that no exchange is left out as needless.
    base = scenario(LLAMA, plan={"tp": 2, "cp": 2}, framework="megatron")
    together = rank_of(base, E, tp=tp, cp=cp, micro_batch=size)
    for i, (t, c, s) in enumerate(rows):
        alone = rank_of(scenario(LLAMA, plan={"tp": t, "cp": c, "micro_batch": s}, framework="megatron"), E)
        for name in ("forward", "input", "weight"):
            many = [np.broadcast_to(x, len(rows))[i] for x in together.blocks[0].seconds[name]]
            assert many == pytest.approx(alone.blocks[0].seconds[name], rel=1e-12)
        for name in ("dense_parameters", "kept_bytes", "plain_bytes", "ffn_bytes", "attention_bytes"):
            many = np.broadcast_to(getattr(together.shard.blocks[0], name), len(rows))[i]
            assert many == pytest.approx(getattr(alone.shard.blocks[0], name), rel=1e-12), name


def test_lines_follow_the_groups():
    one = scenario(LLAMA, plan={"tp": 4, "dp": 4}, chips_per_node=8)
    rank = rank_of(one, E)
    near = lines_of(rank, one.cluster, setting_of(one, rank).groups, E).blocks[0][0]
    apart = scenario(LLAMA, plan={"tp": 4, "dp": 4, "placement": "dp-tp-cp-pp"}, chips_per_node=8)
    far = lines_of(rank, apart.cluster, setting_of(apart, rank).groups, E).blocks[0][0]
    assert near.ranks == far.ranks == 4
    # Two of the four are on another node: the sum passes a port of 1 GB/s on each of two ranks.
    payload, count = 128 * 256 * 2, near.message.count
    assert count == 2
    assert near.seconds == pytest.approx(count * 2 * 3 / 4 * payload / 1e10)
    assert far.seconds == pytest.approx(count * (2 * 3 / 4 * payload / 2e9 + 2 * 1e-5))
