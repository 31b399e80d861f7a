"""Architectures: each one's reader, and what its absent keys mean.

Defaults: the configuration files of transformers 5.23 (2026), src/transformers/models/; a config.json leaves out what
equals them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from estimator.scenario.huggingface import families
from estimator.scenario.huggingface.keys import Keys


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """One architecture: its ``model_type``, the function that reads it, and what its absent keys mean."""

    model_type: str
    read: Callable[[Keys], dict[str, Any]]
    defaults: Mapping[str, Any]


def _sizes(vocab: int, hidden: int, ffn: int, layers: int, heads: int, kv_heads: int | None = None) -> dict[str, Any]:
    return {
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "hidden_act": "silu",
    }


_QWEN_WINDOW = {"sliding_window": 4096, "max_window_layers": 28}
_GEMMA = {"head_dim": 256, "tie_word_embeddings": True, "hidden_act": "gelu_pytorch_tanh"}
_MLA = {"kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}

ARCHITECTURES: dict[str, Architecture] = {
    "LlamaForCausalLM": Architecture(
        model_type="llama", read=families.llama, defaults=_sizes(32000, 4096, 11008, 32, 32)
    ),
    "MistralForCausalLM": Architecture(
        model_type="mistral",
        read=families.mistral,
        defaults=_sizes(32000, 4096, 14336, 32, 32, 8) | {"sliding_window": 4096},
    ),
    "MixtralForCausalLM": Architecture(
        model_type="mixtral",
        read=families.mixtral,
        defaults=_sizes(32000, 4096, 14336, 32, 32, 8) | {"num_local_experts": 8, "num_experts_per_tok": 2},
    ),
    "Qwen2ForCausalLM": Architecture(
        model_type="qwen2", read=families.qwen2, defaults=_sizes(151936, 4096, 22016, 32, 32, 32) | _QWEN_WINDOW
    ),
    "Qwen2MoeForCausalLM": Architecture(
        model_type="qwen2_moe",
        read=families.qwen2_moe,
        defaults=_sizes(151936, 2048, 5632, 24, 16, 16)
        | _QWEN_WINDOW
        | {"num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408, "qkv_bias": True}
        | {"shared_expert_intermediate_size": 5632, "decoder_sparse_step": 1},
    ),
    "Qwen3ForCausalLM": Architecture(
        model_type="qwen3",
        read=families.qwen3,
        defaults=_sizes(151936, 4096, 22016, 32, 32, 32) | _QWEN_WINDOW | {"head_dim": 128},
    ),
    "Qwen3MoeForCausalLM": Architecture(
        model_type="qwen3_moe",
        read=families.qwen3_moe,
        defaults=_sizes(151936, 2048, 6144, 24, 32, 4)
        | {"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "decoder_sparse_step": 1}
        | {"sliding_window": 4096},
    ),
    "GPT2LMHeadModel": Architecture(
        model_type="gpt2",
        read=families.gpt2,
        defaults={"n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}
        | {"activation_function": "gelu_new", "tie_word_embeddings": True},
    ),
    "GPTNeoXForCausalLM": Architecture(
        model_type="gpt_neox",
        read=families.gpt_neox,
        defaults=_sizes(50432, 6144, 24576, 44, 64)
        | {"hidden_act": "gelu", "attention_bias": True, "use_parallel_residual": True},
    ),
    "GemmaForCausalLM": Architecture(
        model_type="gemma", read=families.gemma, defaults=_sizes(256000, 3072, 24576, 28, 16, 16) | _GEMMA
    ),
    "Gemma2ForCausalLM": Architecture(
        model_type="gemma2",
        read=families.gemma2,
        defaults=_sizes(256000, 2304, 9216, 26, 8, 4) | _GEMMA | {"sliding_window": 4096},
    ),
    "Gemma3ForCausalLM": Architecture(
        model_type="gemma3_text",
        read=families.gemma3,
        defaults=_sizes(262208, 2304, 9216, 26, 8, 4) | _GEMMA | {"sliding_window": 4096},
    ),
    "DeepseekV2ForCausalLM": Architecture(
        model_type="deepseek_v2",
        read=families.deepseek,
        defaults=_sizes(102400, 4096, 11008, 32, 32)
        | _MLA
        | {"n_routed_experts": 64, "n_shared_experts": 2, "moe_intermediate_size": 1407},
    ),
    "DeepseekV3ForCausalLM": Architecture(
        model_type="deepseek_v3",
        read=families.deepseek,
        defaults=_sizes(129280, 7168, 18432, 61, 128)
        | _MLA
        | {"n_routed_experts": 256, "n_shared_experts": 1, "moe_intermediate_size": 2048}
        | {"num_experts_per_tok": 8, "first_k_dense_replace": 3, "num_nextn_predict_layers": 1},
    ),
    "GptOssForCausalLM": Architecture(
        model_type="gpt_oss",
        read=families.gpt_oss,
        defaults=_sizes(201088, 2880, 2880, 36, 64, 8)
        | {"head_dim": 64, "num_local_experts": 128, "num_experts_per_tok": 4, "sliding_window": 128}
        | {"attention_bias": True},
    ),
}
