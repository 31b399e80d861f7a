"""Logs of nanoGPT: ``iter 10: loss 4.2, time 135.51ms, mfu 41.20%``, and the settings that it prints before."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.importers.text.trainers import loop
from app.importers.text.trainers.log import Log, model_of, number
from estimator.scenario import catalog
from estimator.scenario.measurement import FIELD_DERIVED, FIELD_GUESSED, Warning
from estimator.scenario.parameters import parameters
from estimator.scenario.scenario import model_from_json

_TOKENS = re.compile(r"^tokens per iteration will be: ([\d,]{1,20})$")
_PARAMETERS = re.compile(r"^number of parameters: ([\d.]{1,12}M)$")
_VOCABULARY = re.compile(r"^found vocab_size = (\d{1,9})\b")
_SETTING = re.compile(r"^(?:Overriding: )?([a-z_]{1,40}) = ([^#]{1,80}?)\s*(?:#.*)?$")
_OPTIMIZED = re.compile(r"^num (?:non-)?decayed parameter tensors: \d{1,6}, with ([\d,]{1,20}) parameters$")
_GROUPS = 2
_COMPILING = "compiling the model..."
_FUSED = "using fused AdamW: True"
"""Else PyTorch chooses its kernel, as by default."""
_PRODUCT = re.compile(r"([1-9]\d{0,5})(?: ?\* ?([1-9]\d{0,5}))?")
_ITERATION = re.compile(r"^iter \d{1,9}: loss ")
_DEFAULTS = {"n_layer": 12, "n_head": 12, "n_embd": 768, "block_size": 1024, "batch_size": 12}
"""Of its train.py, which prints what is set otherwise."""
_VOCABULARY_SIZE = 50304
_SIZES_OF_GPT_2 = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
_HALF_A_DIGIT = 0.00501e6
"""By how much the parameters that it prints may be off: it rounds to 0.01M."""
_NEAR_FRAC = 0.1
"""By how much ranks that its MFU tells may be off a whole number: it is a mean over steps."""
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
    stated = {name: int(said[name]) for name in _DEFAULTS if re.fullmatch(r"[1-9]\d{0,8}", said.get(name, ""))}
    sizes = _DEFAULTS | stated
    printed = next((number(found[1]) for line in before if (found := _PARAMETERS.match(line))), 0.0)
    model, why = _model(before, said, sizes, printed)
    guesses: dict[str, str] = {}
    if model and why and not {"n_layer", "n_head", "n_embd"} <= stated.keys():
        guesses["model.name"] = f"{why}: its widths are nanoGPT's defaults where it does not say them"
    training: dict[str, Any] = {}
    block = sizes["block_size"]
    if tokens % block == 0:
        training = {"seq_len": block, "global_batch": round(tokens / block)}
        if "block_size" not in stated and not (model and _counted(before) == _own_count(model)):
            why = f"A block of {block} is nanoGPT's default, which the log does not say"
            guesses |= dict.fromkeys(("training.seq_len", "training.global_batch"), why)
    training |= {
        "precision": _PRECISIONS.get(said.get("dtype", "bfloat16").strip("'\""), "bf16-amp"),
        "framework": "pytorch-eager" if said.get("compile") == "False" else "pytorch-compile",
        "optimizer": "adamw",
        **({"optimizer_kernel": "fused"} if _FUSED in before else {}),
    }
    if "dtype" not in said:
        guesses["training.precision"] = f"{training['precision']} is nanoGPT's default, which the log does not say"
    if "compile" not in said and not any(line.startswith(_COMPILING) for line in before):
        guesses["training.framework"] = "Compiling is nanoGPT's default, of which the log does not say anything"
    ranks = _ranks(log, printed, tokens, sizes)
    plan = _plan(stated, said, training.get("global_batch", 0), ranks, guesses)
    warnings = [*log.warnings, *(Warning(code=FIELD_GUESSED, message=why, where=at) for at, why in guesses.items())]
    if "dp" in plan:
        message = (
            "Derived: FLOPs of a step over its time and its MFU, which nanoGPT counts of an A100, as a whole number"
        )
        warnings.append(Warning(code=FIELD_DERIVED, message=message, where="plan.dp"))
    else:
        message = "The log shows no MFU that a whole number of GPUs has, so nothing tells how many shared a step"
        warnings.append(Warning(code="ranks-unknown", message=message))
    scenario = {**({"model": model} if model else {}), "plan": plan, "training": training}
    return replace(
        log,
        scenario=scenario,
        world_size=plan.get("dp", 1),
        warnings=tuple(warnings),
        parameters=_counted(before) or round(printed),
    )


def _model(
    before: Sequence[str], said: Mapping[str, str], sizes: Mapping[str, int], printed: float
) -> tuple[dict[str, Any], str]:
    """The model whose parameters, but those of its positions, are printed; with why it is a guess, "" where it is none.

    {} where none of its settings and defaults has as many, unless the log says all of its widths.
    """
    found = next((int(found[1]) for line in before if (found := _VOCABULARY.match(line))), 0)
    config = {name: sizes[name] for name in ("n_layer", "n_head", "n_embd")}
    ways: list[dict[str, Any]] = []
    for vocabulary in (found, _VOCABULARY_SIZE) if found else (_VOCABULARY_SIZE,):
        document = {"model_type": "gpt2", **config, "n_positions": sizes["block_size"], "vocab_size": vocabulary}
        for bias in (said["bias"] == "True",) if "bias" in said else (False, True):
            ways += [{**built, "bias": bias, "name": _name(sizes)}] if (built := model_of(document)) else []
    apart = sizes["block_size"] * sizes["n_embd"]
    for way in ways if printed else ():
        if abs(_own_count(way) - apart - printed) <= _HALF_A_DIGIT:
            return way, ""
    if printed and not {"n_layer", "n_head", "n_embd"} <= said.keys():
        return {}, ""
    return (ways[0] if ways else {}), "The log does not say how many parameters it has"


def _own_count(model: Mapping[str, Any]) -> int:
    """Parameters of a model as nanoGPT has it: without biases its norms have none either, as a scenario's have."""
    norms = 0 if model["bias"] else (2 * model["layers"] + 1) * model["hidden"]
    return parameters(model_from_json(dict(model))) - norms


def _name(sizes: Mapping[str, int]) -> str:
    """GPT-2's name where the blocks are its own, else their sizes."""
    for key in _SIZES_OF_GPT_2:
        model = catalog.model(key)
        if (model.layers, model.heads, model.hidden) == (sizes["n_layer"], sizes["n_head"], sizes["n_embd"]):
            return f"{next(one.label for one in catalog.entries('models') if one.key == key)} (nanoGPT)"
    return f"nanoGPT, {sizes['n_layer']} layers of {sizes['n_embd']}"


def _counted(before: Sequence[str]) -> int:
    """Parameters, those of positions among them, as it counts them for its optimizer; 0 where it does not."""
    each = [int(hit[1].replace(",", "")) for line in before if (hit := _OPTIMIZED.match(line))]
    return sum(each) if len(each) == _GROUPS else 0


def _plan(
    stated: Mapping[str, int], said: Mapping[str, str], batch: int, ranks: int, guesses: dict[str, str]
) -> dict[str, int]:
    """Ranks and sequences of a pass; what does not divide the batch is none of them.

    ``gradient_accumulation_steps`` are those of all ranks: batch = steps · sequences of a pass.
    """
    steps = _PRODUCT.fullmatch(said.get("gradient_accumulation_steps", ""))
    passes = int(steps[1]) * int(steps[2] or 1) if steps else 0
    each = stated.get("batch_size", 0)
    if not each and passes and batch % passes == 0:
        each = batch // passes
    dp = ranks if ranks and batch % (ranks * max(each, 1)) == 0 else 0
    usual = _DEFAULTS["batch_size"]
    if not each and batch and batch % (max(dp, 1) * usual) == 0:
        each = usual
        guesses["plan.micro_batch"] = f"{usual} sequences at a time is nanoGPT's default, which the log does not say"
    return {name: value for name, value in (("dp", dp), ("micro_batch", each)) if value}


def _ranks(log: Log, printed: float, tokens: float, sizes: Mapping[str, int]) -> int:
    """Tokens of a step over those of one rank, whose FLOPs over its time are the MFU; 0 where that is near no count."""
    last = log.rows[-1]
    flops = last.get("mfu_frac", 0.0) * _PROMISED_FLOPS_PER_S * last.get("step_s", 0.0)
    per_token = 6 * printed + 12 * sizes["n_layer"] * sizes["n_embd"] * sizes["block_size"]
    ranks = tokens * per_token / flops if flops and printed else 0.0
    return round(ranks) if ranks and abs(round(ranks) / ranks - 1) <= _NEAR_FRAC else 0
