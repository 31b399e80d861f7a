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
from tests.estimator.examples import GPT, LLAMA, built, document, scenario

WORKSPACE = 1000.0
E = replace(efficiencies("default"), workspace_bytes=WORKSPACE)
COUNT = parameters(scenario(LLAMA).model)
TABLE = 1024 * 256
SELECTIVE = {"micro_batch": 1, "recompute": "selective"}


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


LAST, FIRST = "last block's FFN backward", "first block's attention backward"


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


def test_the_loss_is_made_beside_its_logits_and_all_casts():
    many = scenario(LLAMA, plan={"recompute": "full"}, precision="bf16-amp")
    setting = built(many).setting
    found = stage_memory(setting.shard, setting.kinds[0], setting.policy, in_flight=1.0, micro_batches=1,
                         workspace_bytes=WORKSPACE)  # fmt: skip
    _, _, cast, _, _ = stage_parameters(setting.shard, setting.kinds[0])
    end = found.moments["end of forward"]
    # The loss keeps 6 bytes a logit, the program its logits of 2 until it has the loss.
    assert (end["logits"], end["temporaries"]) == (8 * many.plan.micro_batch * many.training.seq_len * 1024, 2 * cast)
