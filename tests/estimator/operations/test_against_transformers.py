"""FLOPs against torch's own counter on small models of the transformers library, forward and backward."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from estimator.operations.transformer import network
from tests.estimator.operations.shapes import dims_of, flops

SHAPE = {"hidden": 64, "heads": 4, "vocab": 128}
SHARED = {"hidden_size": 64, "num_attention_heads": 4, "vocab_size": 128, "attn_implementation": "eager",
          "experts_implementation": "eager"}  # fmt: skip
CASES = {
    "mixtral": (
        "Mixtral",
        dict(**SHARED, num_hidden_layers=2, num_key_value_heads=2, intermediate_size=96, num_local_experts=4,
                      num_experts_per_tok=2),
        {**SHAPE, "layers": 2, "kv_heads": 2, "ffn": 96, "experts": 4, "top_k": 2},
    ),
    "qwen2-moe": (
        "Qwen2Moe",
        dict(**SHARED, num_hidden_layers=2, num_key_value_heads=2, intermediate_size=160,
                       moe_intermediate_size=48, shared_expert_intermediate_size=96, num_experts=8,
                       num_experts_per_tok=2),
        {**SHAPE, "layers": 2, "kv_heads": 2, "ffn": 160, "experts": 8, "top_k": 2, "moe_ffn": 48, "shared_experts": 2,
         "shared_expert_gate": True, "qkv_bias": True},
    ),
    "deepseek-v3": (
        "DeepseekV3",
        dict(**SHARED, num_hidden_layers=3, num_key_value_heads=4, intermediate_size=160,
                         moe_intermediate_size=48, n_routed_experts=8, num_experts_per_tok=2, n_group=2, topk_group=1,
                         n_shared_experts=1, first_k_dense_replace=1, q_lora_rank=24, kv_lora_rank=16,
                         qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=12),
        {**SHAPE, "layers": 3, "head_dim": 24, "ffn": 160, "experts": 8, "top_k": 2, "moe_ffn": 48, "shared_experts": 1,
         "dense_layers": 1, "q_lora_rank": 24, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "v_head_dim": 12},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_flops_of_models_with_experts_equal_torchs_counter(name):
    import transformers  # takes seconds

    kind, config, shape = CASES[name]
    module = getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, f"{kind}Config")(**config))
    tokens = torch.randint(0, 128, (3, 32), generator=torch.Generator().manual_seed(0))
    with FlopCounterMode(display=False) as counter:
        module(tokens, labels=tokens, use_cache=False).loss.backward()
    ops = network(dims_of(shape, {"micro_batch": 3}, seq_len=32, attention="eager", framework="pytorch-eager",
                          precision="fp32"))  # fmt: skip
    assert sum(block.layers * flops(block.ops) for block in ops.blocks) + flops(ops.head) == counter.get_total_flops()
