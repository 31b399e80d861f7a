"""Sharded memory: what data parallel ranks hold of parameters and gradients, gather, and send, moment by moment."""

from __future__ import annotations

import pytest

from estimator.memory.memory import stage_memory
from estimator.scenario.parameters import parameters
from tests.estimator.examples import LLAMA, MIXTRAL, built, scenario
from tests.estimator.memory.test_memory import COUNT, FIRST, LAST, SELECTIVE, TABLE, WORKSPACE, E, memory


def test_the_optimizer_step_holds_the_shares_of_zero():
    def states(sharding: str) -> dict[str, float]:
        found = memory(plan={"dp": 4, "sharding": sharding, "bucket_bytes": 1}, seq_len=8).by_kind
        return {kind: found[kind] / COUNT for kind in ("parameters", "gradients", "optimizer")}

    assert states("ddp") == {"parameters": 2, "gradients": 2, "optimizer": 4}
    # Whole gradients in buckets, beside those of the last one
    assert states("zero1") == {"parameters": 2, "gradients": 2 + 2 * TABLE / COUNT, "optimizer": 1}


def test_parameters_are_sharded_by_fsdp_at_every_moment():
    found = memory(plan={"dp": 4, "sharding": "fsdp"}).by_kind
    assert found["parameters"] == 2 * COUNT / 4
    assert found["optimizer"] == 4 * COUNT / 4


GPT2_MEDIUM = {"hidden": 1024, "heads": 16, "ffn": 4096, "vocab": 50257, "gated_ffn": False, "activation": "gelu-tanh",
               "norm": "layer", "position": "learned", "max_positions": 1024, "bias": True, "tied_embedding": True,
               "layers": 6}  # fmt: skip
LLAMA3_8B = {"hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "vocab": 128256, "layers": 8}
QWEN3_4B = {"hidden": 2560, "heads": 32, "kv_heads": 8, "head_dim": 128, "ffn": 9728, "vocab": 151936, "qk_norm": True,
            "tied_embedding": True}  # fmt: skip
QWEN3_8B = {"hidden": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128, "ffn": 12288, "vocab": 151936,
            "qk_norm": True, "layers": 9}  # fmt: skip


@pytest.mark.parametrize(
    ("model", "plan", "training", "moment", "peak"),
    [
        # Two H200, allocator's peak in MB
        (QWEN3_8B, {"dp": 2, "sharding": "zero1", "micro_batch": 1},
         {"precision": "fp32", "attention": "eager", "global_batch": 4}, "exchange", 44_293.0),
        (GPT2_MEDIUM, {"dp": 2, "sharding": "fsdp", **SELECTIVE}, {"precision": "bf16-amp"}, "embedding backward",
         1_454.2),
        (LLAMA3_8B, {"dp": 2, "sharding": "zero3", **SELECTIVE}, {"precision": "bf16"},
         "next to last block's FFN backward", 16_423.5),
        (LLAMA3_8B, {"dp": 2, "sharding": "fsdp", **SELECTIVE}, {"precision": "bf16"},
         "embedding backward", 14_841.9),
        # Four H200
        ({**QWEN3_4B, "layers": 18}, {"dp": 4, "sharding": "fsdp", **SELECTIVE},
         {"precision": "bf16-amp", "attention": "eager", "seq_len": 1024, "global_batch": 4},
         "next to last block's attention backward", 12_796.6),
    ],
)  # fmt: skip
def test_whole_gradients_that_wait_for_their_exchange(model, plan, training, moment, peak):
    given = {"seq_len": 512, "global_batch": 2, "attention": "sdpa", **training}
    found = memory(model, plan=plan, **given)
    assert found.moment == moment
    workspaces = 64 * 2**20 - WORKSPACE
    assert found.peak_bytes + workspaces == pytest.approx(peak * 1e6, rel=0.006)


def travelling(model=LLAMA, **rest) -> dict[str, float]:
    """Bytes of buffers for communication by moment."""
    setting = built(scenario(model, seq_len=512, **rest)).setting
    found = stage_memory(setting.shard, setting.kinds[0], setting.policy, in_flight=1.0, micro_batches=1,
                         workspace_bytes=WORKSPACE)  # fmt: skip
    return {name: float(kinds.get("communication", 0.0)) for name, kinds in found.moments.items()}


def test_buckets_of_gradients():
    # DDP copies gradients into buckets that stay; with tensor parallel ranks they come with the gradients and go.
    assert set(travelling(plan={"dp": 2}).values()) == {2 * COUNT}
    split = travelling(plan={"dp": 2, "cp": 2})
    assert (split["loss backward"], split[LAST], split[FIRST], split["optimizer step"]) == (
        0, pytest.approx(2 * TABLE), 2 * COUNT, 0
    )  # fmt: skip
    after = travelling(plan={"dp": 2, "overlap": False})
    assert {name for name, size in after.items() if size} == {"exchange"}
    assert after["exchange"] == 2 * COUNT
    assert not any(travelling(plan={"dp": 2, "ddp_mode": "naive"}).values())
    # ZeRO-2 sends one bucket while it fills another.
    assert travelling(plan={"dp": 2, "sharding": "zero2", "bucket_bytes": 500})[FIRST] == 2 * 500
    assert not any(travelling().values())


def test_a_scattered_buckets_own_gradients_stay_until_this_ranks_part_has_its_place():
    # Whole gradients lie flat beside a rank's parts; a table that is embedding and head is scattered last.
    plan = {"dp": 4, "sharding": "zero1", "bucket_bytes": 1}
    assert travelling(plan=plan)["exchange"] == 2 * COUNT / 4
    untied, tied = (travelling({**LLAMA, "tied_embedding": tied}, plan=plan)[LAST] for tied in (False, True))
    assert (untied, tied) == (2 * TABLE / 4, 0)
    # ZeRO-2 gives back what is flat, bucket by bucket
    assert travelling(plan={**plan, "sharding": "zero2"})["exchange"] == 2 * TABLE


def test_parameters_that_are_gathered():
    # FSDP gathers two blocks, with one block's gradient, and the root unit: both tables and the final norm, which it
    # lays out anew when the loss is done. ZeRO-3 keeps what forward has gathered.
    block = 2 * (256 * (2 * 256 + 2 * 64) + 3 * 256 * 704 + 2 * 256)
    root = 2 * (2 * TABLE + 256)
    again = travelling(plan={"dp": 2, "sharding": "fsdp"})
    assert (again["loss backward"], again["head backward"]) == (0, 2 * root)
    # What a block sends goes with the next one's gradients; the first has no other gathered beside it.
    last, beside = "last block's attention backward", "next to last block's attention backward"
    assert (again[last], again[beside], again[FIRST]) == (3 * block + root, 4 * block + root, 3 * block + root)
    kept = travelling(plan={"dp": 2, "sharding": "zero3"})
    assert (kept["loss backward"], kept[last]) == (4 * block + root, (4 + 1) * block + root)
    assert kept[FIRST] == 3 * block + root
    assert "head backward" not in kept


@pytest.mark.parametrize("sharding", ["zero1", "zero2", "zero3", "fsdp"])
@pytest.mark.parametrize("tied", [False, True])
def test_one_rank_alone_has_the_gradients_of_its_tables_whole_whatever_it_shards(sharding, tied):
    for batches in (1, 4):
        peaks = {
            one: memory({**LLAMA, "tied_embedding": tied}, plan={"sharding": one}, seq_len=8, optimizer="sgd",
                        global_batch=batches).peak_bytes
            for one in ("ddp", sharding)
        }  # fmt: skip
        assert peaks[sharding] == peaks["ddp"], batches


def test_hybrid_sharding_divides_by_the_ranks_of_one_copy():
    def parameters_held(**plan) -> float:
        return memory(plan={"dp": 8, "sharding": "fsdp", **plan}).by_kind["parameters"]

    assert parameters_held() == 2 * COUNT / 8
    assert parameters_held(shard_ranks=2) == 2 * COUNT / 2
    # Context parallel ranks hold the same parameters and share them too.
    assert memory(plan={"dp": 2, "cp": 4, "sharding": "fsdp"}).by_kind["parameters"] == 2 * COUNT / 8


def test_experts_are_sharded_over_the_ranks_that_hold_the_same_ones():
    # 8 ranks, ep 4: each rank has 2 of 8 experts, and one other rank has the same two.
    found = memory(MIXTRAL, plan={"dp": 8, "ep": 4, "sharding": "fsdp"}).by_kind
    count = parameters(scenario(MIXTRAL).model)
    experts = 4 * 8 * 3 * 256 * 512
    assert found["parameters"] == pytest.approx(2 * ((count - experts) / 8 + experts / 4 / 2))


EXPERTS = 4 * 8 * 3 * 256 * 512
"""Expert parameters of MIXTRAL."""


def test_copies_of_experts_need_buckets_although_nothing_else_has_copies():
    # Without ep both ranks of tp hold every expert whole and sum its gradients; they share all else.
    copied = travelling(MIXTRAL, plan={"tp": 2, "sequence_parallel": True})
    assert copied[FIRST] == 2 * EXPERTS
    alone = travelling(MIXTRAL, plan={"tp": 2, "ep": 2, "sequence_parallel": True})
    assert alone[FIRST] == 0
    both = travelling(MIXTRAL, plan={"dp": 2, "ep": 2})
    count = parameters(scenario(MIXTRAL).model)
    assert both[FIRST] == 2 * (count - EXPERTS)


def test_experts_that_no_other_rank_holds_are_never_gathered():
    # Every rank has one of 8 experts per block: FSDP shards what is dense, and gathers no more than that.
    found = travelling(MIXTRAL, plan={"dp": 8, "ep": 8, "sharding": "fsdp"})
    dense = parameters(scenario(MIXTRAL).model) - EXPERTS
    assert found[LAST] < 2 * dense
    spread = travelling(MIXTRAL, plan={"dp": 8, "ep": 4, "sharding": "fsdp"})
    assert spread[LAST] - found[LAST] == 3 * 2 * EXPERTS / 4 / 4


@pytest.mark.parametrize("framework", ["pytorch-1.10", "megatron"])
@pytest.mark.parametrize("sharding", ["zero3", "fsdp"])
def test_gradients_that_are_there_from_the_start_are_there_in_every_blocks_backward(framework, sharding):
    setting = built(scenario(LLAMA, plan={"dp": 2, "sharding": sharding}, global_batch=2, framework=framework)).setting
    found = stage_memory(setting.shard, setting.kinds[0], setting.policy, in_flight=1.0, micro_batches=1,
                         workspace_bytes=WORKSPACE)  # fmt: skip
    before = found.moments["loss backward"]["gradients"]
    assert before > 0
    assert min(kinds["gradients"] for kinds in found.moments.values()) == before


def test_a_gradient_that_fills_a_bucket_is_sent_as_it_is():
    def buckets(plan: dict, limit: int = 300_000) -> float:
        one = scenario(LLAMA, plan={**plan, "bucket_bytes": limit}, global_batch=2)
        setting = built(one).setting
        found = stage_memory(setting.shard, setting.kinds[0], setting.policy, in_flight=1.0, micro_batches=1,
                             workspace_bytes=WORKSPACE)  # fmt: skip
        return found.moments["exchange" if "exchange" in found.moments else FIRST]["communication"]

    # Tables and the network's matrices are larger than a bucket; DistributedDataParallel copies them all the same.
    small = 4 * (256 * (2 * 256 + 2 * 64) + 2 * 256) + 256
    assert buckets({"cp": 2, "cp_kind": "ulysses"}) == 2 * small
    # A network's matrix that is as large as a bucket leaves no room in it
    assert buckets({"cp": 2, "cp_kind": "ulysses"}, 2 * 256 * 704) == 2 * small
    assert buckets({"dp": 2}) == 2 * COUNT


def test_streams_of_fsdp_keep_what_they_gathered_and_scattered():
    def held(sharding: str, framework: str = "pytorch-eager", dp: int = 4) -> tuple[float, float]:
        found = memory(plan={"dp": dp, "sharding": sharding}, framework=framework, global_batch=dp)
        return found.peak_bytes, found.reserved_bytes

    for alike in (held("ddp"), held("fsdp", "megatron"), held("fsdp", dp=1)):
        assert alike[1] == pytest.approx(alike[0] * E.allocator_frac)
    assert held("fsdp")[1] > 1.01 * held("fsdp")[0] * E.allocator_frac
    setting = built(scenario(LLAMA, plan={"dp": 4, "sharding": "fsdp"}, precision="bf16-amp", global_batch=4)).setting
    found = stage_memory(setting.shard, setting.kinds[0], setting.policy, in_flight=1.0, micro_batches=1,
                         workspace_bytes=WORKSPACE)  # fmt: skip
    # A rank's fp32 gradients and a whole block's; two blocks in 16 bits and a rank's own share of one
    block = (COUNT - 2 * TABLE - 256) / 4
    assert found.scattered_bytes == pytest.approx(COUNT + 4 * block)
    assert found.gathering_bytes == pytest.approx(2 * (2 * block + block / 4))


def test_a_wider_leading_block_needs_no_less_where_experts_are_gathered():
    def peak(ffn: int) -> float:
        model = {**MIXTRAL, "experts": 32, "dense_layers": 1, "ffn": ffn}
        return memory(model, plan={"dp": 4, "sharding": "fsdp", "recompute": "selective"}, seq_len=512).peak_bytes

    assert peak(1024) <= peak(2048) <= peak(4096) <= peak(8192)
