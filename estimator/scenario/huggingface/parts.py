"""Parts: what several families write alike: sizes, windows of attention, experts."""

from __future__ import annotations

from typing import Any

from estimator.scenario.huggingface.keys import Keys

ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "relu": "relu",
}
SLIDING, FULL = "sliding_attention", "full_attention"


def rms_blocks(k: Keys) -> dict[str, Any]:
    """Return the fields of a Llama-like block: RMSNorm, rotary positions, gated network, no biases."""
    return {
        "layers": k.count("num_hidden_layers"),
        "hidden": k.count("hidden_size"),
        "heads": k.count("num_attention_heads"),
        "kv_heads": k.optional("num_key_value_heads"),
        "head_dim": k.optional("head_dim"),
        "ffn": k.count("intermediate_size"),
        "vocab": k.count("vocab_size"),
        "activation": activation(k),
        "tied_embedding": k.flag("tie_word_embeddings"),
    }


def activation(k: Keys) -> str:
    """Return the non-linearity, under the name that the family gives the key."""
    for key in ("activation_function", "hidden_activation", "hidden_act"):
        if k.value(key) is not None:
            return k.choice(key, ACTIVATIONS)
    return k.choice("hidden_act", ACTIVATIONS)


def attention_bias(k: Keys) -> dict[str, Any]:
    """Return biases of all four projections of attention, where the family's switch for them is on."""
    on = k.flag("attention_bias")
    return {"qkv_bias": on, "output_bias": on}


def windows(k: Keys, layers: int, sliding: list[bool], key: str) -> dict[str, Any]:
    """Return the window and how often a layer has none; ``key`` named the pattern unless ``layer_types`` did.

    A Model has windows in all layers, or in all but every n-th.
    """
    types = k.value("layer_types")
    if types is not None:
        key = "layer_types"
        if not isinstance(types, list) or len(types) != layers or not set(map(str, types)) <= {SLIDING, FULL}:
            k.refuse(key, f"must name {SLIDING} or {FULL} for each of {layers} layers", "Correct it or leave it out.")
            return {}
        sliding = [kind == SLIDING for kind in types]
    if not any(sliding):
        return {}
    window = k.optional("sliding_window")
    if not window:
        return {}
    if all(sliding):
        return {"sliding_window": window}
    every = sliding.index(False) + 1
    if sliding != [(index + 1) % every != 0 for index in range(layers)]:
        message = "mixes sliding and full attention other than by every n-th layer, which is not modelled"
        k.refuse(key, message, "Make every n-th layer full_attention, or all layers alike.")
        return {}
    return {"sliding_window": window, "full_attention_every": every}


def qwen_experts(k: Keys) -> dict[str, Any]:
    """Return the experts of Qwen's families: every ``decoder_sparse_step``-th layer but ``mlp_only_layers``."""
    dense = sorted(set(k.whole_numbers("mlp_only_layers")))
    if dense != list(range(len(dense))):
        message = "leaves out layers other than the first, which is not modelled"
        k.refuse("mlp_only_layers", message, "Give the first layers, as in [0, 1], or none.")
    return experts(k) | {
        "moe_ffn": k.count("moe_intermediate_size"),
        "dense_layers": len(dense),
        "moe_every": k.count("decoder_sparse_step"),
    }


def experts(k: Keys) -> dict[str, Any]:
    """Return how many experts there are and how many a token meets."""
    return {"experts": k.count("num_experts"), "top_k": k.count("num_experts_per_tok")}
