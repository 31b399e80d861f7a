"""Families: the fields of Model from the keys of each architecture.

What its blocks hold: the modeling files of transformers 5.23 (2026), src/transformers/models/.
"""

from __future__ import annotations

from typing import Any

from estimator.scenario.huggingface.keys import Keys
from estimator.scenario.huggingface.parts import activation, attention_bias, experts, qwen_experts, rms_blocks, windows


def llama(k: Keys) -> dict[str, Any]:
    """Llama: switches for biases in attention and in the network."""
    return rms_blocks(k) | attention_bias(k) | {"ffn_bias": k.flag("mlp_bias")}


def mistral(k: Keys) -> dict[str, Any]:
    """Mistral: a window in all layers, or none."""
    return rms_blocks(k) | {"sliding_window": k.optional("sliding_window")}


def mixtral(k: Keys) -> dict[str, Any]:
    """Mixtral: Mistral with experts in all layers."""
    return mistral(k) | experts(k)


def qwen2(k: Keys) -> dict[str, Any]:
    """Qwen2: biases of q, k, v; a window, if at all, from layer ``max_window_layers`` on."""
    fields = rms_blocks(k)
    first = k.optional("max_window_layers") if k.flag("use_sliding_window") else fields["layers"]
    sliding = [index >= first for index in range(fields["layers"])]
    return fields | {"qkv_bias": True} | windows(k, fields["layers"], sliding, "max_window_layers")


def qwen3(k: Keys) -> dict[str, Any]:
    """Qwen3: Qwen2 with normed queries and keys and a switch for biases."""
    return qwen2(k) | attention_bias(k) | {"qk_norm": True}


def qwen2_moe(k: Keys) -> dict[str, Any]:
    """Qwen2-MoE: one wide shared expert behind a gate."""
    fields = rms_blocks(k) | qwen_experts(k) | {"qkv_bias": k.flag("qkv_bias"), "shared_expert_gate": True}
    last = k.optional("max_window_layers") if k.flag("use_sliding_window") else 0
    sliding = [index % 2 == 0 and index < last for index in range(fields["layers"])]
    shared, each = k.count("shared_expert_intermediate_size"), fields["moe_ffn"]
    if shared % each:
        message = f"{shared} is no multiple of moe_intermediate_size = {each}, which is not modelled"
        k.refuse("shared_expert_intermediate_size", message, f"Choose a multiple of {each}.")
    fields["shared_experts"] = shared // each
    return fields | windows(k, fields["layers"], sliding, "max_window_layers")


def qwen3_moe(k: Keys) -> dict[str, Any]:
    """Qwen3-MoE: no shared expert; a window, if at all, in all layers."""
    window = k.optional("sliding_window") if k.flag("use_sliding_window") else 0
    return rms_blocks(k) | qwen_experts(k) | attention_bias(k) | {"qk_norm": True, "sliding_window": window}


def gpt2(k: Keys) -> dict[str, Any]:
    """GPT-2: learned positions, LayerNorm, biases everywhere."""
    if k.flag("add_cross_attention"):
        k.refuse("add_cross_attention", "cross attention is not modelled", "Set it to false.")
    hidden = k.count("hidden_size")
    return {
        "layers": k.count("num_hidden_layers"),
        "hidden": hidden,
        "heads": k.count("num_attention_heads"),
        "ffn": k.optional("n_inner") or 4 * hidden,
        "vocab": k.count("vocab_size"),
        "gated_ffn": False,
        "activation": activation(k),
        "norm": "layer",
        "position": "learned",
        "max_positions": k.count("max_position_embeddings"),
        "bias": True,
        "tied_embedding": k.flag("tie_word_embeddings"),
    }


def gpt_neox(k: Keys) -> dict[str, Any]:
    """GPT-NeoX: rotary positions, two LayerNorms side by side, biases of the network always."""
    biased = k.flag("attention_bias")
    always = {"gated_ffn": False, "norm": "layer", "parallel_residual": k.flag("use_parallel_residual")}
    return rms_blocks(k) | always | {"bias": biased, "ffn_bias": not biased}


def gemma(k: Keys) -> dict[str, Any]:
    """Gemma: wide heads, tied embedding."""
    fields = rms_blocks(k) | attention_bias(k)
    # The first releases say "gelu" and mean the tanh form (configuration_gemma.py).
    return fields | {"activation": "gelu-tanh" if fields["activation"] == "gelu" else fields["activation"]}


def gemma2(k: Keys) -> dict[str, Any]:
    """Gemma 2: norms after attention and network too, every second layer without a window."""
    return _gemma_with_windows(k, 2)


def gemma3(k: Keys) -> dict[str, Any]:
    """Gemma 3 (text): Gemma 2 with normed queries and keys, every sixth layer without a window."""
    return _gemma_with_windows(k, k.optional("sliding_window_pattern") or 6) | {"qk_norm": True}


def _gemma_with_windows(k: Keys, every: int) -> dict[str, Any]:
    fields = rms_blocks(k) | attention_bias(k) | {"norms_per_layer": 4}
    sliding = [(index + 1) % every != 0 for index in range(fields["layers"])]
    return fields | windows(k, fields["layers"], sliding, "sliding_window_pattern")


def deepseek(k: Keys) -> dict[str, Any]:
    """DeepSeek-V2 and V3: latent attention, shared experts, leading dense layers."""
    if k.given("moe_layer_freq") and k.value("moe_layer_freq") != 1:
        k.refuse("moe_layer_freq", "only 1 is modelled", "Set it to 1.")
    if k.flag("mlp_bias"):
        k.refuse("mlp_bias", "biases in some experts only are not modelled", "Set it to false.")
    if k.optional("num_mtp_layers"):
        k.assumptions.append("Multi-token prediction layers are left out.")
    rotary = k.count("qk_rope_head_dim")
    return (
        rms_blocks(k)
        | attention_bias(k)
        | experts(k)
        | {
            "kv_heads": 0,
            "head_dim": k.count("qk_nope_head_dim") + rotary,
            "moe_ffn": k.count("moe_intermediate_size"),
            "shared_experts": k.optional("n_shared_experts"),
            **_groups(k),
            "dense_layers": k.optional("first_k_dense_replace"),
            "kv_lora_rank": k.count("kv_lora_rank"),
            "q_lora_rank": k.optional("q_lora_rank"),
            "qk_rope_head_dim": rotary,
            "v_head_dim": k.count("v_head_dim"),
        }
    )


def _groups(k: Keys) -> dict[str, Any]:
    """Groups of experts, where a token cannot choose from all of them."""
    groups, chosen = k.optional("n_group"), k.optional("topk_group")
    return {"expert_groups": groups, "top_groups": chosen} if 0 < chosen < groups else {}


def gpt_oss(k: Keys) -> dict[str, Any]:
    """GPT-OSS: biases in router and experts, attention sinks, every second layer without a window."""
    fields = rms_blocks(k) | attention_bias(k) | experts(k)
    sliding = [index % 2 == 0 for index in range(fields["layers"])]
    always = {"ffn_bias": True, "router_bias": True, "attention_sinks": True, "clamped_ffn": True}
    return fields | always | windows(k, fields["layers"], sliding, "sliding_window")
