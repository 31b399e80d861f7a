"""The Llama of tests/reference/ops under what is named: ddp, fsdp, tensor, pipeline (two stages of four)."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

sys.path.insert(0, str(Path(__file__).parents[3] / "reference" / "ops"))
import llama
from llama import BATCH, HIDDEN, SEQUENCE, VOCAB, Llama

COLUMNS = ("attention.q", "attention.k", "attention.v", "mlp.gate", "mlp.up")
MICRO_BATCHES = 4
how = sys.argv[1]
ranks = int(os.environ.get("WORLD_SIZE", "1"))
if ranks > 1:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")


class Part(Llama):
    """The first or the last half of its layers, with what stands at that end."""

    def __init__(self, last):
        super().__init__()
        if last:
            del self.embedding, self.layers[: llama.LAYERS // 2]
        else:
            del self.norm, self.head, self.layers[llama.LAYERS // 2 :]

    def forward(self, x):
        places = torch.arange(SEQUENCE, device=x.device)[:, None]
        angles = places / 10000 ** (torch.arange(0, llama.WIDE, 2, device=x.device) / llama.WIDE)
        angles = torch.cat((angles, angles), dim=-1)
        x = self.embedding(x) if hasattr(self, "embedding") else x
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x)) if hasattr(self, "head") else x


def loss_of(logits, targets):
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


if how == "pipeline":
    rank = dist.get_rank()
    model: nn.Module = Part(last=rank == 1).to("cuda", torch.bfloat16)
    tokens = torch.zeros(BATCH, SEQUENCE, dtype=torch.long, device="cuda")
    between = torch.zeros(BATCH, SEQUENCE, HIDDEN, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    logits = torch.zeros(BATCH, SEQUENCE, VOCAB, dtype=torch.bfloat16, device="cuda")
    given, made = (between, logits) if rank else (tokens, between)
    stage = PipelineStage(model, rank, 2, torch.device("cuda"), input_args=(given,), output_args=(made,))
    schedule = Schedule1F1B(stage, MICRO_BATCHES, loss_fn=loss_of, scale_grads=False)
else:
    model = Llama().to("cuda", torch.bfloat16)
if how == "tensor":
    mesh = init_device_mesh("cuda", (ranks,))
    plan = {name: ColwiseParallel() for name in COLUMNS} | {
        "attention.o": RowwiseParallel(),
        "mlp.down": RowwiseParallel(),
    }
    for layer in model.layers:
        parallelize_module(layer, mesh, plan)
if how == "fsdp":
    for part in (*model.layers, model):
        fully_shard(part)
whole = nn.parallel.DistributedDataParallel(model) if how == "ddp" else model
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=None if how != "tensor" else False)
for _ in range(3):
    batch = BATCH * (MICRO_BATCHES if how == "pipeline" else 1)
    tokens = torch.randint(0, VOCAB, (batch, SEQUENCE + 1), device="cuda")
    if how == "pipeline":
        schedule.step(*(() if rank else (tokens[:, :-1],)), target=tokens[:, 1:] if rank else None)
    else:
        logits = whole(tokens[:, :-1])
        loss = loss_of(logits, tokens[:, 1:])
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
