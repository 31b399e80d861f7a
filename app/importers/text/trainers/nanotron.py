"""Logs of nanotron: ``iteration: 10 / 100 | elapsed_time_per_iteration_ms: 1.15K | …``, and the dump of its Config."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from app.importers.text.trainers.log import (
    ARGUMENT,
    Log,
    Step,
    model_of,
    number,
    ranks_by_rates,
    rows_of,
    whole,
    without_first,
)
from estimator.scenario.measurement import MeasuredMemory, Warning

_LINE = re.compile(r"\biteration:\s*(\S{1,12})\s*/\s*\S{1,12}\s*\|(.{0,2000}\belapsed_time_per_iteration_ms:.{1,2000})")
_PAIR = re.compile(r"(\w{1,60}):\s*([^|\s]{1,40})")
_KEYS = {
    "elapsed_time_per_iteration_ms": ("step_s", 1e-3),
    "tokens_per_sec": ("tokens_per_s", 1.0),
    "tokens_per_sec_per_gpu": ("tokens_per_s_per_gpu", 1.0),
    "model_tflops_per_gpu": ("flops_per_s_per_gpu", 1e12),
    "global_batch_size": ("global_batch", 1.0),
    "lm_loss": ("lm_loss", 1.0),
    "cuda_memory_allocated": ("allocated_bytes", 1.0),
    "cuda_max_memory_reserved": ("reserved_bytes", 1.0),
}
_CONFIG = ("Config(general=", "LlamaConfig(", "Qwen2Config(")
_CONFIG_LINES = 400
_LEAST = 2
_PLAN = {"dp": "dp", "tp": "tp", "pp": "pp", "context_parallel_size": "cp", "expert_parallel_size": "ep",
         "micro_batch_size": "micro_batch"}  # fmt: skip
_SHAPE = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
          "vocab_size", "max_position_embeddings")  # fmt: skip
_SHARDINGS = {"0": "ddp", "1": "zero1"}


def read(lines: Sequence[str]) -> Log | None:
    """Read its steps, None where there are none; numbers have three digits, as it prints them."""
    steps = [step for line in lines if (step := _step(line)) is not None]
    if len(steps) < _LEAST:
        return None
    scenario, world = _scenario(_arguments(lines))
    world = max(world, ranks_by_rates(steps[-1]))
    warnings = [Warning(code="three-digits", message="nanotron prints three digits, so times are known to 0.5 %")]
    reserved = [step.row["reserved_bytes"] for step in steps if "reserved_bytes" in step.row]
    return Log(
        rows=rows_of(steps),
        steps_s=without_first(steps, warnings),
        scenario=scenario,
        world_size=world,
        memory=MeasuredMemory(reserved_bytes=max(reserved, default=None)),
        warnings=tuple(warnings),
    )


def _step(line: str) -> Step | None:
    found = _LINE.search(line)
    if found is None:
        return None
    row: dict[str, Any] = {}
    for name, text in _PAIR.findall(found[2]):
        if name in _KEYS and (value := number(text)):
            row[_KEYS[name][0]] = value * _KEYS[name][1]
    if "global_batch" in row:
        row["global_batch"] = int(row["global_batch"])
    return Step(number=int(number(found[1])), seconds=row.get("step_s"), row=row)


def _arguments(lines: Sequence[str]) -> dict[str, str]:
    """The first value of every field of the dumped configurations."""
    start = next((at for at, line in enumerate(lines) if any(word in line for word in _CONFIG)), len(lines))
    found: dict[str, str] = {}
    for line in lines[start : start + _CONFIG_LINES]:
        if _LINE.search(line):
            break
        for name, value in ARGUMENT.findall(line):
            found.setdefault(name, value)
    return found


def _scenario(arguments: Mapping[str, str]) -> tuple[dict[str, Any], int]:
    plan: dict[str, Any] = whole(arguments, _PLAN)
    world = plan.get("dp", 1) * plan.get("tp", 1) * plan.get("pp", 1) * plan.get("cp", 1)
    config: dict[str, Any] = whole(arguments, {name: name for name in _SHAPE})
    config |= {
        "model_type": "llama",
        "tie_word_embeddings": arguments.get("tie_word_embeddings") == "True",
        "hidden_act": arguments.get("hidden_act", "silu").strip("'\""),
    }
    model = model_of(config) if "hidden_size" in config else {}
    length = whole(arguments, {"sequence_length": "seq_len"})
    if not model or not length:
        return {}, world
    if arguments.get("zero_stage") in _SHARDINGS:
        plan["sharding"] = _SHARDINGS[arguments["zero_stage"]]
    accumulated = whole(arguments, {"batch_accumulation_per_replica": "steps"}).get("steps", 1)
    training = {
        **length,
        "global_batch": plan.get("micro_batch", 1) * plan.get("dp", 1) * accumulated,
        "precision": "bf16-amp" if "bfloat16" in arguments.get("dtype", "torch.bfloat16") else "fp32",
    }
    return {"model": model, "plan": plan, "training": training}, world
