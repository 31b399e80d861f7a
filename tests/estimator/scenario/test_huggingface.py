"""config.json of Hugging Face: parameters as transformers builds them, the families' defaults, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.scenario import catalog
from estimator.scenario.huggingface.architectures import ARCHITECTURES
from estimator.scenario.huggingface.config import MULTIMODAL, model_from_hf, read_hf
from estimator.scenario.parameters import parameters
from estimator.scenario.problems import InputProblems
from tests.odd_json import ODD

CONFIGS = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((Path(__file__).parents[2] / "reference" / "hf_configs").glob("*.json"))
}

IN_CATALOGUE = {
    "llama3.1-8b": "llama3-8b",
    "mixtral-8x7b-v0.1": "mixtral-8x7b",
    "qwen3-8b": "qwen3-8b",
    "qwen3-30b-a3b": "qwen3-30b-a3b",
    "gpt2-xl": "gpt2-xl",
    "deepseek-v2": "deepseek-v2",
    "deepseek-v2-lite": "deepseek-v2-lite",
    "deepseek-v3": "deepseek-v3",
    "gpt-oss-120b": "gpt-oss-120b",
}

VARIANTS = [
    ("llama3.1-8b", {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": None}),
    ("llama3.1-8b", {"tie_word_embeddings": True, "head_dim": 64}),
    ("qwen2.5-7b", {"use_sliding_window": True, "max_window_layers": 0}),
    ("qwen1.5-moe-a2.7b", {"qkv_bias": False, "mlp_only_layers": [0, 1], "decoder_sparse_step": 3}),
    ("qwen1.5-moe-a2.7b", {"shared_expert_intermediate_size": 11264, "tie_word_embeddings": True}),
    ("qwen3-8b", {"attention_bias": True}),
    ("qwen3-30b-a3b", {"attention_bias": True, "mlp_only_layers": [0], "decoder_sparse_step": 2}),
    ("gpt2-xl", {"n_inner": 5000, "tie_word_embeddings": False}),
    ("gpt-neox-20b", {"attention_bias": False}),
    ("gemma-7b", {"attention_bias": True, "head_dim": 128}),
    ("gemma-2-9b", {"attention_bias": True, "tie_word_embeddings": False}),
    ("gemma-3-1b", {"layer_types": ["full_attention"] * 26}),
    ("deepseek-v2", {"attention_bias": True}),
    ("deepseek-v2-lite", {"attention_bias": True, "n_shared_experts": 3, "first_k_dense_replace": 0}),
    ("deepseek-v3", {"first_k_dense_replace": 7, "n_shared_experts": 2, "v_head_dim": 96}),
    ("gpt-oss-120b", {"attention_bias": False, "num_local_experts": 16}),
]


def built_parameters(document: dict[str, Any]) -> int:
    """Parameters of the module that transformers builds, on a device without memory."""
    from transformers import AutoConfig, AutoModelForCausalLM  # takes seconds

    values = {key: value for key, value in document.items() if key != "architectures"}
    config = AutoConfig.for_model(**values)
    with torch.device("meta"):
        module = AutoModelForCausalLM.from_config(config)
    assert type(module).__name__ == document["architectures"][0]
    return sum(parameter.numel() for parameter in module.parameters())


def fields_of(error: InputProblems) -> set[str]:
    return {problem.field for problem in error.problems}


def test_every_architecture_has_a_real_config():
    assert {document["architectures"][0] for document in CONFIGS.values()} == set(ARCHITECTURES)


@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_are_those_that_transformers_builds(name: str):
    assert parameters(model_from_hf(CONFIGS[name])) == built_parameters(CONFIGS[name])


@pytest.mark.parametrize(("name", "changes"), VARIANTS)
def test_parameters_follow_every_switch_of_a_family(name: str, changes: dict[str, Any]):
    changed = CONFIGS[name] | changes
    found = parameters(model_from_hf(changed))
    assert found == built_parameters(changed)
    attention_only = {"use_sliding_window", "max_window_layers", "layer_types"}
    assert set(changes) <= attention_only or found != parameters(model_from_hf(CONFIGS[name]))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_absent_keys_mean_what_transformers_assumes(architecture: str):
    document = {"architectures": [architecture], "model_type": ARCHITECTURES[architecture].model_type}
    if architecture == "DeepseekV2ForCausalLM":
        document |= {"num_experts_per_tok": 6}  # The one size that transformers has no default for.
    reading = read_hf(document)
    assert parameters(reading.model) == built_parameters(document)
    vocab = reading.model.vocab
    assert f"vocab_size = {vocab}: the file leaves it out, and transformers then assumes that." in reading.assumptions


@pytest.mark.parametrize(("name", "key"), IN_CATALOGUE.items())
def test_models_of_the_catalogue_are_read_as_they_stand_there(name: str, key: str):
    found, known = model_from_hf(CONFIGS[name]), catalog.model(key)
    same = {"name": key, "head_dim": found.dim, "kv_heads": found.kv}
    assert dataclasses.replace(found, **same) == dataclasses.replace(known, head_dim=known.dim, kv_heads=known.kv)


def test_windows_and_patterns_of_attention():
    for name, expected in {
        "mistral-7b-v0.1": (4096, 0),
        "gemma-2-9b": (4096, 2),
        "gemma-3-1b": (512, 6),
        "gpt-oss-120b": (128, 2),
        "qwen2.5-7b": (0, 0),
        "mixtral-8x7b-v0.1": (0, 0),
    }.items():
        model = model_from_hf(CONFIGS[name])
        assert (model.sliding_window, model.full_attention_every) == expected, name
    later = CONFIGS["mistral-7b-v0.1"] | {"sliding_window": None}
    assert model_from_hf(later).sliding_window == 0
    windowed = CONFIGS["qwen2.5-7b"] | {"use_sliding_window": True, "max_window_layers": 0}
    assert model_from_hf(windowed).sliding_window == 131072


def test_activations_by_their_names():
    assert model_from_hf(CONFIGS["gemma-7b"]).activation == "gelu-tanh"
    assert model_from_hf(CONFIGS["gpt2-xl"]).activation == "gelu-tanh"
    assert model_from_hf(CONFIGS["llama3.1-8b"]).activation == "silu"


def test_the_text_model_of_a_multimodal_one():
    text = {key: value for key, value in CONFIGS["gemma-3-1b"].items() if key not in ("architectures", "hidden_size")}
    (architecture,) = MULTIMODAL
    reading = read_hf(
        {"architectures": [architecture], "model_type": "gemma3", "text_config": text | {"hidden_size": 1152}}
    )
    assert parameters(reading.model) == parameters(model_from_hf(CONFIGS["gemma-3-1b"]))
    assert any("vision" in assumption for assumption in reading.assumptions)
    with pytest.raises(InputProblems) as caught:
        read_hf({"architectures": [architecture], "text_config": text | {"hidden_size": "wide"}})
    assert fields_of(caught.value) == {"text_config.hidden_size"}


def test_what_is_left_out_is_said():
    reading = read_hf(CONFIGS["deepseek-v3"] | {"quantization_config": {"quant_method": "fp8"}})
    assert any("Multi-token prediction" in assumption for assumption in reading.assumptions)
    assert any("quantization_config" in assumption for assumption in reading.assumptions)
    assert read_hf(CONFIGS["llama3.1-8b"]).assumptions == ()


def test_the_model_is_named_after_its_path():
    assert model_from_hf(CONFIGS["llama3.1-8b"] | {"_name_or_path": "meta-llama/Llama-3.1-8B"}).name.endswith("3.1-8B")


def test_another_model_type_with_a_known_architecture_is_read():
    # Kimi K2's file: model_type "kimi_k2", architecture of DeepSeek-V3.
    changes = {"model_type": "kimi_k2", "num_attention_heads": 64, "n_routed_experts": 384, "first_k_dense_replace": 1}
    found = model_from_hf(CONFIGS["deepseek-v3"] | changes | {"vocab_size": 163840})
    assert parameters(found) == parameters(catalog.model("kimi-k2"))


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"architectures": ["MambaForCausalLM"], "model_type": "mamba"}, "architectures"),
        ({"model_type": "t5"}, "model_type"),
        ({"architectures": []}, "architectures"),
        ({"architectures": 5}, "architectures"),
        ({}, "architectures"),
    ],
)
def test_an_unknown_architecture_is_refused_with_the_known_ones(document: dict[str, Any], field: str):
    with pytest.raises(InputProblems) as caught:
        model_from_hf(document)
    (problem,) = caught.value.problems
    assert problem.field == field
    assert all(name in problem.remedy for name in ARCHITECTURES)


def test_a_trace_is_called_one():
    with pytest.raises(InputProblems, match=r"this is a trace, no config\.json\. Import it"):
        model_from_hf({"schemaVersion": 1, "traceEvents": []})


@pytest.mark.parametrize("document", [None, [], "config", 3])
def test_what_is_no_object_is_refused(document: object):
    with pytest.raises(InputProblems, match="must be a JSON object"):
        model_from_hf(document)


@pytest.mark.parametrize(
    ("name", "changes", "fields"),
    [
        ("llama3.1-8b", {"hidden_size": "4096"}, {"hidden_size"}),
        ("llama3.1-8b", {"hidden_size": None, "vocab_size": -1}, {"hidden_size", "vocab_size"}),
        ("llama3.1-8b", {"num_hidden_layers": 10**12}, {"num_hidden_layers"}),
        ("gemma-2-9b", {"num_hidden_layers": 10_001}, {"num_hidden_layers"}),
        ("llama3.1-8b", {"num_attention_heads": 200_000, "head_dim": 8}, {"num_attention_heads"}),
        ("llama3.1-8b", {"num_attention_heads": 31}, {"num_attention_heads", "num_key_value_heads"}),
        ("llama3.1-8b", {"num_key_value_heads": 5}, {"num_key_value_heads"}),
        ("llama3.1-8b", {"hidden_act": "relu6"}, {"hidden_act"}),
        ("llama3.1-8b", {"tie_word_embeddings": "no"}, {"tie_word_embeddings"}),
        ("gpt2-xl", {"n_head": 7}, {"n_head"}),
        ("gpt2-xl", {"add_cross_attention": True}, {"add_cross_attention"}),
        ("mixtral-8x7b-v0.1", {"num_experts_per_tok": 9}, {"num_experts_per_tok"}),
        ("mixtral-8x7b-v0.1", {"num_local_experts": 0}, {"num_local_experts"}),
        ("qwen2.5-7b", {"use_sliding_window": True, "max_window_layers": 14}, {"max_window_layers"}),
        ("qwen1.5-moe-a2.7b", {"shared_expert_intermediate_size": 1409}, {"shared_expert_intermediate_size"}),
        ("qwen3-30b-a3b", {"mlp_only_layers": [3]}, {"mlp_only_layers"}),
        ("qwen3-30b-a3b", {"mlp_only_layers": "first"}, {"mlp_only_layers"}),
        ("gemma-3-1b", {"layer_types": ["full_attention"]}, {"layer_types"}),
        ("gemma-3-1b", {"layer_types": ["full_attention", *["sliding_attention"] * 25]}, {"layer_types"}),
        ("deepseek-v2", {"num_experts_per_tok": None}, {"num_experts_per_tok"}),
        ("deepseek-v2", {"moe_layer_freq": 2}, {"moe_layer_freq"}),
        ("deepseek-v2", {"mlp_bias": True}, {"mlp_bias"}),
        ("deepseek-v3", {"first_k_dense_replace": 61}, {"first_k_dense_replace"}),
    ],
)
def test_missing_and_absurd_values_name_their_key(name: str, changes: dict[str, Any], fields: set[str]):
    with pytest.raises(InputProblems) as caught:
        model_from_hf(CONFIGS[name] | changes)
    assert fields_of(caught.value) == fields
    assert all(problem.remedy for problem in caught.value.problems)


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_junk_in_any_key_gives_a_model_or_problems(data: st.DataObject):
    document = dict(CONFIGS[data.draw(st.sampled_from(sorted(CONFIGS)))])
    for key in data.draw(st.lists(st.sampled_from(sorted(document)), max_size=3)):
        document[key] = data.draw(ODD)
    try:
        model = model_from_hf(document)
    except InputProblems:
        return
    assert parameters(model) > 0
    assert model.problems() == []
