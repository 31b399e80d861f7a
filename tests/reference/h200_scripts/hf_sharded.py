"""A model of transformers on the ranks of torchrun: fsdp | tp | fsdp-reshard-off."""

import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
)

family, mode, batch, length = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
CONFIGS = {
    "llama": (
        AutoModelForCausalLM,
        {
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "vocab_size": 128256,
            "tie_word_embeddings": False,
        },
    ),
    "qwen3": (
        AutoModelForCausalLM,
        {
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "num_hidden_layers": 14,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "vocab_size": 151936,
            "tie_word_embeddings": False,
        },
    ),
    "mistral": (
        AutoModelForCausalLM,
        {
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 6,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "vocab_size": 32000,
            "tie_word_embeddings": False,
        },
    ),
    "gpt2": (
        AutoModelForCausalLM,
        {"n_embd": 1280, "n_layer": 36, "n_head": 20, "resid_pdrop": 0.0, "attn_pdrop": 0.0, "embd_pdrop": 0.0},
    ),
    "bert": (
        AutoModelForMaskedLM,
        {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16},
    ),
    "t5": (
        AutoModelForSeq2SeqLM,
        {"d_model": 1024, "d_ff": 4096, "num_layers": 24, "num_heads": 16, "d_kv": 64, "decoder_start_token_id": 0},
    ),
    "vit": (
        AutoModelForImageClassification,
        {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16},
    ),
}
auto, values = CONFIGS[family]
world = int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
mesh = init_device_mesh("cuda", (world,))
torch.manual_seed(0)
config = AutoConfig.for_model(family, **values)
model = auto.from_config(config).cuda()
if mode == "tp":
    model.to(torch.bfloat16)
    for layer in model.model.layers:
        parallelize_module(
            layer,
            mesh,
            {
                name: ColwiseParallel()
                for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
            }
            | {"self_attn.o_proj": RowwiseParallel(), "mlp.down_proj": RowwiseParallel()},
        )
else:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    blocks = {
        "llama": lambda m: m.model.layers,
        "qwen3": lambda m: m.model.layers,
        "mistral": lambda m: m.model.layers,
        "gpt2": lambda m: m.transformer.h,
        "bert": lambda m: m.bert.encoder.layer,
        "t5": lambda m: [*m.encoder.block, *m.decoder.block],
        "vit": lambda m: getattr(m.vit, "layers", None) or m.vit.encoder.layer,
    }[family](model)
    for block in blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward="keep" not in mode)
    fully_shard(model, mesh=mesh, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False if mode == "tp" else None)
if family == "vit":
    given = {
        "pixel_values": torch.randn(batch, 3, 224, 224, device="cuda"),
        "labels": torch.randint(0, 2, (batch,), device="cuda"),
    }
else:
    ids = torch.randint(0, config.vocab_size, (batch, length), device="cuda")
    given = {"input_ids": ids, "labels": ids}
for _step in range(40):
    loss = model(**given).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
