"""Memory: each kind by hand, the moment that is the peak, and what sharding, stages and recomputation change.

test_against_torch.py holds the whole against torch's own tracker.
"""

from __future__ import annotations

import pytest

from estimator.breakdown import MEMORY_KINDS
from estimator.memory import StageMemory, kept_bytes, logits_bytes
from estimator.model import parameters
from estimator.networks.dims import dims
from estimator.networks.transformer import network, optimizer
from estimator.parallel.pipeline import in_flight
from estimator.scenario import scenario_from_json
from estimator.stages import stage_memories, stages
from tests.estimator.examples import GPT, LLAMA, document, flawless, scenario

WORKSPACE = 1000.0
COUNT = parameters(scenario(LLAMA).model)
TABLE = 1024 * 256


def memories(model=LLAMA, **rest) -> list[StageMemory]:
    one = scenario(model, **rest)
    return stage_memories(one, stages(one, network(dims(one))), flawless(workspace_bytes=WORKSPACE))


def memory(model=LLAMA, **rest) -> StageMemory:
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
        # Korthikanti 2022, section 4.3: Megatron keeps the logits in fp32, 4·s·b·v/t.
        ("bf16", "megatron", 4, 8),
    ],
)
def test_bytes_per_logit(precision, framework, end, peak):
    d = dims(scenario(LLAMA, precision=precision, framework=framework))
    assert logits_bytes(d) == (128 * 1024 * end, 128 * 1024 * peak)


def test_activations_are_what_each_block_and_the_head_keep():
    model = {**LLAMA, "vocab": 100_000}
    one = scenario(model, seq_len=512)
    ops = network(dims(one))
    final_norm = next(op for op in ops.head if op.name == "final norm")
    logits = next(op for op in ops.head if op.name == "logits")
    expected = 4 * kept_bytes(ops.layer) + final_norm.saved_bytes + logits.saved_bytes
    assert memory(model, seq_len=512).by_kind["activations"] == expected


def test_autocasts_copies_of_weights_are_temporaries_not_activations():
    found = memory({**LLAMA, "vocab": 100_000}, seq_len=512, precision="bf16-amp")
    (stage,) = stages(scenario({**LLAMA, "vocab": 100_000}), network(dims(scenario({**LLAMA, "vocab": 100_000}))))
    assert found.by_kind["temporaries"] == 2 * stage.linear_parameters


def test_the_optimizer_step_holds_the_shares_of_zero():
    def states(sharding: str) -> dict[str, float]:
        found = memory(plan={"dp": 4, "sharding": sharding, "bucket_bytes": 1}, seq_len=8).by_kind
        return {kind: found[kind] / COUNT for kind in ("parameters", "gradients", "optimizer")}

    assert states("ddp") == {"parameters": 2, "gradients": 2, "optimizer": 4}
    assert states("zero1") == {"parameters": 2, "gradients": 2, "optimizer": 1}


def test_parameters_are_sharded_by_fsdp_at_every_moment():
    found = memory(plan={"dp": 4, "sharding": "fsdp"}).by_kind
    assert found["parameters"] == 2 * COUNT / 4
    assert found["optimizer"] == 4 * COUNT / 4


def test_communication_buffers():
    # DDP copies gradients into buckets; ZeRO-1 needs two buckets; FSDP gathers two blocks, one block's gradient, and
    # the root unit: both tables and the final norm.
    bucket = 500
    by_sharding = {
        sharding: memory(plan={"dp": 2, "sharding": sharding, "bucket_bytes": bucket}, seq_len=512)
        for sharding in ("ddp", "zero1", "zero3", "fsdp")
    }
    block = 2 * (256 * (2 * 256 + 2 * 64) + 3 * 256 * 704 + 2 * 256)
    root = 2 * (2 * TABLE + 256)
    assert by_sharding["ddp"].by_kind["communication"] == 2 * COUNT
    assert by_sharding["zero1"].by_kind["communication"] == 2 * bucket
    assert by_sharding["fsdp"].by_kind["communication"] == 2 * bucket + 3 * block + root
    assert by_sharding["zero3"].by_kind["communication"] == 2 * bucket + (4 + 1) * block + root
    assert memory(seq_len=512).by_kind["communication"] == 0


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_a_stage_keeps_the_micro_batches_in_flight(schedule):
    found = memories(GPT, plan={"pp": 4, "schedule": schedule}, global_batch=6, seq_len=1024, framework="megatron")
    per_layer = kept_bytes(network(dims(scenario(GPT, seq_len=1024, framework="megatron"))).layer)
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
    end, _ = logits_bytes(dims(scenario(model, seq_len=1024, framework="megatron")))
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
    (found,) = stage_memories(one, stages(one, network(dims(one))), flawless())
    assert found.by_kind["temporaries"] == 2 * TABLE
    (op,) = optimizer(dims(one), 1e6, 10.0)
    assert op.launches == 8 * 10
