"""Table: one row of a CSV of measured runs, read into a Scenario by stated defaults, never by the measurement."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from estimator import catalog
from estimator.cells import number
from estimator.problems import InputProblems
from estimator.row_model import model_of_row
from estimator.scenario import Scenario, scenario_from_json

PRECISIONS = {
    "fp32": "fp32", "float32": "fp32", "tf32": "tf32", "bf16": "bf16", "bfloat16": "bf16", "fp16": "fp16-amp",
    "float16": "fp16-amp", "amp_bf16": "bf16-amp", "bf16-amp": "bf16-amp", "autocast": "bf16-amp",
    "amp": "bf16-amp", "bf16-autocast": "bf16-amp", "autocast-bf16": "bf16-amp", "bf16-mixed": "bf16-amp",
    "amp_fp16": "fp16-amp", "fp16-amp": "fp16-amp",
    "fp16 mixed": "fp16-amp", "bf16 mixed": "bf16-amp",
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
EXPERT_FAMILIES = re.compile(r"moe|mixtral|\dx\d+b|-a\d+b|gpt-oss|deepseek|grok|kimi|switch", re.I)
MEGATRON_DROPOUT = 0.1
STATED_NETWORK_LATENCY_S = 5e-6
"""Latency where a table states a network's bandwidth only: InfiniBand and RoCE lie at 2 to 10 µs."""
EAGER_DEFAULT_CHIPS = ("v100", "a100")


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row as understood: a scenario with what was assumed, or the reason why it cannot be predicted."""

    source_id: str
    scenario: Scenario | None
    assumptions: tuple[str, ...]
    reason: str
    measured_step_s: float | None
    measured_memory_bytes: float | None


def scenario_of_row(row: Mapping[str, str]) -> Row:
    """Read one row; what it leaves empty is assumed and listed, what is not modelled yet becomes a reason."""
    cells = {key.strip(): (value or "").strip() for key, value in row.items() if key}
    assumptions: list[str] = []
    scenario: Scenario | None = None
    reason = _not_modelled(cells)
    if not reason:
        try:
            scenario = scenario_from_json(_document(cells, assumptions))
        except InputProblems as error:
            reason = str(error)
        except (ValueError, OverflowError) as error:
            reason = f"unreadable number: {error}"
    step_s = _step_s(cells)
    memory_gib = number(cells.get("measured_peak_mem_gib", ""))
    if scenario is not None and step_s is None and memory_gib is None:
        scenario, reason = None, "no measured step time, throughput or memory"
    return Row(
        source_id=cells.get("source_id", ""),
        scenario=scenario,
        assumptions=tuple(assumptions),
        reason=reason,
        measured_step_s=step_s,
        measured_memory_bytes=memory_gib * 2**30 if memory_gib else None,
    )


def _not_modelled(cells: Mapping[str, str]) -> str:
    experts = int(number(cells.get("experts", "")) or 0)
    if experts > 1 or int(number(cells.get("ep", "")) or 1) > 1 or EXPERT_FAMILIES.search(cells.get("model", "")):
        return "mixture of experts is not modelled yet"
    if int(number(cells.get("cp", "")) or 1) > 1:
        return "context parallelism is not modelled yet"
    if int(number(cells.get("vp", "")) or 1) > 1 and int(number(cells.get("pp", "")) or 1) > 1:
        return "interleaved pipeline stages are not modelled yet"
    precision = cells.get("precision", "").lower()
    if "fp8" in precision or "fp4" in precision:
        return f"precision {precision} is not modelled yet"
    if precision and precision not in PRECISIONS:
        return f"precision {precision!r} is not known"
    if not cells.get("hardware"):
        return "no hardware named"
    for column in ("n_layers", "d_model", "n_heads", "seq_len", "global_batch"):
        if not cells.get(column):
            return f"{column} is empty"
        if number(cells[column]) is None:
            return f"{column} is {cells[column]!r}, not a number"
    return ""


def _document(cells: Mapping[str, str], assumptions: list[str]) -> dict[str, Any]:
    def whole(column: str, default: int, why: str = "") -> int:
        value = number(cells.get(column, ""))
        if value is None:
            assumptions.append(f"{column} = {default}{f' ({why})' if why else ''}")
            return default
        return int(value)

    framework = cells.get("framework") or "pytorch-eager"
    if not cells.get("framework"):
        assumptions.append("framework = pytorch-eager")
    tp, pp = whole("tp", 1), whole("pp", 1)
    chips = whole("n_gpus", 1)
    dp = whole("dp", max(chips // max(tp * pp, 1), 1), "n_gpus / (tp · pp)")
    batch = whole("global_batch", 1)
    precision = PRECISIONS.get(cells.get("precision", "").lower(), "")
    chip = catalog.chip(_hardware(cells["hardware"]))
    if not precision:
        precision = "bf16" if chip.bf16_flops_per_s else "fp16-amp"
        assumptions.append(f"precision = {precision}")
    recompute = _recompute(cells.get("recompute", ""), assumptions)
    sharding = SHARDINGS.get(cells.get("sharding", "").lower(), "ddp")
    if not cells.get("sharding") and dp > 1:
        assumptions.append("sharding = ddp")
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
    per_node = max(min(chips, chip.chips_per_node), 1)
    overlap = cells.get("ddp_mode", "") not in ("naive", "flat") and not (framework == "megatron" and sharding == "ddp")
    bucket_mb = number(cells.get("bucket_mb", ""))
    plan: dict[str, Any] = {
        "dp": dp,
        "tp": tp,
        "pp": pp,
        "sharding": sharding,
        "recompute": recompute,
        "micro_batch": whole("micro_batch", _default_micro_batch(batch, dp)),
        "sequence_parallel": cells.get("sequence_parallel", "").lower() in ("true", "1", "yes") and tp > 1,
        "overlap": overlap,
    }
    if bucket_mb:
        plan["bucket_bytes"] = int(bucket_mb * 2**20)
    return {
        "model": model_of_row(cells, assumptions),
        "cluster": {
            "chip": chip.name,
            "chips_per_node": per_node,
            "nodes": max(chips // per_node, 1),
            **_network(cells.get("interconnect", ""), chip.chips_per_node),
        },
        "plan": plan,
        "training": {
            "seq_len": whole("seq_len", 1),
            "global_batch": batch,
            "precision": precision,
            "attention": attention,
            "dropout": dropout,
            "framework": framework,
            "compile": cells.get("compile", "").lower() in ("true", "1", "yes"),
            "optimizer": cells.get("optimizer", "").lower() or "adamw",
        },
    }


def _network(interconnect: str, chips_per_node: int) -> dict[str, Any]:
    """Read a node's stated bandwidth, as in “1600 Gbps node-node”; a chip has its share of the node's ports."""
    stated = re.search(r"(\d+) ?Gbps", interconnect)
    if not stated or "node" not in interconnect:
        return {}
    bytes_per_s = float(stated[1]) * 1e9 / 8 / chips_per_node
    return {"network": {"label": interconnect, "bytes_per_s": bytes_per_s, "latency_s": STATED_NETWORK_LATENCY_S}}


def _hardware(name: str) -> str:
    """Drop what stands in brackets where the whole name is not a chip's."""
    try:
        return catalog.chip(name).name
    except InputProblems:
        return re.sub(r"\(.*?\)", "", name).strip() or name


def _recompute(value: str, assumptions: list[str]) -> str:
    word = value.lower()
    if not word:
        assumptions.append("recompute = none")
        return "none"
    if word.startswith(("full", "true", "block", "uniform")):
        return "full"
    return "selective" if word.startswith(("select", "core")) else "none"


def _default_micro_batch(batch: int, dp: int) -> int:
    del batch, dp
    return 1


def _step_s(cells: Mapping[str, str]) -> float | None:
    measured = number(cells.get("measured_step_time_s", ""))
    if measured:
        return measured
    rate = number(cells.get("measured_tokens_per_s_per_gpu", ""))
    batch, seq_len = number(cells.get("global_batch", "")), number(cells.get("seq_len", ""))
    chips = number(cells.get("n_gpus", ""))
    return batch * seq_len / (rate * chips) if rate and batch and seq_len and chips else None
