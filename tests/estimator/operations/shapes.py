"""Small models of every shape, scenarios of any degrees (legal or not yet), and sums over ops."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from estimator.operations.op import Op
from estimator.operations.rank_sizes import RankSizes, rank_sizes
from estimator.operations.transformer import BlockOps, network
from estimator.scenario.codec import decode
from estimator.scenario.model import Model
from estimator.scenario.plan import Plan
from estimator.scenario.scenario import Scenario
from estimator.scenario.training import Training
from tests.estimator.examples import GPT, LLAMA, cluster

MIXTRAL: dict[str, Any] = {**LLAMA, "heads": 16, "kv_heads": 8, "experts": 8, "top_k": 2}
DEEPSEEK: dict[str, Any] = {
    "layers": 5,
    "hidden": 256,
    "heads": 16,
    "head_dim": 48,
    "ffn": 704,
    "vocab": 1024,
    "experts": 16,
    "top_k": 4,
    "moe_ffn": 96,
    "shared_experts": 2,
    "dense_layers": 2,
    "kv_lora_rank": 64,
    "q_lora_rank": 96,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
}
WINDOWED: dict[str, Any] = {**LLAMA, "sliding_window": 32, "full_attention_every": 2}
FFN: dict[str, Any] = {**GPT, "network": "ffn", "vocab": 0}
ATTENTION: dict[str, Any] = {**LLAMA, "network": "attention", "vocab": 0, "position": "none"}
ALL = {
    "llama": LLAMA, "gpt": GPT, "mixtral": MIXTRAL, "deepseek": DEEPSEEK, "windowed": WINDOWED, "ffn": FFN,
    "attention": ATTENTION,
}  # fmt: skip


def scenario_of(model: dict[str, Any], plan: dict[str, Any] | None = None, **training: Any) -> Scenario:
    """Put a scenario together without asking whether its plan is legal."""
    return Scenario(
        model=decode(Model, model, "model"),
        cluster=cluster(),
        plan=Plan(**plan or {}),
        training=Training(
            **{"seq_len": 128, "global_batch": 8, "precision": "bf16", "framework": "megatron", **training}
        ),
    )


def dims_of(model: dict[str, Any], plan: dict[str, Any] | None = None, **training: Any) -> RankSizes:
    return rank_sizes(scenario_of(model, plan, **training))


def blocks_of(model: dict[str, Any], plan: dict[str, Any] | None = None, **training: Any) -> dict[str, BlockOps]:
    return {block.name: block for block in network(dims_of(model, plan, **training)).blocks}


def flops(ops: Iterable[Op], phase: str = "") -> float:
    """Sum products and attention."""
    return sum(op.flops * op.count for op in ops if op.kind != "kernels" and phase in ("", op.phase))


def kept(ops: Iterable[Op]) -> float:
    """Sum what forward keeps, without autocast's copies of the weights."""
    return sum(op.saved_bytes * op.count for op in ops if not op.name.endswith("weight cast"))


def named(ops: Iterable[Op]) -> dict[str, Op]:
    return {op.name: op for op in ops}


def weights(ops: Iterable[Op]) -> float:
    """Sum the sizes of the weights whose gradients are computed; panel products of a grid count each panel once."""
    return sum(op.batch * op.m * op.n * op.count for op in ops if op.weight and op.kind == "gemm")
