"""Whole steps by hand: weights and optimizer state of a rank, FLOPs, activations, and bytes sent, from papers alone.

Sizes stand as numbers, so that nothing here follows the estimator's own formulas: Shoeybi 2019 (arXiv 1909.08053),
Rajbhandari 2020 (1910.02054), Narayanan 2021 (2104.04473), Korthikanti 2022 (2205.05198), Jacobs 2023 (2309.14509),
DeepSeek-V2 and V3 (2405.04434, 2412.19437), Dubey 2024 (2407.21783).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from estimator.estimate.assemble import effective, efficiencies_of, rank_of, setting_of
from estimator.estimate.estimate import Estimate, estimate
from estimator.memory.rank_memory import BlockMemory
from estimator.scenario.scenario import scenario_from_json


@dataclass(frozen=True)
class Case:
    """One step: its estimate, what its last kind of block holds on a rank, and the blocks of its stages."""

    found: Estimate
    block: BlockMemory
    layers: list[float]

    def sent(self, axis: str, phase: str) -> dict[str, float]:
        """Payload bytes of a step by kind of collective."""
        total: dict[str, float] = {}
        for one in self.found.collectives:
            if (one.axis, one.phase) == (axis, phase):
                total[one.kind] = total.get(one.kind, 0.0) + one.bytes * one.count
        return total


def case(model: str, chip: str, nodes: int, plan: dict[str, Any], **training: Any) -> Case:
    scenario = effective(
        scenario_from_json(
            {"model": model, "cluster": {"chip": chip, "nodes": nodes}, "plan": plan, "training": training}
        )
    )
    rank = rank_of(scenario, efficiencies_of(scenario, None))
    setting = setting_of(scenario, rank)
    return Case(
        found=estimate(scenario, interval=False),
        block=rank.shard.blocks[-1],
        layers=[float(kind.layers) for kind in setting.kinds],
    )


def test_gpt3_on_8_stages_of_8_ranks_under_full_recomputation():
    one = case("gpt3-175b", "a100-80gb-sxm", 8, {"tp": 8, "pp": 8, "recompute": "full"}, seq_len=2048, global_batch=64,
               precision="fp16-amp", framework="megatron", attention="eager")  # fmt: skip
    h, s, v = 12288, 2048, 50257
    assert one.found.parameters == 96 * (12 * h * h + 13 * h) + (v + s) * h + 2 * h
    # qkv, up and their biases are divided; the output's bias, the network's second bias and both norms are whole.
    assert one.block.dense_parameters == (12 * h * h + 3 * h + 4 * h) / 8 + 2 * h + 4 * h
    assert one.layers == [12, 12, 12]
    assert one.found.model_flops == pytest.approx(72 * 64 * s * 96 * h * h * (1 + s / (6 * h) + v / (12 * 96 * h)))
    # Narayanan 2021, equation 3, counts a fourth pass over the blocks; written-out scores multiply the whole square.
    executed = 96 * 64 * s * 96 * h * h * (1 + s / (6 * h) + v / (16 * 96 * h))
    assert one.found.hfu / one.found.mfu == pytest.approx(executed / one.found.model_flops)
    # Kept: the block's input, 2·s·h. Inside, without dropout: 4 norms, 2 + 2 inputs, and (8 + 16 + 2·a·s/h)/t.
    assert one.block.kept_bytes == 2 * s * h
    assert one.block.plain_bytes == pytest.approx(s * h * (4 + 2 + 2 + (8 + 16 + 2 * 96 * s / h) / 8))
    payload = 2 * s * h
    head = {"loss": 3 * 4 * s, "gradient": payload}
    assert one.sent("tp", "forward") == {"all-reduce": 64 * (12 * 2 * payload + head["loss"])}
    assert one.sent("tp", "backward") == {"all-reduce": 64 * (12 * 4 * payload + head["gradient"])}
    assert one.found.memory.stages[0].by_kind["optimizer"] == pytest.approx(
        12 * (12 * float(one.block.dense_parameters) + (v + s) * h - (v + s) * h * 7 / 8)
    )


def test_llama_405b_over_tensor_context_pipeline_and_data_ranks():
    one = case("llama3-405b", "h100-sxm", 64, {"tp": 8, "pp": 16, "cp": 2, "dp": 2, "sharding": "zero1",
               "sequence_parallel": True}, seq_len=16384, global_batch=64, precision="bf16",
               framework="megatron")  # fmt: skip
    h, f, vocab, m = 16384, 53248, 128256, 32
    block = 2 * h * h + 2 * h * 1024 + 3 * h * f
    assert one.found.parameters == 126 * (block + 2 * h) + 2 * vocab * h + h
    assert one.found.micro_batches == m
    # 126 blocks on 16 stages: the last, which has the head, and the first run one less.
    assert one.layers == [7, 8, 7]
    assert one.block.dense_parameters == block / 8 + 2 * h
    first = 7 * float(one.block.dense_parameters) + vocab * h / 8
    assert one.found.memory.stages[0].by_kind["optimizer"] == 12 * first / 4
    tokens = 16384 / 2
    # Per token and rank: 2·2 norms, 2 + 2 inputs; q, output 2, k and v 4/16, gate and up 4·f/h, product 2·f/h, all
    # over t; 4 bytes of statistics a head.
    kept = tokens * h * (8 + 2 + 2 + 4 / 16 + 6 * f / h) / 8 + 4 * 16 * tokens
    assert one.block.kept_bytes == pytest.approx(kept)
    payload = 2 * tokens * h
    assert one.sent("tp", "forward") == pytest.approx(
        {"all-gather": m * 8 * 2 * payload, "reduce-scatter": m * 8 * 2 * payload}
    )
    assert one.sent("tp", "backward") == pytest.approx(
        {"all-gather": m * 8 * 4 * payload, "reduce-scatter": m * 8 * 2 * payload}
    )
    # One of 8 key/value heads on each rank; one message forward, keys, values and their gradients backward.
    assert one.sent("cp", "forward") == {"p2p": m * 8 * tokens * 2 * 128 * 2}
    assert one.sent("cp", "backward") == {"p2p": m * 8 * tokens * 4 * 128 * 2}
    assert one.sent("dp", "backward") == pytest.approx({"reduce-scatter": 4 * first})
    assert one.sent("dp", "forward") == pytest.approx({"all-gather": 2 * first})


def test_mixtral_over_expert_ranks():
    one = case("mixtral-8x7b", "h100-sxm", 2, {"dp": 16, "ep": 8, "sharding": "zero1"}, seq_len=4096, global_batch=64,
               precision="bf16", framework="megatron")  # fmt: skip
    h, f, vocab = 4096, 14336, 32000
    attention, expert = 2 * h * h + 2 * h * 1024, 3 * h * f
    dense = attention + 8 * h + 2 * h
    assert one.found.parameters == 32 * (dense + 8 * expert) + 2 * vocab * h + h
    assert (one.block.dense_parameters, one.block.expert_parameters) == (dense, expert)
    held = 32 * dense + 2 * vocab * h + h
    # 16 ranks share what is dense, 2 ranks each expert.
    assert one.found.memory.stages[0].by_kind["optimizer"] == 12 * (held / 16 + 32 * expert / 2)
    assert one.sent("dp", "backward")["reduce-scatter"] == pytest.approx(4 * held)
    assert one.sent("edp", "backward") == {"reduce-scatter": 4 * 32 * expert}
    rows = 4096 * 2 * h * 2
    assert one.sent("ep", "forward") == one.sent("ep", "backward") == {"all-to-all": 4 * 32 * 2 * rows}
    tokens = 64 * 4096
    assert one.found.model_flops == 6 * tokens * (32 * (attention + 8 * h + 2 * expert) + vocab * h + 32 * 2 * 4096 * h)


def test_deepseek_v3_over_pipeline_and_expert_ranks():
    one = case("deepseek-v3", "h100-sxm", 256, {"dp": 128, "pp": 16, "ep": 64, "sharding": "zero1"}, seq_len=4096,
               global_batch=5120, precision="bf16", framework="megatron")  # fmt: skip
    h, heads, vocab = 7168, 128, 129280
    latent = h * 1536 + 1536 + 1536 * heads * 192 + h * (512 + 64) + 512 + 512 * heads * (128 + 128) + heads * 128 * h
    expert, dense_network = 3 * h * 2048, 3 * h * 18432
    block = latent + 2 * h + h * 256 + expert
    assert one.found.parameters == (
        3 * (latent + 2 * h + dense_network) + 58 * (block + 256 * expert) + 2 * vocab * h + h
    )
    assert (one.block.dense_parameters, one.block.expert_parameters) == (block, 4 * expert)
    # 61 blocks on 16 stages; the three dense ones are the first stage.
    assert one.layers == [3, 4, 3]
    first = 3 * (latent + 2 * h + dense_network) + vocab * h
    assert one.found.memory.stages[0].by_kind["optimizer"] == pytest.approx(12 * first / 128)
    rows = 4096 * 8 * h * 2
    assert one.found.micro_batches == 40
    assert one.sent("ep", "forward") == {"all-to-all": 40 * 4 * 2 * rows}
    assert one.found.model_flops == pytest.approx(
        6 * 5120 * 4096 * (
            61 * (latent - 1536 - 512) + 3 * dense_network + 58 * (h * 256 + 9 * expert) + vocab * h
            + 61 * 4096 * heads * (192 + 128)
        )
    )  # fmt: skip


def test_deepseek_v2_lite_sends_latents_between_tensor_ranks():
    one = case("deepseek-v2-lite", "h100-sxm", 1, {"dp": 4, "tp": 2, "ep": 4, "sharding": "zero1",
               "sequence_parallel": True}, seq_len=4096, global_batch=64, precision="bf16",
               framework="megatron")  # fmt: skip
    # Queries come from the stream itself; keys and values from 512 + 64 columns; shared experts from the stream.
    columns, tokens, m = 2048 + 512 + 64 + 2048, 4096, 16
    stream = 2 * tokens * 2048
    gathered = 2 * tokens * columns * 27
    assert one.sent("tp", "forward")["all-gather"] == pytest.approx(m * (gathered + stream))
    assert one.sent("tp", "forward")["reduce-scatter"] == pytest.approx(m * (27 * 2 * stream + stream))
    assert one.sent("tp", "backward")["all-gather"] == pytest.approx(m * (27 * 2 * stream + gathered + stream))
    assert one.sent("tp", "backward")["reduce-scatter"] == pytest.approx(m * (gathered + stream))
    # Two tensor ranks route half of the tokens each.
    assert one.sent("ep", "forward") == {"all-to-all": m * 26 * 2 * (tokens / 2 * 6 * 2048 * 2)}


def test_llama_70b_under_dtensor_and_zero_2():
    one = case("llama2-70b", "h100-sxm", 4, {"dp": 4, "tp": 4, "pp": 2, "sharding": "zero2",
               "sequence_parallel": True}, seq_len=4096, global_batch=64, precision="bf16",
               framework="pytorch-eager")  # fmt: skip
    h, f, vocab, m = 8192, 28672, 32000, 16
    block = 2 * h * h + 2 * h * 1024 + 3 * h * f
    assert one.block.dense_parameters == block / 4 + 2 * h
    first = 40 * float(one.block.dense_parameters) + vocab * h
    assert one.found.memory.stages[0].by_kind["optimizer"] == 4 * first / 4
    assert one.sent("dp", "backward")["reduce-scatter"] == m * 2 * first
    assert one.sent("dp", "forward") == {"all-gather": 2 * first}
    payload = 2 * 4096 * h
    # The last stage sets the pace: its replicated head gathers the stream once.
    assert one.sent("tp", "forward") == {"all-gather": m * 81 * payload, "reduce-scatter": m * 80 * payload}
    # Each of the five products that read a gathered stream sums its gradient whole.
    assert one.sent("tp", "backward") == {"all-gather": m * 80 * payload, "all-reduce": m * 40 * 5 * payload}


def test_ulysses_exchanges_four_tensors_and_repeats_them():
    one = case("llama3-8b", "h200-sxm", 1, {"dp": 2, "cp": 4, "cp_kind": "ulysses", "sharding": "fsdp",
               "recompute": "full"}, seq_len=32768, global_batch=8, precision="bf16",
               framework="pytorch-compile")  # fmt: skip
    tokens, parameters = 32768 / 4, 8_030_261_248
    each = tokens * 2 * (4096 + 1024 + 1024 + 4096) * 32 * 4
    assert one.sent("cp", "forward") == {"all-to-all": each}
    assert one.sent("cp", "backward") == {"all-to-all": 2 * each}
    assert one.found.parameters == parameters
    assert one.found.memory.by_kind["optimizer"] == 4 * parameters / 8
    assert one.sent("dp", "forward") == {"all-gather": 4 * 2 * parameters}
    assert {kind: size for kind, size in one.sent("dp", "backward").items() if kind != "copy"} == {
        "all-gather": 4 * 2 * parameters, "reduce-scatter": 4 * 2 * parameters,
    }  # fmt: skip
