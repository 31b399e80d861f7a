"""A model of transformers on torchrun's ranks: NAME, ddp | fsdp | fsdp-keep | fsdp-checkpointed | tp, BATCH, LENGTH.

Behind ddp, fsdp and tp ``-compiled``: the module as a whole, under FSDP2 each block.
"""

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


def gpt2(width, layers, heads):
    dropout = dict.fromkeys(("resid_pdrop", "attn_pdrop", "embd_pdrop"), 0.0)
    sizes = {"n_embd": width, "n_layer": layers, "n_head": heads, "vocab_size": 50304}
    return "AutoModelForCausalLM", {"model_type": "gpt2", **sizes, **dropout}


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
    "gpt2-medium": gpt2(1024, 24, 16),
    "llama-1.2b": decoder("llama", 1792, 18, 28, 14, 4864, 32000),
    "llama-1.1b": decoder("llama", 2304, 11, 18, 6, 6144, 32000),
    "llama-2.4b": decoder("llama", 3584, 8, 28, 4, 9728, 128256),
    "llama-1.8k": decoder("llama", 1792, 10, 14, 14, 4864, 32000),
    "mistral-3k": decoder("mistral", 3072, 7, 24, 8, 10752, 32768, sliding_window=None),
    "mixtral-1.3k": decoder(
        "mixtral", 1280, 4, 20, 4, 4480, 32000, num_local_experts=8, num_experts_per_tok=2, sliding_window=None
    ),
    "qwen2-1.5k": decoder("qwen2", 1536, 14, 12, 2, 8960, 151936, tie_word_embeddings=True),
    "qwen3-2k": decoder("qwen3", 2048, 9, 16, 8, 6144, 151936, head_dim=128),
    "gemma2-2k": decoder(
        "gemma2", 2048, 9, 8, 4, 8192, 256000, head_dim=256, query_pre_attn_scalar=256, attn_implementation="eager"
    ),
    "deepseek-v2": decoder(
        "deepseek_v2",
        1280,
        5,
        10,
        10,
        5120,
        65536,
        moe_intermediate_size=1024,
        n_routed_experts=16,
        n_shared_experts=1,
        num_experts_per_tok=4,
        first_k_dense_replace=1,
        kv_lora_rank=512,
        q_lora_rank=None,
        qk_rope_head_dim=64,
        qk_nope_head_dim=128,
        v_head_dim=128,
    ),
    "gpt2-1.2k": gpt2(1280, 16, 20),
    "gpt2-1k-host": gpt2(768, 14, 12),
    "t5-896": (
        "AutoModelForSeq2SeqLM",
        {
            "model_type": "t5",
            "d_model": 896,
            "d_ff": 3584,
            "d_kv": 64,
            "num_heads": 14,
            "vocab_size": 32128,
            "decoder_start_token_id": 0,
            "pad_token_id": 0,
            "num_layers": 9,
            "num_decoder_layers": 9,
        },
    ),
    "whisper-768": (
        "AutoModelForSpeechSeq2Seq",
        {
            "model_type": "whisper",
            "num_mel_bins": 80,
            "vocab_size": 51865,
            "d_model": 768,
            "encoder_layers": 9,
            "decoder_layers": 9,
            "encoder_attention_heads": 12,
            "decoder_attention_heads": 12,
            "encoder_ffn_dim": 3072,
            "decoder_ffn_dim": 3072,
        },
    ),
    "resnet-50": (
        "AutoModelForImageClassification",
        {"model_type": "resnet", "depths": [3, 4, 6, 3], "hidden_sizes": [256, 512, 1024, 2048]},
    ),
    "bert-1k": encoder("AutoModelForMaskedLM", "bert", 1152, 18),
    "vit-1.2k": encoder("AutoModelForImageClassification", "vit", 1280, 14),
    "bert-base": encoder("AutoModelForMaskedLM", "bert", 768, 12),
    "vit-base": encoder("AutoModelForImageClassification", "vit", 768, 12),
    "llama-1.6k": decoder("llama", 1664, 14, 26, 13, 4480, 32000),
    "llama-2.9k": decoder("llama", 2944, 11, 23, 23, 7936, 32000),
    "llama-3.3k": decoder("llama", 3328, 7, 26, 26, 8960, 32000),
    "llama-1.9k": decoder("llama", 1920, 9, 30, 10, 5120, 32000),
    "mistral-2.8k": decoder("mistral", 2816, 9, 22, 2, 9728, 32768, sliding_window=None),
    "mistral-3.6k": decoder("mistral", 3584, 6, 28, 4, 12288, 32768, sliding_window=None),
    "qwen2-832": decoder("qwen2", 832, 11, 13, 1, 3328, 64000, tie_word_embeddings=True),
    "qwen2-2.6k": decoder("qwen2", 2560, 8, 20, 4, 10240, 64000),
    "qwen3-2.8k": decoder("qwen3", 2816, 7, 22, 11, 8448, 151936, head_dim=128),
    "olmo2-1.7k": decoder("olmo2", 1664, 12, 13, 13, 6656, 100352),
    "pythia-2.2k": decoder("gpt_neox", 2176, 10, 17, 17, 8704, 50304),
    "phi3-2k": decoder("phi3", 2048, 11, 32, 32, 5632, 32064, pad_token_id=0),
    "gpt2-1344": gpt2(1344, 12, 21),
    "bert-1216": encoder("AutoModelForMaskedLM", "bert", 1216, 11),
    "vit-896": encoder("AutoModelForImageClassification", "vit", 896, 14),
    "llama-1.5k": decoder("llama", 1536, 16, 24, 24, 4160, 32000),
    "llama-3.2k": decoder("llama", 3200, 10, 25, 5, 8576, 32000),
    "llama-3.6k": decoder("llama", 3584, 6, 28, 14, 9600, 32000),
    "llama-2.2k": decoder("llama", 2176, 8, 34, 34, 5824, 32000),
    "mistral-2.4k": decoder("mistral", 2432, 10, 19, 19, 8320, 32768, sliding_window=None),
    "mistral-3.1k": decoder("mistral", 3072, 8, 24, 6, 10496, 32768, sliding_window=None),
    "qwen2-1k": decoder("qwen2", 1024, 12, 16, 4, 4096, 64000, tie_word_embeddings=True),
    "qwen2-2.3k": decoder("qwen2", 2304, 10, 18, 2, 9216, 64000),
    "qwen3-2.2k": decoder("qwen3", 2176, 9, 17, 17, 6528, 151936, head_dim=128),
    "olmo2-1.9k": decoder("olmo2", 1920, 10, 15, 15, 7680, 100352),
    "pythia-2.6k": decoder("gpt_neox", 2560, 8, 20, 20, 10240, 50304),
    "mixtral-1.2k": decoder(
        "mixtral", 1216, 5, 19, 19, 3392, 32000, num_local_experts=6, num_experts_per_tok=2, sliding_window=None
    ),
    "gpt2-1472": gpt2(1472, 11, 23),
    "bert-1088": encoder("AutoModelForMaskedLM", "bert", 1088, 13),
    "vit-1088": encoder("AutoModelForImageClassification", "vit", 1088, 12),
    "llama-1.7k": decoder("llama", 1728, 13, 27, 9, 4672, 32000),
    "llama-2.8k": decoder("llama", 2816, 11, 22, 11, 7552, 32000),
    "llama-3.8k": decoder("llama", 3840, 5, 30, 10, 10240, 32000),
    "llama-2.5k": decoder("llama", 2560, 8, 20, 10, 6912, 32000),
    "mistral-2.9k": decoder("mistral", 2944, 8, 23, 23, 9984, 32768, sliding_window=None),
    "mistral-2.3k": decoder("mistral", 2304, 9, 18, 6, 8192, 32768, sliding_window=None),
    "qwen2-2.4k": decoder("qwen2", 2432, 9, 19, 1, 9728, 64000),
    "qwen2-2.8k": decoder("qwen2", 2816, 8, 22, 2, 11264, 64000),
    "qwen3-1.2k": decoder("qwen3", 1216, 10, 10, 5, 3648, 151936, head_dim=128, tie_word_embeddings=True),
    "olmo2-2.2k": decoder("olmo2", 2176, 8, 17, 17, 8704, 100352),
    "phi3-2.3k": decoder("phi3", 2304, 9, 36, 36, 6144, 32064, pad_token_id=0),
    "gpt2-1600": gpt2(1600, 10, 25),
    "bert-960": encoder("AutoModelForMaskedLM", "bert", 960, 15),
    "vit-1152": encoder("AutoModelForImageClassification", "vit", 1152, 11),
    "llama-1.3k": decoder("llama", 1344, 15, 21, 7, 3584, 32000),
    "llama-3b-28l": decoder("llama", 3072, 28, 24, 8, 8192, 128256),
    "llama-8b-30l": decoder("llama", 4096, 30, 32, 8, 14336, 128256),
    "llama-3.5k": decoder("llama", 3584, 7, 28, 2, 9600, 32000),
    "llama-2.1k": decoder("llama", 2048, 9, 16, 8, 5504, 32000),
    "mistral-2.7k": decoder("mistral", 2688, 8, 21, 7, 9216, 32768, sliding_window=None),
    "mistral-3.3k-7l": decoder("mistral", 3328, 7, 26, 26, 11264, 32768, sliding_window=None),
    "qwen2-2.2k": decoder("qwen2", 2176, 9, 17, 1, 8704, 64000),
    "qwen2-2k": decoder("qwen2", 2048, 9, 16, 4, 8192, 64000),
    "qwen3-1.4k": decoder("qwen3", 1408, 9, 11, 11, 4224, 151936, head_dim=128, tie_word_embeddings=True),
    "olmo2-2.4k": decoder("olmo2", 2432, 7, 19, 19, 9728, 100352),
    "pythia-2k": decoder("gpt_neox", 1920, 11, 15, 15, 7680, 50304),
    "gpt2-1088": gpt2(1088, 14, 17),
    "bert-1344": encoder("AutoModelForMaskedLM", "bert", 1344, 9),
    "vit-1344": encoder("AutoModelForImageClassification", "vit", 1344, 9),
    "llama-1.4b": decoder("llama", 1920, 18, 30, 10, 5376, 32000),
    "llama-2.6k": decoder("llama", 2688, 14, 21, 7, 7168, 32000),
    "llama-4k": decoder("llama", 4096, 6, 32, 8, 11008, 128256),
    "llama-2.3k": decoder("llama", 2304, 12, 18, 6, 6144, 32000),
    "mistral-3.3k": decoder("mistral", 3328, 8, 26, 2, 11264, 32768, sliding_window=None),
    "mistral-2.6k": decoder("mistral", 2560, 10, 20, 4, 9216, 32768, sliding_window=None),
    "mixtral-1.5k": decoder(
        "mixtral", 1536, 4, 24, 8, 4096, 32000, num_local_experts=8, num_experts_per_tok=2, sliding_window=None
    ),
    "qwen2-640": decoder("qwen2", 640, 12, 10, 2, 2560, 151936, tie_word_embeddings=True),
    "qwen2-3k": decoder("qwen2", 3072, 7, 24, 4, 12288, 152064),
    "qwen3-2.3k": decoder("qwen3", 2304, 10, 18, 6, 6912, 151936, head_dim=128),
    "qwen3-2.6k": decoder("qwen3", 2560, 8, 20, 4, 7680, 151936, head_dim=128),
    "olmo2-1.5k": decoder("olmo2", 1536, 13, 12, 12, 6144, 100352),
    "pythia-1.8k": decoder("gpt_neox", 1792, 12, 14, 14, 7168, 50304),
    "gemma2-2.3k": decoder(
        "gemma2", 2304, 8, 9, 3, 9216, 256000, head_dim=256, query_pre_attn_scalar=256, attn_implementation="eager"
    ),
    "gpt2-1152": gpt2(1152, 15, 18),
    "bert-896": encoder("AutoModelForMaskedLM", "bert", 896, 14),
    "vit-1k": encoder("AutoModelForImageClassification", "vit", 1024, 13),
    "whisper-896": (
        "AutoModelForSpeechSeq2Seq",
        {
            "model_type": "whisper",
            "num_mel_bins": 80,
            "vocab_size": 51865,
            "d_model": 896,
            "encoder_layers": 8,
            "decoder_layers": 8,
            "encoder_attention_heads": 14,
            "decoder_attention_heads": 14,
            "encoder_ffn_dim": 3584,
            "decoder_ffn_dim": 3584,
        },
    ),
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
names = ("model", "gpt_neox", "transformer", "bert", "vit")
body = next((getattr(model, name) for name in names if hasattr(model, name)), None)
body = getattr(body, "encoder", body)
blocks = next((getattr(body, name) for name in ("layers", "layer", "h") if hasattr(body, name)), None)
whole = torch.compile if "compiled" in mode else lambda module: module
if "tp" in mode:
    model.to(torch.bfloat16)
    columns = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
    for layer in blocks:
        plan = {part: ColwiseParallel() for part in columns}
        plan |= {part: RowwiseParallel() for part in ("self_attn.o_proj", "mlp.down_proj")}
        parallelize_module(layer, mesh, plan)
    model = whole(model)
elif "ddp" in mode:
    model = DistributedDataParallel(whole(model), device_ids=[here])
else:
    if "checkpointed" in mode:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in blocks:
        if "compiled" in mode:
            block.compile()
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward="keep" not in mode)
    fully_shard(model, mesh=mesh, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False if "tp" in mode else None)
if "vit" in name or "resnet" in name:
    given = {"pixel_values": torch.randn(batch, 3, 224, 224, device="cuda")}
    given["labels"] = torch.randint(0, 2, (batch,), device="cuda")
else:
    ids = torch.randint(0, config.vocab_size, (batch, length), device="cuda")
    given = {"input_ids": ids, "labels": ids}
    if "whisper" in name:
        given = {"input_features": torch.randn(batch, 80, 3000, device="cuda"), "labels": ids}
for _step in range(40):
    with torch.autocast("cuda", dtype=torch.bfloat16) if "ddp" in mode else nullcontext():
        loss = model(**given).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
