"""torchtune: the resolved configuration that a recipe prints before its first step, as settings of a loop.

``Running FullFinetuneRecipeDistributed with resolved config:``, then YAML: ``batch_size: 4``, a model's
``_component_: torchtune.models.llama3_2.llama3_2_1b``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_BEGIN = re.compile(r"\bRunning (\w{1,80}) with resolved config:")
_PAIR = re.compile(r"^(\s{0,16})([A-Za-z_]\w{0,60}):(?:\s+(\S.{0,300}))?$")
_MOST_LINES = 300
_COMPONENT = "_component_"
_AS_IN_PYTHON = {"true": "True", "false": "False", "null": ""}
_SIZE = re.compile(r"(?:lora_|qlora_)?([a-z]+\d?)(?:_(\d))?_(\d+b|[a-z]+)(?:_instruct)?$")


def settings_of(lines: Sequence[str]) -> dict[str, str]:
    """Settings under the names that loops give them; {} of any other log."""
    start, recipe = next(((at, hit[1]) for at, line in enumerate(lines) if (hit := _BEGIN.search(line))), (0, ""))
    config = _flat(lines[start + 1 : start + 1 + _MOST_LINES]) if recipe else {}
    if "batch_size" not in config:
        return {}
    found = {
        "per_device_batch_size": config["batch_size"],
        "gradient_accumulation_steps": config.get("gradient_accumulation_steps", "1"),
        "precision": config.get("dtype", ""),
        "model": _model(config.get(f"model.{_COMPONENT}", "")),
        "packed": config.get("dataset.packed", ""),
        "framework": "pytorch-compile" if config.get("compile") == "True" else "pytorch-eager",
    }
    longest = config.get("tokenizer.max_seq_len", "")
    if found["packed"] == "True" and longest.isdigit():
        found["seq_len"] = longest
    if config.get("enable_activation_checkpointing") == "True":
        found["recompute"] = "full"
    if "Distributed" in recipe:
        found["sharding"] = "fsdp"
    elif "SingleDevice" in recipe:
        found["world_size"] = "1"
    return {name: value for name, value in found.items() if value}


def step_tokens_of_rank(settings: Mapping[str, str]) -> int:
    """Tokens of a step of one GPU, where sequences are packed to one length; 0 else."""
    parts = [settings.get(name, "") for name in ("per_device_batch_size", "gradient_accumulation_steps", "seq_len")]
    return int(parts[0]) * int(parts[1]) * int(parts[2]) if all(part.isdigit() for part in parts) else 0


def _flat(lines: Sequence[str]) -> dict[str, str]:
    """Scalars of YAML by the names above them, joined by points; what is listed is passed over."""
    found: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in lines:
        pair = _PAIR.match(line.rstrip())
        if pair is None:
            if line.strip() and not line.lstrip().startswith(("-", "#")):
                break
            continue
        depth, name, value = len(pair[1]), pair[2], pair[3]
        above = [one for one in above if one[0] < depth]
        if value is None:
            above.append((depth, name))
            continue
        text = value.strip("\"'")
        found[".".join([*(one for _, one in above), name])] = _AS_IN_PYTHON.get(text, text)
    return found


def _model(component: str) -> str:
    """``torchtune.models.llama3_2.llama3_2_1b`` as people write it: llama3.2-1b."""
    found = _SIZE.search(component.rpartition(".")[2])
    if found is None:
        return component.rpartition(".")[2]
    return f"{found[1]}{f'.{found[2]}' if found[2] else ''}-{found[3]}"
