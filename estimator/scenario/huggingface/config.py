"""Hugging Face config: config.json to Model: one function and one entry of defaults for each architecture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from estimator.scenario.codec import decode
from estimator.scenario.huggingface.architectures import ARCHITECTURES
from estimator.scenario.huggingface.keys import Keys
from estimator.scenario.model import Model
from estimator.scenario.own_file import refuse_own
from estimator.scenario.problems import InputProblems, Problem, refusal

KEY_OF_FIELD = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "ffn": "intermediate_size",
    "vocab": "vocab_size",
    "experts": "num_experts",
    "top_k": "num_experts_per_tok",
    "moe_ffn": "moe_intermediate_size",
    "shared_experts": "n_shared_experts",
    "dense_layers": "first_k_dense_replace",
    "moe_every": "decoder_sparse_step",
}
"""The key that a problem of Model's field is reported under; other fields have the name of their key."""

MULTIMODAL = {"Gemma3ForConditionalGeneration": "Gemma3ForCausalLM"}
"""Architectures whose ``text_config`` has one of the architectures."""

LONGEST_NAME = 200


@dataclass(frozen=True, kw_only=True)
class HfReading:
    """What a config.json gave: the model, and what had to be assumed."""

    model: Model
    assumptions: tuple[str, ...]


def model_from_hf(document: object) -> Model:
    """Read a config.json; raise InputProblems that name its keys."""
    return read_hf(document).model


def read_hf(document: object) -> HfReading:
    """Read a config.json and say what was assumed; raise InputProblems that name its keys."""
    if not isinstance(document, Mapping):
        raise refusal("(document)", "must be a JSON object", "Give the config.json of a model.")
    refuse_own(document, "config.json")
    architecture = _architecture(document)
    where = ""
    assumptions = []
    text: Any = document
    if architecture in MULTIMODAL:
        text, where = document.get("text_config"), "text_config."
        if not isinstance(text, Mapping):
            raise refusal("text_config", "must be an object", "Give the config.json of the text model.")
        architecture = MULTIMODAL[architecture]
        assumptions.append("The text model alone: no vision tower, no projector.")
    keys = Keys(text, ARCHITECTURES[architecture].defaults, where)
    fields = ARCHITECTURES[architecture].read(keys)
    if keys.problems:
        raise InputProblems(keys.problems)
    name = document.get("_name_or_path")
    model = _model(fields | {"name": name[:LONGEST_NAME] if isinstance(name, str) else ""}, keys)
    if document.get("quantization_config") is not None:
        assumptions.append("quantization_config is left out: the training's precision says how wide numbers are.")
    return HfReading(model=model, assumptions=(*assumptions, *keys.assumptions))


def _model(fields: dict[str, Any], keys: Keys) -> Model:
    """Build the model within the bounds of its fields; raise InputProblems that name the keys."""
    try:
        model = decode(Model, fields)
        problems: Sequence[Problem] = model.problems()
    except InputProblems as error:
        problems = error.problems
    if problems:
        raise InputProblems([_renamed(problem, keys) for problem in problems])
    return model


def _architecture(document: Mapping[str, Any]) -> str:
    named = document.get("architectures")
    named = [named] if isinstance(named, str) else named
    names = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    for name in names:
        if name in ARCHITECTURES or name in MULTIMODAL:
            return name
    by_type = {found.model_type: name for name, found in ARCHITECTURES.items()}
    model_type = document.get("model_type")
    if not names and isinstance(model_type, str) and model_type in by_type:
        return by_type[model_type]
    known = (
        "`headroom trace --hf` predicts any model that transformers can build, here it takes"
        f" {', '.join((*ARCHITECTURES, *MULTIMODAL))}."
    )
    if names:
        raise refusal("architectures", f"{', '.join(names)[:100]} is not known", known)
    if isinstance(model_type, str):
        raise refusal("model_type", f"{model_type[:100]!r} is not known, and architectures is missing", known)
    raise refusal("architectures", "is missing", known)


def _renamed(problem: Problem, keys: Keys) -> Problem:
    field = problem.field.removeprefix("model.")
    name = keys.name(KEY_OF_FIELD.get(field, field))
    remedy = f"Correct {name} in the file; as a model's field: {problem.remedy}"
    return Problem(field=name, message=problem.message, remedy=remedy)
