"""Logs of Megatron-LM and its forks: ``iteration 10/ 100 | elapsed time per iteration (ms): … |``, its arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from app.importers.text.trainers.log import Log, Step, memory_of, number, rows_of, whole, without_first
from estimator.scenario.measurement import MeasuredMemory, Warning
from estimator.scenario.units import MIB

_LINE = re.compile(r"\biteration\s+(\d{1,9})\s*/\s*\d{1,9}\s*\|(.{1,2000})")
_PAIR = re.compile(r"\s*([^|:]{1,60}?):\s*([^|]{1,60}?)\s*(?:\||$)")
_ARGUMENT = re.compile(
    r"^(?:[\w.-]{1,60}:\s)?\W{0,10}(?:\[[^\]]{1,60}\]:?\s*)?([a-z][a-z0-9_]{1,60}) \.{3,80} (\S{1,60})\s*$"
)
_MEMORY = re.compile(
    r"max allocated:\s*([\d.]{1,20})\s*\|\s*reserved:\s*[\d.]{1,20}\s*\|\s*max reserved:\s*([\d.]{1,20})"
)
_MEAN_BESIDE = re.compile(r"^([\d.]{1,20})/[\d.]{1,20}$")
_RATES = ("tokens/s/gpu", "tokens/sec/gpu", "tokens per second per gpu", "tokens_per_sec_per_gpu",
          "tokens per gpu (tokens/s/gpu)", "tokens/s/gpu inst/harmonic mean")  # fmt: skip
_SIZES = {"max_memory_allocated": "peak_bytes", "peak_memory_usage": "peak_bytes",
          "max_memory_reserved": "reserved_bytes"}  # fmt: skip
_LEAST = 2
_MODEL = {
    "num_layers": "layers", "hidden_size": "hidden", "num_attention_heads": "heads", "num_query_groups": "kv_heads",
    "ffn_hidden_size": "ffn", "padded_vocab_size": "vocab", "kv_channels": "head_dim", "num_experts": "experts",
    "moe_router_topk": "top_k",
}  # fmt: skip
_FORMER = {"model_parallel_size": "tensor_model_parallel_size", "batch_size": "micro_batch_size",
           "intra_layer_model_parallel_size": "tensor_model_parallel_size",
           "pipe_parallel_size": "pipeline_model_parallel_size"}  # fmt: skip
"""Names of arguments until 2020, which forks kept, and that of DeepSpeed's pipelines, 0 without one."""
_PLAN = {
    "tensor_model_parallel_size": "tp", "pipeline_model_parallel_size": "pp", "context_parallel_size": "cp",
    "data_parallel_size": "dp", "expert_model_parallel_size": "ep", "micro_batch_size": "micro_batch",
}  # fmt: skip
_TRAINING = {"seq_length": "seq_len", "global_batch_size": "global_batch"}


def read(lines: Sequence[str]) -> Log | None:
    """Read its steps, None where there are none."""
    steps = [_step(int(found[1]), found[2]) for line in lines if (found := _LINE.search(line))]
    if len(steps) < _LEAST:
        return None
    arguments = {hit[1]: hit[2] for line in lines if len(line) < 300 and (hit := _ARGUMENT.match(line))}
    scenario, world = scenario_of(arguments)
    peaks = [(number(hit[1]), number(hit[2])) for line in lines if (hit := _MEMORY.search(line))]
    warnings: list[Warning] = []
    steps_s = without_first(steps, warnings)
    if not steps_s:
        message = "No line has the elapsed time per iteration, so the log gives no step time"
        warnings.append(Warning(code="no-step-time", message=message))
    rows = rows_of(steps)
    return Log(
        rows=rows,
        steps_s=steps_s,
        scenario=scenario,
        world_size=world,
        memory=MeasuredMemory(
            peak_bytes=max(peak for peak, _ in peaks) * MIB, reserved_bytes=max(most for _, most in peaks) * MIB
        )
        if peaks
        else memory_of(rows, warnings),
        warnings=tuple(warnings),
    )


def _step(iteration: int, line: str) -> Step:
    # Forks write the last figure before the mean of the run: 13100.0/13240.9.
    pairs = {key.strip().lower(): _MEAN_BESIDE.sub(r"\1", value) for key, value in _PAIR.findall(line)}
    row: dict[str, Any] = {}
    seconds = None
    for key, text in pairs.items():
        value = number(text)
        if key == "elapsed time per iteration (ms)":
            seconds = row["step_s"] = value * 1e-3
        elif key == "train_step_timing in s":  # NeMo's
            seconds = row["step_s"] = value
        elif key.startswith(("throughput per gpu (tflop", "compute per gpu (tflop", "tflops")):
            row["flops_per_s_per_gpu"] = value * 1e12
        elif key in _RATES:
            row["tokens_per_s_per_gpu"] = value
        elif key in _SIZES and value > 0:  # NeMo's, in bytes
            row[_SIZES[key]] = value
        elif key in ("global batch size", "global_batch_size"):
            row["global_batch"] = int(value)
        elif key.endswith("loss") and "scale" not in key:
            row[key.replace(" ", "_")] = value
    return Step(number=iteration, seconds=seconds if seconds and 0 < seconds < 1e6 else None, row=row)


def scenario_of(arguments: Mapping[str, str]) -> tuple[dict[str, Any], int]:
    """What the dump of Megatron's arguments says of model, plan and training, and the count of ranks."""
    arguments = {_FORMER[name]: value for name, value in arguments.items() if name in _FORMER and value != "0"} | {
        **arguments
    }
    model, training = whole(arguments, _MODEL), whole(arguments, _TRAINING)
    plan: dict[str, Any] = whole(arguments, _PLAN)
    inside = plan.get("tp", 1) * plan.get("pp", 1) * plan.get("cp", 1)
    world = whole(arguments, {"world_size": "world"}).get("world", inside * plan.get("dp", 1))
    if not {"layers", "hidden", "heads"} <= set(model):
        return {}, world
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
        plan["sharding"] = "zero1"
    if "deepspeed" not in arguments and "dp" not in plan and inside and world % inside == 0:
        plan["dp"] = world // inside  # DeepSpeed may lay out stages of its own, and says its ranks itself
    precision = "bf16" if arguments.get("bf16") == "True" else "fp16-amp" if arguments.get("fp16") == "True" else "fp32"
    scenario = {"model": said, "plan": plan, "training": {**training, "precision": precision, "framework": "megatron"}}
    return scenario, world
