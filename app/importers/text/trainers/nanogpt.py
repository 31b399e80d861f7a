"""Logs of nanoGPT: ``iter 10: loss 4.2, time 135.51ms, mfu 41.20%``, and the settings that it prints before."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.importers.text.trainers import loop
from app.importers.text.trainers.log import Log, model_of, number
from estimator.scenario.measurement import Warning

_TOKENS = re.compile(r"^tokens per iteration will be: ([\d,]{1,20})$")
_PARAMETERS = re.compile(r"^number of parameters: ([\d.]{1,12}M)$")
_VOCABULARY = re.compile(r"^found vocab_size = (\d{1,9})\b")
_SETTING = re.compile(r"^(?:Overriding: )?([a-z_]{1,40}) = ([^#]{1,80}?)\s*(?:#.*)?$")
_UNFUSED = re.compile(r"^using fused AdamW: False\b")
_ITERATION = re.compile(r"^iter \d{1,9}: loss ")
_DEFAULTS = {"n_layer": 12, "n_head": 12, "n_embd": 768, "block_size": 1024, "batch_size": 12}
"""Of its train.py, which prints what is set otherwise."""
_VOCABULARY_SIZE = 50304
_PROMISED_FLOPS_PER_S = 312e12
"""What its MFU is a share of, on any GPU."""
_PRECISIONS = {"bfloat16": "bf16-amp", "float16": "fp16-amp", "float32": "tf32"}
"""It allows TF32 in every product."""


def read(lines: Sequence[str]) -> Log | None:
    """Read its steps and its scenario, None where it printed none."""
    start = next((at for at, line in enumerate(lines) if _ITERATION.match(line)), None)
    before = [line.strip() for line in lines[:start]]
    tokens = next((number(found[1]) for line in before if (found := _TOKENS.match(line))), 0.0)
    log = loop.read([line for line in lines if _ITERATION.match(line)]) if start is not None and tokens else None
    if log is None:
        return None
    said = {found[1]: found[2] for line in before if (found := _SETTING.match(line))}
    sizes = _DEFAULTS | {name: int(said[name]) for name in _DEFAULTS if re.fullmatch(r"\d{1,9}", said.get(name, ""))}
    vocabulary = next((int(found[1]) for line in before if (found := _VOCABULARY.match(line))), _VOCABULARY_SIZE)
    config = {name: sizes[name] for name in ("n_layer", "n_head", "n_embd")}
    model = model_of({"model_type": "gpt2", **config, "n_positions": sizes["block_size"], "vocab_size": vocabulary})
    if not model or tokens % sizes["block_size"]:
        return log
    parameters = next((number(found[1]) for line in before if (found := _PARAMETERS.match(line))), 0.0)
    ranks, warnings = _ranks(log, parameters, tokens, sizes), list(log.warnings)
    if not ranks:
        message = "The log shows no MFU, so nothing tells how many GPUs shared a step: one is taken"
        warnings.append(Warning(code="ranks-unknown", message=message))
    training: dict[str, Any] = {
        "seq_len": sizes["block_size"],
        "global_batch": round(tokens / sizes["block_size"]),
        "precision": _PRECISIONS.get(said.get("dtype", "bfloat16").strip("'\""), "bf16-amp"),
        "framework": "pytorch-eager" if said.get("compile") == "False" else "pytorch-compile",
        "optimizer": "adamw" if any(_UNFUSED.match(line) for line in before) else "adamw-fused",
    }
    plan = {"dp": max(1, ranks), "micro_batch": sizes["batch_size"]}
    scenario = {"model": {**model, "bias": said.get("bias") == "True"}, "plan": plan, "training": training}
    return replace(log, scenario=scenario, world_size=max(1, ranks), warnings=tuple(warnings))


def _ranks(log: Log, parameters: float, tokens: float, sizes: dict[str, int]) -> int:
    """Tokens of a step over those of one rank, whose FLOPs over its time are the MFU; 0 where none is shown."""
    last = log.rows[-1]
    flops = last.get("mfu_frac", 0.0) * _PROMISED_FLOPS_PER_S * last.get("step_s", 0.0)
    per_token = 6 * parameters + 12 * sizes["n_layer"] * sizes["n_embd"] * sizes["block_size"]
    return round(tokens * per_token / flops) if flops and parameters else 0
