"""Llama of 16 blocks, width 2048: tensor and sequence parallel in two, blocks sharded and checkpointed, bf16."""

import os
import sys

import torch
import torch.distributed as dist
from llama2_model import ModelArgs, Transformer
from torch.distributed._tensor import Replicate, Shard
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

tp, batch, length = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
world = int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
mesh = init_device_mesh("cuda", (world // tp, tp), mesh_dim_names=("dp", "tp"))
torch.manual_seed(0)
model = Transformer.from_model_args(
    ModelArgs(dim=2048, n_layers=16, n_heads=16, vocab_size=32000, max_seq_len=length)
).cuda()
if tp > 1:
    parallelize_module(
        model,
        mesh["tp"],
        {
            "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        },
    )
    for block in model.layers:
        parallelize_module(
            block,
            mesh["tp"],
            {
                "attention_norm": SequenceParallel(),
                "attention": PrepareModuleInput(
                    input_layouts=(Shard(1), Replicate()), desired_input_layouts=(Replicate(), Replicate())
                ),
                "attention.wq": ColwiseParallel(use_local_output=False),
                "attention.wk": ColwiseParallel(use_local_output=False),
                "attention.wv": ColwiseParallel(use_local_output=False),
                "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
                "ffn_norm": SequenceParallel(),
                "feed_forward": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
                "feed_forward.w1": ColwiseParallel(),
                "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1)),
                "feed_forward.w3": ColwiseParallel(),
            },
        )
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for number, block in enumerate(model.layers):
    if "checkpointed" in sys.argv:
        block = model.layers[number] = checkpoint_wrapper(block)
    fully_shard(block, mesh=mesh["dp"], mp_policy=policy)
fully_shard(model, mesh=mesh["dp"], mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused="fused" in sys.argv)
for step in range(60):
    ids = torch.randint(0, 32000, (batch, length), device="cuda")
    out = model(ids)
    loss = torch.nn.functional.cross_entropy(out.flatten(0, 1).float(), ids.flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    if step % 10 == 0 and dist.get_rank() == 0:
        print(step, loss.item())
dist.destroy_process_group()
