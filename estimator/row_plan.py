"""Row plan: how a table's row lays a step out and trains, what it leaves empty filled by stated defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from estimator.cells import number
from estimator.hardware import Chip

PRECISIONS = {
    "fp32": "fp32", "float32": "fp32", "tf32": "tf32", "bf16": "bf16", "bfloat16": "bf16", "fp16": "fp16-amp",
    "float16": "fp16-amp", "amp_bf16": "bf16-amp", "bf16-amp": "bf16-amp", "autocast": "bf16-amp",
    "amp": "bf16-amp", "bf16-autocast": "bf16-amp", "autocast-bf16": "bf16-amp", "bf16-mixed": "bf16-amp",
    "amp_fp16": "fp16-amp", "fp16-amp": "fp16-amp",
    "fp16 mixed": "fp16-amp", "bf16 mixed": "bf16-amp",
    "fp8": "fp8", "amp_fp8": "fp8", "mxfp8": "fp8", "fp8-cs": "fp8", "fp8-mx": "fp8", "fp8-ds": "fp8", "fp8-sc": "fp8",
    "fp8 other granularity (parenthesised value)": "fp8",
}  # fmt: skip
SHARDINGS = {
    "": "ddp", "none": "ddp", "ddp": "ddp", "zero0": "ddp", "zero1": "zero1", "zero-1": "zero1", "zero2": "zero2",
    "zero-2": "zero2", "zero3": "zero3", "zero-3": "zero3", "fsdp": "fsdp", "fsdp2": "fsdp", "full_shard": "fsdp",
    "distributed_optimizer": "zero1", "fsdp_shard_grad_op": "zero3", "none (dp=1)": "ddp",
}  # fmt: skip
ATTENTIONS = {
    "flash": "flash1", "flash1": "flash1", "flash2": "flash", "flash_attention_2": "flash", "flash-attn": "flash",
    "fused": "sdpa", "te": "sdpa", "cudnn": "sdpa", "triton": "flash",
    "sdpa": "sdpa", "eager": "eager", "torch": "eager",
    "naive": "eager", "unfused": "eager",
}  # fmt: skip
UNSTATED_OPTIMIZER = "distributed-optimizer use not stated"
"""Notes of tables that tell FSDP from Megatron's own DistributedDataParallel, not how the latter shards its optimizer;
Megatron-Bridge's recipes do (use_distributed_optimizer in src/megatron/bridge/recipes/common.py)."""
MEGATRON_BUCKET = 40_000_000
MEGATRON_BUCKET_PER_RANK = 1_000_000
"""Megatron-Core's buckets where none are stated: gradients, and gradients for each data parallel rank, whichever is
more (megatron/core/distributed/distributed_data_parallel.py)."""
NOT_COMPILED = ("", "no", "false", "0", "none", "eager")
MEGATRON_DROPOUT = 0.1
EAGER_DEFAULT_CHIPS = ("v100", "a100")
"""Chips of Megatron-LM before fused attention, the distributed optimizer and sequence parallelism by habit."""


def plan_and_training(
    cells: Mapping[str, str], chip: Chip, assumptions: list[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the plan and the training part of a row's scenario; every default goes to ``assumptions``."""

    def whole(column: str, default: int, why: str = "") -> int:
        value = number(cells.get(column, ""))
        if value is None:
            assumptions.append(f"{column} = {default}{f' ({why})' if why else ''}")
            return default
        return int(value)

    framework = cells.get("framework") or "pytorch-eager"
    if not cells.get("framework"):
        assumptions.append("framework = pytorch-eager")
    recent = framework in ("megatron", "xla") and not chip.name.startswith(EAGER_DEFAULT_CHIPS)
    tp, pp = whole("tp", 1), whole("pp", 1)
    cp, ep, vp = (int(number(cells.get(column, "")) or 1) for column in ("cp", "ep", "vp"))
    chips = whole("n_gpus", 1)
    dp = whole("dp", max(chips // max(tp * pp * cp, 1), 1), "n_gpus / (tp · pp · cp)")
    stated = cells.get("sharding", "").lower()
    if stated == "ddp" and UNSTATED_OPTIMIZER in cells.get("notes", ""):
        stated = ""
    sharding = SHARDINGS.get(stated, "ddp")
    if not stated and dp * cp > 1:
        sharding = "zero1" if recent else "ddp"
        assumptions.append(f"sharding = {sharding}" + (" (Megatron's distributed optimizer)" if recent else ""))
    stated = cells.get("sequence_parallel", "").lower()
    split = stated in ("true", "1", "yes") and tp > 1
    if not stated and recent and tp > 1:
        split = True
        assumptions.append("sequence_parallel = true (as Megatron's published recipes set it)")
    plan: dict[str, Any] = {
        "dp": dp,
        "tp": tp,
        "pp": pp,
        "cp": cp,
        "ep": ep,
        "sharding": sharding,
        "recompute": _recompute(cells.get("recompute", ""), assumptions),
        "micro_batch": whole("micro_batch", 1),
        "sequence_parallel": split,
        "overlap": cells.get("ddp_mode", "") not in ("naive", "flat")
        and (recent or not (framework == "megatron" and sharding == "ddp")),
    }
    if cells.get("ddp_mode") in ("naive", "flat"):
        plan["ddp_mode"] = cells["ddp_mode"]
    if cp > 1 and framework == "megatron":
        assumptions.append("cp_kind = ring (Megatron's default, peer to peer)")
    if vp > 1 and pp > 1:
        plan |= {"virtual_stages": vp, "schedule": "interleaved"}
    if ep > 1:
        assumptions.append("expert_tp = 1")
    bucket_mb = number(cells.get("bucket_mb", ""))
    if bucket_mb:
        plan["bucket_bytes"] = int(bucket_mb * 2**20)
    elif framework == "megatron":
        # Its main gradients have 4 bytes.
        plan["bucket_bytes"] = 4 * max(MEGATRON_BUCKET, MEGATRON_BUCKET_PER_RANK * dp * cp)
        if dp * cp > 1:
            assumptions.append(f"bucket_mb = {plan['bucket_bytes'] / 2**20:.0f} (Megatron's default)")
    return plan, _training(cells, chip, framework, whole, assumptions)


def _training(
    cells: Mapping[str, str], chip: Chip, framework: str, whole: Any, assumptions: list[str]
) -> dict[str, Any]:
    precision = PRECISIONS.get(cells.get("precision", "").lower(), "")
    if not precision:
        precision = "bf16" if chip.bf16_flops_per_s else "fp16-amp"
        assumptions.append(f"precision = {precision}")
    attention = ATTENTIONS.get(cells.get("attention_impl", "").lower().split(" (")[0])
    if attention == "flash1":
        assumptions.append("attention flash = FlashAttention 1 (a table names version 2 flash2)")
    if attention is None:
        old = (
            framework == "megatron"
            and chip.name.startswith(EAGER_DEFAULT_CHIPS)
            and "transformer_engine" not in cells.get("notes", "")
        )
        attention = "eager" if old else "sdpa"
        assumptions.append(f"attention = {attention}")
    dropout = 0.0
    if attention == "eager" and framework == "megatron":
        dropout = MEGATRON_DROPOUT
        assumptions.append(f"dropout = {dropout} (Megatron-LM's default)")
    return {
        "seq_len": whole("seq_len", 1),
        "global_batch": whole("global_batch", 1),
        "precision": precision,
        "attention": attention,
        "dropout": dropout,
        "framework": framework,
        # Modes of torch.compile stand for compiling; what its CUDA graphs save the host is not modelled.
        "compile": cells.get("compile", "").lower() not in NOT_COMPILED,
        "optimizer": cells.get("optimizer", "").lower() or "adamw",
    }


def _recompute(value: str, assumptions: list[str]) -> str:
    word = value.lower()
    if not word:
        assumptions.append("recompute = none")
        return "none"
    if word.startswith(("full", "true", "block", "uniform")):
        return "full"
    return "selective" if word.startswith(("select", "core")) else "none"
