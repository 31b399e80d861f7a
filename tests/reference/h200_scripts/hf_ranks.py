"""A model of transformers on torchrun's ranks: NAME, ddp | fsdp | fsdp-keep | fsdp-checkpointed | tp, BATCH, LENGTH."""

import os
import sys
from contextlib import nullcontext

import torch
import torch.distributed as dist
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel


def decoder(kind, width, layers, heads, groups, inner, vocabulary, **more):
    return "AutoModelForCausalLM", {
        "model_type": kind, "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": groups, "intermediate_size": inner, "vocab_size": vocabulary,
        "max_position_embeddings": 8192, **more,
    }  # fmt: skip


def encoder(auto, kind, width, layers, **more):
    sizes = {"num_attention_heads": width // 64, "intermediate_size": 4 * width, "num_hidden_layers": layers}
    return auto, {"model_type": kind, "hidden_size": width, **sizes, **more}


MODELS = {
    "llama-700m": decoder("llama", 1536, 20, 24, 24, 4096, 32000),
    "llama-2b": decoder("llama", 2560, 24, 20, 20, 6912, 32000),
    "llama-3b": decoder("llama", 3072, 12, 24, 8, 8192, 128256),
    "mistral": decoder("mistral", 4096, 8, 32, 8, 14336, 32768, sliding_window=None),
    "qwen2-0.5b": decoder("qwen2", 896, 24, 14, 2, 4864, 151936, tie_word_embeddings=True),
    "qwen2-7b": decoder("qwen2", 3584, 6, 28, 4, 18944, 152064),
    "qwen3-4b": decoder("qwen3", 2560, 12, 32, 8, 9728, 151936, head_dim=128),
    "phi3": decoder("phi3", 3072, 10, 32, 32, 8192, 32064, pad_token_id=0),
    "olmo2-1b": decoder("olmo2", 2048, 16, 16, 16, 8192, 100352),
    "pythia-1b": decoder("gpt_neox", 2048, 16, 16, 16, 8192, 50304),
    "gpt2-medium": (
        "AutoModelForCausalLM",
        {"model_type": "gpt2", "n_embd": 1024, "n_layer": 24, "n_head": 16, "vocab_size": 50304}
        | dict.fromkeys(("resid_pdrop", "attn_pdrop", "embd_pdrop"), 0.0),
    ),
    "bert-base": encoder("AutoModelForMaskedLM", "bert", 768, 12),
    "vit-base": encoder("AutoModelForImageClassification", "vit", 768, 12),
}
name, mode, batch, length = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
auto, values = MODELS[name]
here = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(here)
mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]),))
torch.manual_seed(0)
config = transformers.AutoConfig.for_model(**values)
model = getattr(transformers, auto).from_config(config).cuda()
model.config.use_cache = False
body = getattr(model, "model", None) or getattr(model, "gpt_neox", None)
if mode == "tp":
    model.to(torch.bfloat16)
    columns = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
    for layer in body.layers:
        plan = {part: ColwiseParallel() for part in columns}
        plan |= {part: RowwiseParallel() for part in ("self_attn.o_proj", "mlp.down_proj")}
        parallelize_module(layer, mesh, plan)
elif mode == "ddp":
    model = DistributedDataParallel(model, device_ids=[here])
else:
    if "checkpointed" in mode:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in body.layers:
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward="keep" not in mode)
    fully_shard(model, mesh=mesh, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False if mode == "tp" else None)
if "vit" in name:
    given = {"pixel_values": torch.randn(batch, 3, 224, 224, device="cuda")}
    given["labels"] = torch.randint(0, 2, (batch,), device="cuda")
else:
    ids = torch.randint(0, config.vocab_size, (batch, length), device="cuda")
    given = {"input_ids": ids, "labels": ids}
for _step in range(40):
    with torch.autocast("cuda", dtype=torch.bfloat16) if mode == "ddp" else nullcontext():
        loss = model(**given).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
