"""Memory: each kind by hand, the moment that is the peak, and what sharding, stages and recomputation change.

test_against_torch.py holds the whole against torch's own tracker.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from estimator.cost.efficiency import efficiencies
from estimator.estimate.report import MemoryOfStage, stage_memories
from estimator.memory.activations import kept_bytes, logits_bytes
from estimator.memory.memory import stage_memory
from estimator.memory.stage_parameters import stage_parameters
from estimator.operations.optimizer import optimizer
from estimator.operations.rank_sizes import rank_sizes
from estimator.operations.transformer import network
from estimator.scenario.breakdown import MEMORY_KINDS
from estimator.scenario.parameters import parameters
from estimator.scenario.plan import Plan
from estimator.scenario.precision import byte_widths
from estimator.scenario.scenario import scenario_from_json
from estimator.scenario.training import Training
from estimator.schedule.schedules import in_flight
from tests.estimator.examples import GPT, LLAMA, MIXTRAL, built, document, scenario

WORKSPACE = 1000.0
E = replace(efficiencies("default"), workspace_bytes=WORKSPACE)
COUNT = parameters(scenario(LLAMA).model)
TABLE = 1024 * 256


def memories(model=LLAMA, **rest) -> tuple[MemoryOfStage, ...]:
    return stage_memories(built(scenario(model, **rest)).setting, E)


def memory(model=LLAMA, **rest) -> MemoryOfStage:
    (found,) = memories(model, **rest)
    return found


def test_the_kinds_add_to_the_peak():
    found = memory()
    assert list(found.by_kind) == list(MEMORY_KINDS)
    assert found.peak_bytes == sum(found.by_kind.values())


@pytest.mark.parametrize(
    ("precision", "framework", "optimizer", "widths"),
    [
        ("fp32", "pytorch-eager", "adamw", (4, 8)),
        ("bf16", "pytorch-eager", "adamw", (2, 4)),
        ("bf16-amp", "pytorch-eager", "adamw", (4, 8)),
        ("bf16", "megatron", "adamw", (2, 12)),
        ("bf16", "pytorch-eager", "sgd", (2, 0)),
        ("fp32", "pytorch-eager", "adamw-8bit", (4, 2 + 8 / 2048)),
        ("bf16", "megatron", "adafactor", (2, 4)),
        ("bf16", "megatron", "adamw-bf16", (2, 6)),
    ],
)
def test_states_by_precision(precision, framework, optimizer, widths):
    found = memory(precision=precision, framework=framework, optimizer=optimizer).by_kind
    assert (found["parameters"], found["optimizer"]) == (COUNT * widths[0], COUNT * widths[1])
    assert found["framework"] == WORKSPACE


def test_a_tiny_batch_peaks_in_the_optimizer_at_five_values_per_parameter():
    # Parameter, gradient, two moments, and one multi-tensor temporary.
    found = memory(seq_len=8)
    assert found.moment == "optimizer step"
    assert found.peak_bytes - WORKSPACE == 5 * 2 * COUNT


def test_moments_of_two_bytes_are_fp32_while_they_are_updated():
    # Parameter, gradient and the rest of its master in 2 bytes, two moments, and both of these in 4.
    found = memory(seq_len=8, framework="megatron", optimizer="adamw-bf16")
    assert found.moment == "optimizer step"
    assert found.peak_bytes - WORKSPACE == (2 + 2 + 2 + 4 + 8) * COUNT


def test_large_tensors_are_held_with_their_rests():
    # Three of 25 MiB a block in segments of 26: parameter, gradient, two moments and the update's temporary.
    wide = {**LLAMA, "hidden": 1280, "ffn": 5120, "heads": 20, "kv_heads": 20}
    change = {"precision": "fp32", "seq_len": 8}
    rounded = memory(wide, **change).peak_bytes
    plain = 5 * 4 * parameters(scenario(wide, **change).model) + WORKSPACE
    assert rounded - plain == 5 * wide["layers"] * 3 * 2**20


def test_torchtitan_shards_wide_states_whatever_its_products_are_in():
    def states(precision: str, framework: str) -> tuple[float, ...]:
        n = byte_widths(Training(seq_len=1, global_batch=4, precision=precision, framework=framework),
                        Plan(dp=4, sharding="fsdp"))  # fmt: skip
        return n.compute, n.parameter, n.gradient, n.optimizer

    for precision in ("fp8", "fp4", "bf16", "bf16-amp"):
        assert states(precision, "torchtitan") == states("bf16-amp", "pytorch-eager") == (2, 4, 4, 8)
    assert states("fp8", "pytorch-eager") == (2, 2, 2, 4)


@pytest.mark.parametrize(
    ("framework", "compiled", "tp", "end", "peak"),
    [
        ("torchtitan", True, 1, 2, 4),
        ("torchtitan", False, 1, 4, 12),
        ("torchtitan", False, 2, 4, 16),
        ("torchtitan-2024", True, 1, 4, 12),
        ("torchtitan-2024", True, 2, 4, 16),
    ],
)
def test_torchtitan_compiles_its_loss_since_2025(framework, compiled, tp, end, peak):
    one = scenario(LLAMA, plan={"tp": tp}, framework=framework, compile=compiled, seq_len=128)
    assert logits_bytes(rank_sizes(one)) == (128 * 1024 / tp * end, 128 * 1024 / tp * peak)


def test_a_compiler_keeps_no_product_that_backward_does_not_need():
    def kept(*, compiled: bool, tp: int = 1) -> float:
        plan = {"recompute": "selective", "tp": tp, "sequence_parallel": tp > 1}
        one = scenario(LLAMA, plan=plan, framework="torchtitan", compile=compiled, seq_len=128)
        return float(kept_bytes(network(rank_sizes(one)).blocks[0].ops))

    stream = 2 * 128 * 256
    assert kept(compiled=False) - kept(compiled=True) == stream  # of the down projection
    # With two ranks, its share of the stream after the down projection's scatter, too
    assert kept(compiled=False, tp=2) - kept(compiled=True, tp=2) == stream + stream / 2


def test_what_pytorch_kept_before_1_11():
    now, then = memory(attention="eager"), memory(attention="eager", framework="pytorch-1.10")
    assert then.by_kind["gradients"] == 2 * COUNT
    assert then.by_kind["activations"] > now.by_kind["activations"]
    # One tensor at a time is updated, so that the last block's backward holds most.
    assert memory(seq_len=8, framework="pytorch-1.10").peak_bytes < memory(seq_len=8).peak_bytes


def test_a_fused_optimizer_has_no_temporaries():
    # Only 18 bytes of state per parameter, and the few activations of 8 tokens.
    found = memory(seq_len=8, framework="megatron")
    assert found.peak_bytes - WORKSPACE == pytest.approx(18 * COUNT, rel=0.01)


def test_a_large_vocabulary_peaks_in_the_losss_backward():
    found = memory({**LLAMA, "vocab": 100_000, "layers": 1}, seq_len=1024)
    assert found.moment == "loss backward"
    assert found.by_kind["logits"] == 1024 * 100_000 * 6
    # The first micro-batch has no gradients yet.
    assert found.by_kind["gradients"] == 0


def test_a_second_micro_batch_finds_the_gradients_of_the_first():
    model = {**LLAMA, "vocab": 100_000, "layers": 1}
    found = memory(model, seq_len=1024, global_batch=2)
    assert found.moment == "loss backward"
    assert found.by_kind["gradients"] == 2 * parameters(scenario(model).model)


def test_a_wide_inner_layer_peaks_where_its_gradients_live():
    found = memory({**LLAMA, "layers": 1, "vocab": 64, "ffn": 4096}, seq_len=4096)
    assert found.moment.endswith("FFN backward")
    # Two gradients of the stream, and those of gate and up.
    assert found.by_kind["temporaries"] == 2 * 4096 * (2 * 256 + 2 * 4096)


def test_eager_attention_peaks_where_the_gradient_of_the_scores_lives():
    found = memory({**LLAMA, "vocab": 64}, seq_len=2048, precision="fp32", attention="eager")
    assert found.moment == "last block's attention backward"
    fused = memory({**LLAMA, "vocab": 64}, seq_len=2048, precision="fp32", attention="sdpa")
    assert found.by_kind["activations"] > fused.by_kind["activations"]


@pytest.mark.parametrize(
    ("precision", "framework", "end", "peak"),
    [
        ("fp32", "pytorch-eager", 4, 12),
        ("bf16", "pytorch-eager", 2, 6),
        ("bf16-amp", "pytorch-eager", 6, 10),
        ("bf16", "pytorch-compile", 2, 4),
        # Korthikanti 2022, section 4.3: Megatron keeps the logits in fp32, 4·s·b·v/t; their gradient is cast to 2.
        ("bf16", "megatron", 4, 6),
    ],
)
def test_bytes_per_logit(precision, framework, end, peak):
    d = rank_sizes(scenario(LLAMA, precision=precision, framework=framework))
    assert logits_bytes(d) == (128 * 1024 * end, 128 * 1024 * peak)


def test_activations_are_what_each_block_and_the_head_keep():
    model = {**LLAMA, "vocab": 100_000}
    one = scenario(model, seq_len=512)
    ops = network(rank_sizes(one))
    final_norm = next(op for op in ops.head if op.name == "final norm")
    logits = next(op for op in ops.head if op.name == "logits")
    expected = 4 * kept_bytes(ops.blocks[0].ops) + final_norm.saved_bytes + logits.saved_bytes
    assert memory(model, seq_len=512).by_kind["activations"] == expected


def test_autocasts_copies_of_weights_are_temporaries_not_activations():
    found = memory({**LLAMA, "vocab": 100_000}, seq_len=512, precision="bf16-amp")
    setting = built(scenario({**LLAMA, "vocab": 100_000})).setting
    _, _, cast, _, _ = stage_parameters(setting.shard, setting.kinds[0])
    assert cast == 4 * (256 * (2 * 256 + 2 * 64) + 3 * 256 * 704) + 100_000 * 256
    assert found.by_kind["temporaries"] == 2 * cast


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
SELECTIVE = {"micro_batch": 1, "recompute": "selective"}


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


@pytest.mark.parametrize(
    ("plan", "chips", "peak"),
    [
        # Two and four H200, allocator's peak in MB: blocks make their scores again, of one mask
        ({"cp": 2, "cp_kind": "ulysses", **SELECTIVE}, 2, 8_286.4),
        ({"cp": 4, "cp_kind": "ulysses", **SELECTIVE}, 4, 4_675.7),
        ({"tp": 2, "sequence_parallel": True, **SELECTIVE}, 2, 8_088.1),
    ],
)
def test_eager_attention_of_long_sequences(plan, chips, peak):
    small = {"layers": 3, "hidden": 768, "heads": 12, "ffn": 3072, "vocab": 10_000}
    found = memory(small, plan=plan, seq_len=8192, precision="tf32", attention="eager", global_batch=2,
                   chips_per_node=chips)  # fmt: skip
    assert found.moment == "last block's attention backward"
    assert found.peak_bytes + 64 * 2**20 == pytest.approx(peak * 1e6, rel=0.004)


def test_the_embeddings_gradient_comes_after_the_first_blocks():
    setting = built(scenario(LLAMA, seq_len=512)).setting
    for batches in (1, 2):
        found = stage_memory(setting.shard, setting.kinds[0], setting.policy, in_flight=1.0, micro_batches=batches,
                             workspace_bytes=WORKSPACE)  # fmt: skip
        attention = 256 * (2 * 256 + 2 * 64) + 2 * 256
        yet_to_come = 2 * (TABLE + attention) if batches == 1 else 0
        assert found.moments[FIRST]["gradients"] == pytest.approx(2 * COUNT - yet_to_come)


def test_the_heads_cast_goes_with_its_backward():
    setting = built(scenario(LLAMA, seq_len=512, precision="bf16-amp")).setting
    found = stage_memory(setting.shard, setting.kinds[0], setting.policy, in_flight=1.0, micro_batches=1,
                         workspace_bytes=WORKSPACE)  # fmt: skip
    _, _, cast, _, _ = stage_parameters(setting.shard, setting.kinds[0])
    ffn = setting.shard.blocks[0].ffn_bytes
    assert found.moments["loss backward"]["temporaries"] == 2 * cast
    assert found.moments[LAST]["temporaries"] - ffn == 2 * (cast - TABLE)


def test_chunks_short_of_blocks_hold_micro_batches_of_their_own():
    # Six blocks in chunks of 1, 2, 2 and 1: the first rank holds three micro-batches of its short chunk and two of its
    # long one, the last two of its long one and one of its short one. Two H200, allocator's peak in MB.
    medium = {"layers": 6, "hidden": 1024, "heads": 16, "ffn": 4096, "vocab": 10_000}
    plan = {"pp": 2, "schedule": "interleaved", "virtual_stages": 2, "micro_batch": 4}
    found = memories(medium, plan=plan, seq_len=4096, global_batch=16, precision="tf32", attention="sdpa",
                     chips_per_node=2)  # fmt: skip
    for one, peak in zip(found, (14_819.5, 13_344.0), strict=True):
        assert one.peak_bytes + 64 * 2**20 == pytest.approx(peak * 1e6, rel=0.006)


def travelling(model=LLAMA, **rest) -> dict[str, float]:
    """Bytes of buffers for communication by moment."""
    setting = built(scenario(model, seq_len=512, **rest)).setting
    found = stage_memory(setting.shard, setting.kinds[0], setting.policy, in_flight=1.0, micro_batches=1,
                         workspace_bytes=WORKSPACE)  # fmt: skip
    return {name: float(kinds.get("communication", 0.0)) for name, kinds in found.moments.items()}


LAST, FIRST = "last block's FFN backward", "first block's attention backward"


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


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_a_stage_keeps_the_micro_batches_in_flight(schedule):
    found = memories(GPT, plan={"pp": 4, "schedule": schedule}, global_batch=6, seq_len=1024, framework="megatron")
    per_layer = kept_bytes(network(rank_sizes(scenario(GPT, seq_len=1024, framework="megatron"))).blocks[0].ops)
    assert [stage.in_flight for stage in found] == [in_flight(schedule, i, 4, 6) for i in range(4)]
    for stage in found[:-1]:
        assert stage.by_kind["activations"] == per_layer * stage.in_flight
        assert stage.by_kind["logits"] == 0
    assert found[-1].by_kind["logits"] > 0


def test_gpipe_holds_the_logits_of_every_micro_batch():
    plan = {"pp": 2, "schedule": "gpipe"}
    model = {**GPT, "vocab": 50_000}
    many = memories(model, plan=plan, global_batch=5, seq_len=1024, framework="megatron")[-1]
    one = memories(model, plan={**plan, "schedule": "1f1b"}, global_batch=5, seq_len=1024, framework="megatron")[-1]
    end, _ = logits_bytes(rank_sizes(scenario(model, seq_len=1024, framework="megatron")))
    assert many.by_kind["logits"] - one.by_kind["logits"] == 4 * end


def test_recomputation_keeps_less_but_one_block_is_whole_again():
    def peak(recompute: str) -> float:
        return memory({**LLAMA, "layers": 16, "vocab": 64}, plan={"recompute": recompute}, seq_len=1024,
                      attention="eager").peak_bytes  # fmt: skip

    assert peak("full") < peak("selective") < peak("none")
    # One block recomputed needs as much as one block kept.
    (one_layer,) = memories({**LLAMA, "layers": 1, "vocab": 64}, seq_len=1024, attention="eager")
    assert peak("full") > one_layer.by_kind["activations"]


def test_one_layer_gains_nothing_from_recomputation():
    def peak(recompute: str) -> float:
        return memory({**LLAMA, "layers": 1, "vocab": 64}, plan={"recompute": recompute}, seq_len=1024).peak_bytes

    assert peak("full") >= peak("none")


def test_a_cpu_updates_tensor_by_tensor():
    data = document(LLAMA, seq_len=8)
    data["cluster"]["chip"] = {**data["cluster"]["chip"], "kind": "cpu"}
    one = scenario_from_json(data)
    (found,) = stage_memories(built(one).setting, E)
    assert found.by_kind["temporaries"] == 2 * TABLE
    (op,) = optimizer(one.training, rank_sizes(one).widths, 1e6, 10.0, multi_tensor=False)
    assert op.launches == 8 * 10


def test_the_peak_is_that_of_the_fullest_moment():
    setting = built(scenario(LLAMA, seq_len=512)).setting
    found = stage_memory(setting.shard, setting.kinds[0], setting.policy, in_flight=1.0, micro_batches=1,
                         workspace_bytes=WORKSPACE)  # fmt: skip
    ((moment, by_kind),) = found.at_peaks(1)
    totals = {name: sum(kinds.values()) for name, kinds in found.moments.items()}
    assert totals[moment] == max(totals.values()) == found.largest
    assert sum(by_kind.values()) == found.peak_bytes
    assert len(totals) == 7


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


def with_a_way_to_the_host(**rest) -> MemoryOfStage:
    data = document(LLAMA, **rest)
    data["cluster"]["chip"] = {**data["cluster"]["chip"], "host_bytes_per_s": 1e10}
    (found,) = stage_memories(built(scenario_from_json(data)).setting, E)
    return found


def test_an_offloaded_optimizer_leaves_no_moments_and_no_temporaries():
    here, away = with_a_way_to_the_host(seq_len=8), with_a_way_to_the_host(plan={"offload": "optimizer"}, seq_len=8)
    assert (here.by_kind["optimizer"], away.by_kind["optimizer"]) == (4 * COUNT, 0)
    # Parameters and gradients stay.
    assert away.peak_bytes == pytest.approx(WORKSPACE + 4 * COUNT, rel=0.01)


def test_offloaded_activations_leave_two_blocks_at_a_time():
    away = with_a_way_to_the_host(plan={"offload": "activations"}, seq_len=4096)
    block = built(scenario(LLAMA, seq_len=4096)).setting.shard.blocks[0]
    assert away.by_kind["activations"] <= 2 * block.kept_bytes + 128 * 1024 * 1024
    assert away.peak_bytes < with_a_way_to_the_host(seq_len=4096).peak_bytes
    both = with_a_way_to_the_host(plan={"offload": "both"}, seq_len=4096)
    assert both.by_kind["optimizer"] == 0
    assert both.by_kind["activations"] == away.by_kind["activations"]


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


@pytest.mark.parametrize(
    ("attention", "framework", "seq_len", "moment", "share"),
    [
        ("eager", "pytorch-eager", 2048, "last block's attention backward", "allocator_scores_frac"),
        ("eager", "pytorch-eager", 32, "optimizer step", "allocator_frac"),
        ("eager", "pytorch-compile", 2048, "last block's attention backward", "allocator_frac"),
        ("sdpa", "pytorch-eager", 2048, "last block's FFN backward", "allocator_frac"),
    ],
)
def test_scores_leave_their_segments_to_the_next_block(attention, framework, seq_len, moment, share):
    # 14 steps of an H200 that peak there hold 1.03 times their peak in the median, 117 others 1.07.
    wide = {**GPT, "vocab": 8, "ffn": 4096}
    found = memory(wide, attention=attention, framework=framework, seq_len=seq_len)
    assert found.moment == moment
    assert found.reserved_bytes == pytest.approx(found.peak_bytes * getattr(E, share))
    assert E.allocator_scores_frac < E.allocator_frac


def test_interleaved_stages_hold_more_than_plain_ones():
    # Narayanan 2021, section 2.2: by 1 + (p - 1)/(p·v) on the first stage, where micro-batches are enough.
    plan = {"pp": 2, "schedule": "interleaved", "virtual_stages": 2}
    first = memories({**GPT, "layers": 8}, plan=plan, global_batch=8)[0]
    assert first.in_flight == (2 * 1 + 1 * 2 + 1) / 2
    plain = memories({**GPT, "layers": 8}, plan={"pp": 2}, global_batch=8)[0]
    assert first.in_flight / plain.in_flight == pytest.approx(1 + (2 - 1) / (2 * 2))


@pytest.mark.parametrize(
    ("plan", "held", "at_head"),
    [({"schedule": "interleaved", "virtual_stages": 2}, 1.5, 1.0), ({"schedule": "gpipe"}, 8.0, 8.0)],
)
def test_casts_of_checkpointed_blocks_go_with_the_chunk_that_made_them(plan, held, at_head):
    # A pipeline calls a chunk under an autocast of its own, and a checkpoint keeps no weight that its blocks cast.
    many = scenario({**LLAMA, "layers": 8}, plan={"pp": 2, "recompute": "full", **plan}, precision="bf16-amp",
                    global_batch=8)  # fmt: skip
    setting = built(many).setting
    chunks = setting.virtual_stages
    found = stage_memory(setting.shard, setting.kinds[-1], setting.policy, in_flight=held, micro_batches=8,
                         workspace_bytes=WORKSPACE, head_in_flight=at_head, chunks=chunks)  # fmt: skip
    one_block, head = 2 * setting.shard.blocks[0].cast_parameters, 2 * setting.shard.head_parameters
    temporaries = {moment: kinds.get("temporaries", 0.0) for moment, kinds in found.moments.items()}
    assert temporaries["end of forward"] == 4 / chunks * one_block + at_head * head
    assert temporaries["loss backward"] == at_head * head
    inside = temporaries["last block's FFN backward"] - setting.shard.blocks[0].ffn_bytes
    assert inside == one_block + (at_head - 1) * head
    shard = setting.shard
    waiting = (at_head - 1) * shard.logits_end_bytes + at_head * shard.handed_logits_bytes
    assert found.moments["end of forward"]["logits"] == waiting


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


def test_the_loss_is_made_beside_its_logits_and_all_casts():
    many = scenario(LLAMA, plan={"recompute": "full"}, precision="bf16-amp")
    setting = built(many).setting
    found = stage_memory(setting.shard, setting.kinds[0], setting.policy, in_flight=1.0, micro_batches=1,
                         workspace_bytes=WORKSPACE)  # fmt: skip
    _, _, cast, _, _ = stage_parameters(setting.shard, setting.kinds[0])
    end = found.moments["end of forward"]
    # The loss keeps 6 bytes a logit, the program its logits of 2 until it has the loss.
    assert (end["logits"], end["temporaries"]) == (8 * many.plan.micro_batch * many.training.seq_len * 1024, 2 * cast)


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
