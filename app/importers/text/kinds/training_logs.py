"""Training logs: the lines that trainers print step by step, of Megatron-LM, torchtitan, DeepSpeed and Hugging Face."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from estimator.scenario.measurement import MeasuredMemory, Measurement, Origin, Warning
from estimator.scenario.units import GIB, MIB

_ANSI = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_MEGATRON = re.compile(r"\biteration\s+(\d{1,9})\s*/\s*\d{1,9}\s*\|(.{1,2000})")
_PAIR = re.compile(r"\s*([^|:]{1,60}?):\s*([^|]{1,60}?)\s*(?:\||$)")
_TITAN = re.compile(r"\bstep:\s*(\d{1,9})\s+loss:\s*\S{1,20}(.{0,300}\btps:\s*[\d,]{1,20}.{0,200})")
_TITAN_PAIR = re.compile(r"\b(loss|memory|tps|tflops|mfu):\s*([\d.,]{1,20})(GiB)?%?")
_ARGUMENT = re.compile(r"^\W{0,10}(?:\[[^\]]{1,60}\]:?\s*)?([a-z][a-z0-9_]{1,60}) \.{3,80} (\S{1,60})\s*$")
_MEGATRON_MEMORY = re.compile(
    r"max allocated:\s*([\d.]{1,20})\s*\|\s*reserved:\s*[\d.]{1,20}\s*\|\s*max reserved:\s*([\d.]{1,20})"
)
_LEAST = 2
_MODEL = {
    "num_layers": "layers", "hidden_size": "hidden", "num_attention_heads": "heads", "num_query_groups": "kv_heads",
    "ffn_hidden_size": "ffn", "padded_vocab_size": "vocab", "kv_channels": "head_dim", "num_experts": "experts",
    "moe_router_topk": "top_k",
}  # fmt: skip
_PLAN = {
    "tensor_model_parallel_size": "tp", "pipeline_model_parallel_size": "pp", "context_parallel_size": "cp",
    "data_parallel_size": "dp", "expert_model_parallel_size": "ep", "micro_batch_size": "micro_batch",
}  # fmt: skip
_TRAINING = {"seq_length": "seq_len", "global_batch_size": "global_batch"}


@dataclass(frozen=True, kw_only=True)
class Step:
    """One logged step: its number, its seconds where the line says them, and all else in SI."""

    number: int
    seconds: float | None
    row: dict[str, Any]


def read(text: str, filename: str) -> Measurement | None:
    """Read the steps of a log, None where it is none; what was read in a step's first line is slower, and left out."""
    lines = [_ANSI.sub("", line) for line in text.splitlines()]
    found = [(producer, step) for line in lines if len(line) < 4000 for producer, step in _steps(line)]
    if len(found) < _LEAST:
        return None
    producer = found[0][0]
    steps = [step for one, step in found if one == producer]
    short = (line for line in lines if len(line) < 300)
    arguments = {hit[1]: hit[2] for line in short if (hit := _ARGUMENT.match(line))}
    scenario, world = _scenario(arguments)
    kept = [step.seconds for step in steps[1:] if step.seconds]
    peaks = [
        (float(hit[1]), float(hit[2])) for line in lines if len(line) < 1000 and (hit := _MEGATRON_MEMORY.search(line))
    ]
    warnings = []
    if kept and steps[0].seconds and steps[0].seconds > 1.2 * statistics.median(kept):
        message = "The first logged step holds start-up work and was left out"
        warnings.append(Warning(code="first-step-slow", message=message, where=f"step {steps[0].number}"))
    if not kept:
        message = "The log gives tokens per second, but not how many tokens a step has, so it gives no step time"
        warnings.append(Warning(code="no-step-time", message=message))
    reserved = [step.row["reserved_bytes"] for step in steps if "reserved_bytes" in step.row]
    memory = MeasuredMemory(
        peak_bytes=max(peak for peak, _ in peaks) * MIB if peaks else None,
        reserved_bytes=max(most for _, most in peaks) * MIB if peaks else max(reserved, default=None),
    )
    return Measurement(
        label=filename[:200],
        origin=Origin(kind="upload", format=f"log/{producer}", producer=producer),
        world_size=world,
        scenario=scenario,
        steps_s=tuple(kept),
        memory=memory,
        rows=tuple({"step": step.number, **step.row} for step in steps),
        warnings=tuple(warnings),
    )


def _steps(line: str) -> list[tuple[str, Step]]:
    if found := _MEGATRON.search(line):
        pairs = {key.strip().lower(): value for key, value in _PAIR.findall(found[2])}
        return [("Megatron-LM", _megatron(int(found[1]), pairs))]
    if found := _TITAN.search(line):
        row: dict[str, Any] = {}
        for name, number, size in _TITAN_PAIR.findall(f"{line[found.start() :]}"):
            value = _number(number)
            key = {"memory": "reserved_bytes", "tps": "tokens_per_s_per_gpu", "tflops": "flops_per_s_per_gpu",
                   "mfu": "mfu_frac", "loss": "loss"}[name]  # fmt: skip
            scale = {"memory": GIB if size else 1.0, "tflops": 1e12, "mfu": 0.01}.get(name, 1.0)
            row[key] = value * scale
        return [("torchtitan", Step(number=int(found[1]), seconds=None, row=row))]
    return []


def _megatron(number: int, pairs: Mapping[str, str]) -> Step:
    row: dict[str, Any] = {}
    seconds = None
    for key, text in pairs.items():
        value = _number(text)
        if key == "elapsed time per iteration (ms)":
            seconds = row["step_s"] = value * 1e-3
        elif key.startswith(("throughput per gpu (tflop", "compute per gpu (tflop", "tflops")):
            row["flops_per_s_per_gpu"] = value * 1e12
        elif key in ("tokens/s/gpu", "tokens per second per gpu"):
            row["tokens_per_s_per_gpu"] = value
        elif key == "global batch size":
            row["global_batch"] = int(value)
        elif key.endswith("loss") and "scale" not in key:
            row[key.replace(" ", "_")] = value
    return Step(number=number, seconds=seconds if seconds and 0 < seconds < 1e6 else None, row=row)


def _number(text: str) -> float:
    """A number with or without commas for thousands; 0 where it is none, or none that a log has."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return 0.0
    return value if abs(value) < 1e18 else 0.0


def _scenario(arguments: Mapping[str, str]) -> tuple[dict[str, Any], int]:
    """What the dump of Megatron's arguments says of model, plan and training, and the count of ranks."""

    def taken(names: Mapping[str, str]) -> dict[str, int]:
        return {ours: int(arguments[own]) for own, ours in names.items() if arguments.get(own, "").isdigit()}

    model, plan, training = taken(_MODEL), taken(_PLAN), taken(_TRAINING)
    if not {"layers", "hidden", "heads"} <= set(model):
        return {}, max(1, int(arguments["world_size"])) if arguments.get("world_size", "").isdigit() else 1
    said: dict[str, Any] = {"network": "transformer", **model}
    if arguments.get("swiglu") in ("True", "False"):
        said["gated_ffn"] = arguments["swiglu"] == "True"
    if "normalization" in arguments:
        said["norm"] = "rms" if arguments["normalization"].lower() == "rmsnorm" else "layer"
    if arguments.get("position_embedding_type") == "rope":
        said["position"] = "rope"
    if arguments.get("sequence_parallel") in ("True", "False"):
        plan["sequence_parallel"] = arguments["sequence_parallel"] == "True"
    if arguments.get("use_distributed_optimizer") == "True":
        plan |= {"sharding": "zero1"}  # type: ignore[dict-item]
    precision = "bf16" if arguments.get("bf16") == "True" else "fp16-amp" if arguments.get("fp16") == "True" else "fp32"
    world = plan.get("tp", 1) * plan.get("pp", 1) * plan.get("cp", 1) * plan.get("dp", 1)
    scenario = {"model": said, "plan": plan, "training": {**training, "precision": precision, "framework": "megatron"}}
    return scenario, int(arguments["world_size"]) if arguments.get("world_size", "").isdigit() else world
