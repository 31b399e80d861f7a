"""What a log of torchtitan says of its run before its first step: model, mesh, batch, length, device, what it applied.

``Building 1-D device mesh with ['dp_shard'], [8]``, ``Model llama3 8B size: 8,030,261,248 total parameters``,
``Applied FSDP to the model``, ``Training starts at step 1, with local batch size 1, global batch size 8, …``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.importers.text.trainers.log import ARGUMENT, model_of, number, whole
from app.importers.text.values.models import catalogue_key
from estimator.scenario.measurement import FIELD_GUESSED, Warning
from estimator.scenario.parameters import parameters
from estimator.scenario.scenario import model_from_json

_SIZE = re.compile(r"\bModel (\S{1,40})(?: (\S{1,40}))? size: ([\d,]{1,24}) total parameters")
_MESH = re.compile(r"\bBuilding \d-D device mesh with \[([^\]]{0,200})\], \[([\d, ]{0,80})\]")
_DEGREES = re.compile(r"\bBuilding device mesh with parallelism: (.{1,200})")
_DEGREE = re.compile(r"\b(\w{1,20})=(\d{1,7})\b")
_GPU = re.compile(r"\b[A-Z]{2,6} capacity: (.{2,60}?) with [\d.]{1,12}\s?GiB memory")
_SHARDED = re.compile(r"\bApplied (FSDP|HSDP|DDP) to the model")
_AGAIN = re.compile(r"\bApplied (selective|full) activation checkpointing to the model")
_COMPILED = re.compile(r"\bCompiling each \w{1,40} with torch\.compile")
_FLOAT8 = re.compile(r"\bFloat8 training active|\bSwapped to Float8Linear layers")
_COUNTS = {
    "local_batch": re.compile(r"\blocal batch size:? (\d{1,9})"),
    "global_batch": re.compile(r"\bglobal batch size:? (\d{1,9})"),
    "seq_len": re.compile(r"\bsequence length:? (\d{1,9})"),
}
_ARGUMENTS = re.compile(r"ModelArgs\(")
_LLAMA = {"dim": "hidden_size", "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads",
          "n_kv_heads": "num_key_value_heads", "vocab_size": "vocab_size"}  # fmt: skip
_AXES = {"tp": "tp", "pp": "pp", "cp": "cp", "ep": "ep"}
_FIRST_STEP = re.compile(r"\bstep:\s*\d{1,9}\s+loss:")
_LONGEST_LINE = 2000


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A scenario without its cluster, ranks and GPU (1 and "" where neither is said), and what of it is guessed."""

    scenario: dict[str, Any]
    world_size: int
    gpu: str
    warnings: tuple[Warning, ...]

    @property
    def step_tokens_of_rank(self) -> float:
        """Tokens of a step over all ranks, by which its rates are; 0 where the log does not say them."""
        training = self.scenario["training"]
        tokens = training.get("global_batch", 0) * training.get("seq_len", 0)
        return tokens / self.world_size if "dp" in self.scenario["plan"] else 0.0


def settings_of(lines: Sequence[str]) -> Settings:
    """Read what stands before the first step."""
    start = next((at for at, line in enumerate(lines) if _FIRST_STEP.search(line)), len(lines))
    before = [line for line in lines[:start] if len(line) <= _LONGEST_LINE]
    counts = {
        name: int(hit[1])
        for name, pattern in _COUNTS.items()
        if (hit := next((hit for line in before if (hit := pattern.search(line))), None))
    }
    plan, world = _plan(before)
    gpu = _first(_GPU, before)
    training: dict[str, Any] = {name: counts[name] for name in ("seq_len", "global_batch") if counts.get(name)}
    training["framework"] = "torchtitan"
    if any(_COMPILED.search(line) for line in before):
        training["compile"] = True
    if any(_FLOAT8.search(line) for line in before):
        training["precision"] = "fp8"
    local, dp = counts.get("local_batch", 0), plan.get("dp", 0)
    warnings = []
    if local and plan.get("pp", 1) == 1 and training.get("global_batch", 0) % (local * max(dp, 1)) == 0:
        plan["micro_batch"] = local
    elif plan.get("pp", 1) > 1:
        plan["micro_batch"] = 1
        why = "Pipelines of torchtitan take 1 sequence at a time unless told otherwise, which the log does not say"
        warnings.append(Warning(code=FIELD_GUESSED, message=why, where="plan.micro_batch"))
    if again := _first(_AGAIN, before):
        plan["recompute"] = again
    model = _model(before)
    scenario = {**({"model": model} if model else {}), "plan": plan, "training": training}
    return Settings(scenario=scenario, world_size=world, gpu=gpu, warnings=tuple(warnings))


def _plan(before: Sequence[str]) -> tuple[dict[str, Any], int]:
    """Degrees of the mesh, and how its data parallel ranks share states; {} where no mesh is said."""
    mesh = next((hit for line in before if (hit := _MESH.search(line))), None)
    named = next((hit[1] for line in before if (hit := _DEGREES.search(line))), "")
    degrees = {name: int(degree) for name, degree in _DEGREE.findall(named)}
    if mesh:
        sizes = [int(one) for one in mesh[2].split(",") if one.strip().isdigit()]
        degrees = dict(zip(re.findall(r"\w+", mesh[1]), sizes, strict=False))
    if not (mesh or degrees) or 0 in degrees.values():
        return {}, 1
    plan: dict[str, Any] = {ours: degrees[own] for own, ours in _AXES.items() if degrees.get(own, 1) > 1}
    # Data parallel axes have had many names: dp, dp_replicate and dp_shard, which experts cut in two.
    plan["dp"] = math.prod(degree for name, degree in degrees.items() if name.startswith("dp") and name != "dp_cp")
    world = math.prod(plan.get(axis, 1) for axis in ("dp", "tp", "pp", "cp"))
    applied = _first(_SHARDED, before)
    if applied == "DDP":
        plan["sharding"] = "ddp"
    elif applied:
        plan["sharding"] = "fsdp"
        if degrees.get("dp_replicate", 1) > 1:
            plan["shard_ranks"] = plan["dp"] // degrees["dp_replicate"]
    return plan, world


def _model(before: Sequence[str]) -> str | dict[str, Any]:
    """The catalogue's model of exactly so many parameters, else that of its arguments where it has as many; "" else."""
    hit = next((hit for line in before if (hit := _SIZE.search(line))), None)
    count = int(number(hit[3])) if hit else 0
    if hit and (key := catalogue_key(count, hit[1])):
        return key
    arguments = dict(ARGUMENT.findall(next((line for line in before if _ARGUMENTS.search(line)), "")))
    config: dict[str, Any] = whole(arguments, _LLAMA)
    if not hit or len(config) < len(_LLAMA) - 1 or "hidden_size" not in config:
        return ""
    # ffn = the next multiple of so many over ⅔ · 4 · width · multiplier (feed forward of torchtitan's Llama)
    multiple = whole(arguments, {"multiple_of": "of"}).get("of", 256)
    multiplier = number(arguments.get("ffn_dim_multiplier", "")) or 1.0
    inner = int(multiplier * int(8 * config["hidden_size"] / 3))
    config["intermediate_size"] = -(-inner // multiple) * multiple
    found = model_of({"model_type": "llama", "hidden_act": "silu", "tie_word_embeddings": False, **config})
    if not found or parameters(model_from_json(found)) != count:
        return ""
    return {**found, "name": " ".join(one for one in (hit[1], hit[2]) if one)}


def _first(pattern: re.Pattern[str], lines: Sequence[str]) -> str:
    return next((hit[1] for line in lines if (hit := pattern.search(line))), "")
